"""P-FedAvg (ToN 2022) without training: consensus rates, Table III, and the rates of Figure 8.

Everything is computed from graphs and mixing matrices of ``topology``.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from paceline.papers.pfedavg.printed import FIGURE_8, LINKS, ORDER, SERVERS, TOLERANCE, P
from paceline.papers.pictures import new_figure, plain
from paceline.papers.result import Reproduction, Request, Row, claimed, compared
from paceline.topology import Graph, make_mixing, parse_graph, random_graph

Array = NDArray[np.float64]

GRAPHS = {"complete": "complete:9", "torus": "torus:3x3", "tree": "tree:9", "ring": "ring:9",
          "barbell": "barbell:3,3"}  # fmt: skip
"""The five topologies of 9 servers; the tree is the binary heap (PF-E2)."""
CLIENTS = 36

# -- consensus rates ----------------------------------------------------------------------------------------------


def rates(request: Request) -> Reproduction:
    """PF-T1: p of five topologies with the paper's weights, and what the best weights make of them (PF-8)."""
    graphs = {name: parse_graph(word) for name, word in GRAPHS.items()}
    rows = []
    for name, graph in graphs.items():
        p, note = make_mixing(graph, "metropolis").p, TREE if name == "tree" else ""
        rows.append(compared(f"{name}: p, Metropolis weights", P[name], p, within=0.005, note=note))
    for name, graph in graphs.items():
        best, signed = make_mixing(graph), make_mixing(graph, signed=True)
        rows.append(Row(f"{name}: p, optimal weights", None, best.p))
        if signed.p - best.p > 1e-4:
            note = "PF-E3: Eq. 21 does not ask for weights >= 0, Section III-B does"
            rows.append(Row(f"{name}: p, optimal weights of either sign", None, signed.p, note=note))
    unsquared = ", ".join(
        f"{1 - make_mixing(graphs[n], 'metropolis').factor:.2f} {n}" for n in ("torus", "ring", "barbell")
    )
    note = (
        "p = 1 - ‖W - J‖², with the square (PF-E1): without it the numbers would be"
        f" {unsquared}. Tolerance: 0.005, half of the last printed digit. Optimal weights are certified to 1e-6 in λ."
    )
    return Reproduction(rows=rows, note=note)


TREE = (
    "PF-E2: the paper does not say which tree of 9 servers; no usual one gives 0.12 with its weights. This is the"
    " binary heap, whose largest degree is Table III's 3"
)


# -- Table III ------------------------------------------------------------------------------------------------------

RATE_CLIENTS, RATE_SERVERS = 1.0, 2.0
"""b and B of Table III: models a second between a server and its clients, and through a server to its neighbours."""
SIZES = {
    "complete": ("complete:60", "complete:120"),
    "torus": ("torus:10x10", "torus:20x20"),
    "tree": ("tree:127", "tree:255"),
    "ring": ("ring:60", "ring:120"),
    "barbell": ("barbell:40,40", "barbell:80,80"),
}
"""Pairs of graphs between which the order of p is measured."""


def transfers(graph: Graph, clients: int) -> Iterator[tuple[str, str]]:
    """Who sends a model to whom in one round: down to clients and up again, then each server to its neighbours."""
    for client in range(clients):
        server, device = f"server {client % graph.nodes}", f"client {client}"
        yield server, device
        yield device, server
    for k, near in enumerate(graph.neighbours):
        for other in near:
            yield f"server {k}", f"server {other}"


def traffic(graph: Graph, clients: int) -> tuple[int, int, float]:
    """Models through the busiest server, models in all, and seconds of a round where servers are the bottleneck."""
    through: Counter[str] = Counter()
    outgoing: Counter[str] = Counter()
    local: Counter[str] = Counter()
    total = 0
    for sender, receiver in transfers(graph, clients):
        total += 1
        through.update((sender, receiver))
        if sender.startswith("server") and receiver.startswith("server"):
            outgoing[sender] += 1
        else:
            local[sender if sender.startswith("server") else receiver] += 1
    # All links of a server share its capacity, and a link is as slow as the slower of its ends (PF-10).
    slowest = max(local.values()) / RATE_CLIENTS + max(outgoing.values(), default=0) / RATE_SERVERS
    return max(through.values()), total, slowest


def table3(request: Request) -> Reproduction:
    """PF-9, PF-E5: the formulas for 9 servers and 36 clients, against counts over the graphs themselves."""
    rows: list[Row] = []
    for name, word in GRAPHS.items():
        graph = parse_graph(word)
        peak, total, seconds = traffic(graph, CLIENTS)
        busiest, links = LINKS[name]
        slowest = 2 * CLIENTS / (SERVERS * RATE_CLIENTS) + busiest / RATE_SERVERS
        rows += [
            compared(f"{name}: peak traffic", 2 * (CLIENTS / SERVERS + busiest), peak, within=0, unit="models"),
            compared(f"{name}: total traffic", 2 * (CLIENTS + links), total, within=0, unit="models"),
            compared(f"{name}: time, servers as bottleneck", slowest, seconds, within=1e-9, unit="s"),
            *_tolerance(name, graph),
            _order(name),
        ]
    note = (
        f"The paper's column is its formula for M = {SERVERS}, K = {CLIENTS}, s = 1 model, b = {RATE_CLIENTS:g} and"
        f" B = {RATE_SERVERS:g} models a second; ours counts the transfers of one round on the graph. The tree's"
        " formulas are lower bounds, which the binary heap attains. The exponent of p is measured with Metropolis"
        " weights between two sizes; tolerance 0.1. Everything else must be equal."
    )
    return Reproduction(rows=rows, note=note)


