"""P-FedAvg (ToN 2022), Table IV and Figure 3: its models, and its five topologies, as they are built here."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from paceline.papers.pfedavg.iterations import TASKS, Task
from paceline.papers.pfedavg.printed import LINKS, SERVERS, TABLE4
from paceline.papers.pfedavg.theory import GRAPHS
from paceline.papers.pictures import new_figure
from paceline.papers.result import Reproduction, Request, Row, claimed, compared
from paceline.topology import Graph, make_mixing, parse_graph

# -- Table IV -------------------------------------------------------------------------------------------------------

BITS = 32
"""Of a parameter."""


def table4(request: Request) -> Reproduction:
    """Parameters and sizes of the three models, counted on the shipped networks."""
    rows = [row for task in TASKS for row in _model_rows(task)]
    note = (
        "Thousands of parameters, and megabits at 32 bits each, of the networks that the trained figures use; the"
        " paper cuts off what is below a thousand and rounds megabits. Milliseconds of an iteration are the paper's,"
        " of a V100, and are inputs of pfedavg-table5 and of Figures 6 and 7; ours are not measured, since other"
        " hardware would say nothing about them."
    )
    return Reproduction(rows=rows, note=note)


def _model_rows(task: Task) -> list[Row]:
    space = task.space()
    parameters, biases = space.size, sum(slot.stop - slot.start for slot in space.slots if len(slot.shape) == 1)
    thousands, mbit, milliseconds = TABLE4[task.name]
    without = math.floor((parameters - biases) / 1000)
    note = "" if math.floor(parameters / 1000) == thousands else WEIGHTS
    counted = without if note else math.floor(parameters / 1000)
    return [
        Row(f"{task.name}, {task.model}: parameters, all", None, float(parameters)),
        compared(f"{task.name}, {task.model}: parameters", thousands, counted, within=0, unit="1000", note=note),
        compared(f"{task.name}, {task.model}: size", mbit, parameters * BITS / 1e6, within=0.5, unit="Mbit"),
        Row(
            f"{task.name}, {task.model}: an iteration", milliseconds, None, "ms", None, "an input, not computed here"
        ),
    ]


WEIGHTS = "406 are the weights without the biases; with them it would be 407"

# -- Figure 3 -------------------------------------------------------------------------------------------------------


def fig3(request: Request) -> Reproduction:
    """The five topologies of nine servers: their links and degrees, and a drawing of each."""
    graphs = {name: parse_graph(word) for name, word in GRAPHS.items()}
    rows: list[Row] = []
    for name, graph in graphs.items():
        busiest, links = LINKS[name]
        rows += [
            compared(f"{name}: servers", SERVERS, graph.nodes, within=0),
            compared(f"{name}: links", links, len(graph.edges), within=0),
            compared(f"{name}: links of the busiest server", busiest, max(graph.degrees), within=0),
            Row(f"{name}: farthest servers apart", None, float(_diameter(graph)), "links"),
            Row(f"{name}: p, Metropolis weights", None, make_mixing(graph, "metropolis").p),
        ]
    even = len(set(graphs["torus"].degrees)) == 1
    rows.append(claimed("torus: every server has four neighbours", "yes", "yes" if even else "no", even))
    note = (
        "The paper draws the graphs; numbers of links are Table III's terms for nine servers. Its tree is not known"
        " but for the largest degree, 3; here it is the binary heap (PF-E2)."
    )
    return Reproduction(rows=rows, note=note, figure=lambda: _draw(graphs))


def _diameter(graph: Graph) -> int:
    """The largest number of links on a shortest path."""
    far = np.full((graph.nodes, graph.nodes), graph.nodes, int)
    np.fill_diagonal(far, 0)
    for i, j in graph.edges:
        far[i, j] = far[j, i] = 1
    for k in range(graph.nodes):
        far = np.minimum(far, far[:, [k]] + far[[k], :])
    return int(far.max())


def _draw(graphs: dict[str, Graph]) -> Any:
    figure = new_figure((11, 2.9), "P-FedAvg, Figure 3: five topologies of nine servers")
    for ax, (name, graph) in zip(figure.subplots(1, len(graphs)), graphs.items(), strict=True):
        places = _places(name, graph)
        for i, j in graph.edges:
            bend = 0.35 if name == "torus" and np.linalg.norm(places[i] - places[j]) > 1.5 else 0.0
            look = {
                "arrowstyle": "-",
                "color": "0.5",
                "connectionstyle": f"arc3,rad={bend}",
                "shrinkA": 0,
                "shrinkB": 0,
            }
            ax.annotate("", places[i], places[j], arrowprops=look)
        ax.plot(*places.T, "o", color="C0", markersize=7)
        ax.set_title(f"{name}, {len(graph.edges)} links", fontsize=10)
        ax.margins(0.25)
        ax.set_aspect("equal")
        ax.set_axis_off()
    return figure


def _places(name: str, graph: Graph) -> Any:
    """Where servers are drawn: a square, levels, two triangles with a bridge, or a circle."""
    nodes = np.arange(graph.nodes)
    if name == "torus":
        return np.stack([nodes % 3, -(nodes // 3)], axis=1).astype(float)
    if name == "tree":
        level = np.floor(np.log2(nodes + 1))
        across = (nodes + 1 - 2**level + 0.5) / 2**level
        return np.stack([3 * across, -level], axis=1)
    if name == "barbell":
        left, right = [(0, 0.8), (0, -0.8), (0.8, 0)], [(4.0, 0), (4.8, 0.8), (4.8, -0.8)]
        return np.array([*left, *((1.6 + 0.8 * k, 0) for k in range(graph.nodes - 6)), *right])
    angle = 2 * np.pi * nodes / graph.nodes + np.pi / 2
    return np.stack([np.cos(angle), np.sin(angle)], axis=1)
