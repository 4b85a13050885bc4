"""P-FedAvg (ToN 2022): the experiments with training, Figures 4 and 8; the others are beside.

The paper prints curves and no numbers, so what it says in words is tested: with seeds in pairs (the same split, the
same initial model) and with intervals. A claim that these do not decide is left open.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache, partial
from itertools import pairwise
from pathlib import Path

import numpy as np

from paceline.papers.claims import Runs, ahead, all_of, by_seed, first_round, percent, percentage, whole
from paceline.papers.grid import Grid, Scene, Variant, by_variant
from paceline.papers.pfedavg.printed import FIGURE_8, SERVERS, P
from paceline.papers.pfedavg.scenes import MEASURES, NOTE, SORTED, scenes, tuned
from paceline.papers.pfedavg.theory import FIG8_EDGES, FIG8_WEIGHTS, GRAPHS
from paceline.papers.pictures import draw_lines, lines
from paceline.papers.result import Reproduction, Request, Row
from paceline.papers.trials import Finished, Laboratory, trained
from paceline.seeds import stream
from paceline.statistics import mean_interval
from paceline.topology import Graph, Mixing, make_mixing, parse_graph, random_graph

ORDER = ("complete", "torus", "ring", "tree", "barbell")
"""By p with the paper's weights: 1, 0.84, 0.2876, 0.0894 (PF-E2) and 0.0783."""


@dataclass(frozen=True)
class Overlay:
    """One topology or one weighting of nine servers."""

    name: str
    topology: str
    """As a setting."""
    graph: Graph
    weights: str = "metropolis"
    moves: bool = True
    """Whether its servers may change places: not where variants share one graph."""

    @property
    def mixing(self) -> Mixing:
        """Return the overlay's mixing matrix."""
        return make_mixing(self.graph, self.weights)

    def words(self) -> tuple[str, ...]:
        """Return the overlay as settings of P-FedAvg."""
        return f"p-fedavg.topology={self.topology}", f"p-fedavg.weights={self.weights}"

    def sorted(self, folder: Path, seed: int) -> tuple[str, ...]:
        """With servers that differ, at other places of the graph for every seed, lest a place favour a graph."""
        if not self.moves:
            return (*SORTED, *self.words())
        place = stream(seed, "p-fedavg", "placement").permutation(self.graph.nodes).tolist()
        moved = Graph.of(self.graph.nodes, ((place[i], place[j]) for i, j in self.graph.edges))
        file = write_graph(moved, folder / f"{self.name}-{seed}.txt")
        return (*SORTED, f"p-fedavg.topology={file}", f"p-fedavg.weights={self.weights}")


def write_graph(graph: Graph, file: Path) -> Path:
    """Write a graph as an edge list, and return the file."""
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text("".join(f"{i} {j}\n" for i, j in graph.edges), encoding="utf-8")
    return file


def lasting_disagreement(mixing: Mixing) -> float:
    """How far servers stay apart that each stray by 1 in every round: λ²/(1 - λ²) over all modes, for one server.

    p knows the largest of them only.
    """
    return round(mixing.lasting, 12)  # 0 for the complete graph


def topologies() -> list[Overlay]:
    """The five, with the paper's weights."""
    return [Overlay(name, GRAPHS[name], parse_graph(GRAPHS[name])) for name in ORDER]


@trained
def fig4(request: Request, laboratory: Laboratory) -> Reproduction:
    """PF-T2: convergence per round on five topologies is ordered by p."""
    return _ordered(request, laboratory, topologies(), "P-FedAvg, Figure 4: five topologies", P, ORDER_NOTE)


@trained
def fig8(request: Request, laboratory: Laboratory) -> Reproduction:
    """PF-T5: convergence per round with three weightings of one random graph is ordered by p."""
    graph = likely_graph()
    file = write_graph(graph, laboratory.root / "graph.txt")
    overlays = [Overlay(name, str(file), graph, rule, moves=False) for name, rule in FIG8_WEIGHTS.items()]
    title = "P-FedAvg, Figure 8: three weightings"
    return _ordered(request, laboratory, overlays, title, FIGURE_8, f"{ORDER_NOTE}{FIG8_NOTE}")


@lru_cache(maxsize=1)
def likely_graph(graphs: int = 200) -> Graph:
    """The one among random graphs of 9 servers and 18 links whose three p are nearest to the printed ones (PF-E4)."""

    def distance(graph: Graph) -> float:
        return max(abs(make_mixing(graph, rule).p - FIGURE_8[name]) for name, rule in FIG8_WEIGHTS.items())

    return min((random_graph(SERVERS, 0.5, seed, edges=FIG8_EDGES) for seed in range(graphs)), key=distance)