def _tolerance(name: str, graph: Graph) -> list[Row]:
    printed, lost = TOLERANCE[name], graph.disconnection_tolerance
    note = "PF-E5: the printed number is the edge connectivity; so many links, if the wrong ones, already disconnect"
    return [
        compared(f"{name}: edge connectivity", printed, graph.edge_connectivity, within=0, unit="links"),
        compared(f"{name}: links that may fail", printed, lost, within=0, unit="links", note=note),
    ]


def order_of_rate(small: Graph, large: Graph) -> float:
    """The exponent with which p changes from one graph to the other as the number of servers does."""
    ratio = make_mixing(large, "metropolis").p / make_mixing(small, "metropolis").p
    return math.log(ratio) / math.log(large.nodes / small.nodes)


BARBELL = (
    "1/M³ is the order of a random walk, which leaves a node by each of its links alike and is found where there are"
    " most links; W is doubly stochastic, all nodes weigh the same, and p falls as 1/M² only"
)


def _order(name: str) -> Row:
    ours = order_of_rate(*(parse_graph(word) for word in SIZES[name]))
    note = BARBELL if name == "barbell" else ""
    return compared(f"{name}: exponent of M in p", ORDER[name], ours, within=0.1, note=note)


# -- Figure 8 -------------------------------------------------------------------------------------------------------

FIG8_WEIGHTS = {"optimal": "optimal", "uniform": "metropolis", "random": "random"}
"""Weights that are even among neighbours are not doubly stochastic; PF-7's come closest (PF-E4)."""
FIG8_EDGES = 18
GRAPHS_PER_SEED = 40


def fig8_samples(graphs: int) -> dict[str, Array]:
    """p of the three weightings over random graphs of 9 servers, edge probability 0.5 and mean degree 4."""
    drawn = [random_graph(SERVERS, 0.5, seed, edges=FIG8_EDGES) for seed in range(graphs)]
    return {
        name: np.array([make_mixing(graph, rule, seed=seed).p for seed, graph in enumerate(drawn)])
        for name, rule in FIG8_WEIGHTS.items()
    }


def fig8_rates(request: Request) -> Reproduction:
    """PF-T5, the half without training: the order of the three weightings."""
    samples = fig8_samples(GRAPHS_PER_SEED * request.seeds)
    rows: list[Row] = []
    for name, values in samples.items():
        low, middle, high = np.quantile(values, (0.05, 0.5, 0.95)).tolist()
        share = float(np.mean(values <= FIGURE_8[name]))
        note = (
            f"PF-E4: the paper's graph is unpublished, so its number is no target; {100 * share:.0f} % of our graphs"
            " have a p as low"
        )
        rows += [
            Row(f"{name}: p, median", FIGURE_8[name], middle, note=note),
            Row(f"{name}: p, 5 % quantile", None, low),
            Row(f"{name}: p, 95 % quantile", None, high),
        ]
    medians = {name: float(np.median(values)) for name, values in samples.items()}
    order = sorted(medians, key=lambda name: -medians[name])
    best, even, chance = (samples[name] for name in FIGURE_8)
    first = best >= np.maximum(even, chance)
    rows += [
        claimed("order of the medians", " > ".join(FIGURE_8), " > ".join(order), order == list(FIGURE_8)),
        Row("graphs on which optimal weights are best", None, 100 * float(np.mean(first)), "%"),
        Row("graphs in the paper's order", None, 100 * float(np.mean((best >= even) & (even > chance))), "%"),
    ]
    note = (
        f"Over {len(best)} connected random graphs of {SERVERS} servers and {FIG8_EDGES} links (edge probability 0.5,"
        " mean degree 4). uniform: PF-7's weights; random: draws scaled to row sums of at most 1, the rest on the"
        " diagonal. Only the order is compared."
    )
    return Reproduction(rows=rows, note=note, figure=lambda: _draw_rates(samples))


def _draw_rates(samples: dict[str, Array]) -> Any:
    figure = new_figure((6, 3.6), "P-FedAvg, consensus rate over random graphs")
    axes = figure.subplots()
    axes.boxplot(list(samples.values()), whis=(5, 95), showfliers=False)
    axes.set_xticks(range(1, len(samples) + 1), list(samples))
    printed = [FIGURE_8[name] for name in samples]
    axes.plot(range(1, len(samples) + 1), printed, "x", color="C3", label="paper's graph")
    axes.set(ylabel="p", ylim=(0, 1))
    plain(axes)
    axes.legend(frameon=False)
    return figure