def _ordered(
    request: Request,
    laboratory: Laboratory,
    overlays: Sequence[Overlay],
    title: str,
    printed: Mapping[str, float],
    note: str,
) -> Reproduction:
    """All overlays in the paper's split and in ours; rows by dataset, split and evaluated model."""
    chosen, rows = tuned(laboratory, scenes(request, ("mnist", "cifar10")))
    found = train(laboratory, chosen, overlays, request.seeds, ("paper", "sorted"))
    for one in overlays:
        rows += [
            Row(f"{one.name}: p", printed[one.name], one.mixing.p),
            Row(f"{one.name}: lasting disagreement", None, lasting_disagreement(one.mixing)),
        ]
    together = sorted(overlays, key=lambda one: lasting_disagreement(one.mixing))
    otherwise = f"by lasting disagreement: {' > '.join(one.name for one in together)}"
    panels = {}
    for scene in chosen:
        for split, target in zip(("paper", "sorted"), scene.targets, strict=True):
            runs = {one.name: found[scene.name][f"{split}-{one.name}"] for one in overlays}
            for what, measure in MEASURES.items():
                where = f"{scene.name}, {split}, {what}"
                rows += order_rows(where, runs, measure, target, otherwise)
                panels[where] = {
                    f"{one.name}, p = {one.mixing.p:.2f}": lines(runs[one.name], measure) for one in overlays
                }
    return Reproduction(rows=rows, note=f"{note}{NOTE}", figure=lambda: draw_lines(panels, title))


def train(
    laboratory: Laboratory, chosen: Sequence[Scene], overlays: Sequence[Overlay], seeds: int, splits: Sequence[str]
) -> dict[str, dict[str, list[Finished]]]:
    """Every overlay in every split, all together; by scene, then by split and overlay."""
    folder = laboratory.root / "graphs"
    known = {
        "paper": [Variant(f"paper-{one.name}", words=one.words()) for one in overlays],
        "sorted": [Variant(f"sorted-{one.name}", words=partial(one.sorted, folder)) for one in overlays],
    }
    variants = [one for split in splits for one in known[split]]
    grid = Grid(scenes=chosen, methods=("p-fedavg",), variants=variants, seeds=seeds)
    found = grid.carry_out(laboratory)
    return {scene: by_variant(here) for scene, here in found.items()}


def order_rows(where: str, runs: Runs, measure: str, target: float, note: str = "") -> list[Row]:
    """Mean accuracy over the rounds of each overlay, the gaps between those next to each other, and the order."""
    means = {name: by_seed(those, percent(whole, measure)) for name, those in runs.items()}
    rows = [
        Row(f"{where}: {name}", None, percentage(values), "%", None, _arrival(runs[name], measure, target))
        for name, values in means.items()
    ]
    names = list(means)
    gaps = [ahead(one, other).row(where, means) for one, other in pairwise(names)]
    ends = ahead(names[0], names[-1]).row(where, means)
    order = sorted(names, key=lambda name: -np.mean([*means[name].values()]))
    verdict = all_of(row.ok for row in gaps)
    overall = Row(f"{where}: order", " > ".join(names), " > ".join(order), "", verdict, note)
    return [*rows, *gaps, ends, overall]


def _arrival(runs: Sequence[Finished], measure: str, target: float) -> str:
    rounds = [found for run in runs if np.isfinite(found := first_round(run, target, measure))]
    if not rounds:
        return f"{100 * target:g} % not reached"
    some = "" if len(rounds) == len(runs) else f", {len(rounds)} of {len(runs)} seeds"
    return f"{100 * target:g} % after {mean_interval(rounds)} rounds{some}"


ORDER_NOTE = (
    "Numbers are accuracies in percent, averaged over all rounds: the faster the convergence, the larger. average: of"
    " the average of the servers' models; servers: the mean of the accuracies of each (PF-E9). paper: clients of two"
    " classes spread over servers at random; sorted (ours): every server has two classes of its own and, where graphs"
    " are compared, another place from seed to seed. Lasting disagreement is the mean of λ²/(1 - λ²) over all"
    " eigenvalues of W but 1, of which p knows the largest only. "
)
FIG8_NOTE = (
    "The paper's graph is not published: this one is the nearest in p among 200 random ones with 18 links (PF-E4);"
    " uniform is PF-7's. "
)
