"""P-FedAvg (ToN 2022), beyond the paper: which number of a graph tells how fast its servers learn?

The paper says p, the slowest mode of disagreement. Here twelve graphs of nine servers, none of them the paper's, are
put in order by three numbers, each of which is the disagreement that is left under another idea of how servers stray:

- p: along the slowest mode only;
- all modes, λ²/(1 - λ²): every server strays in a new direction each round (``lasting_disagreement``);
- the same way, (λ/(1 - λ))²: every server strays in one direction of its own, round after round.

Some pairs are level by one number and far apart by another: several graphs have p = 17/81 to the last digit.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import combinations, pairwise, product

import numpy as np

from paceline.papers.claims import above, by_seed, gap, percent, whole
from paceline.papers.grid import Scene
from paceline.papers.pfedavg.printed import SERVERS
from paceline.papers.pfedavg.scenes import MEASURES, NOTE, scenes, tuned
from paceline.papers.pfedavg.trained import Overlay, lasting_disagreement, train, write_graph
from paceline.papers.pictures import draw_lines, lines
from paceline.papers.result import Reproduction, Request, Row
from paceline.papers.trials import Finished, Laboratory, trained
from paceline.statistics import mean_interval
from paceline.topology import Graph, Mixing, parse_graph

# -- graphs ---------------------------------------------------------------------------------------------------------


def lollipop(clique: int, tail: int) -> Graph:
    """A clique with a path on one of its nodes; a clique of one is a path."""
    handle = pairwise(range(clique - 1, clique + tail))
    return Graph.of(clique + tail, (*combinations(range(clique), 2), *handle))


def bipartite(few: int, many: int) -> Graph:
    """All links between two groups, none inside them."""
    return Graph.of(few + many, product(range(few), range(few, few + many)))


def grid(rows: int, columns: int) -> Graph:
    """The torus without its links around the back."""
    across = ((r * columns + c, r * columns + c + 1) for r in range(rows) for c in range(columns - 1))
    down = ((r * columns + c, (r + 1) * columns + c) for r in range(rows - 1) for c in range(columns))
    return Graph.of(rows * columns, (*across, *down))


def wheel(nodes: int) -> Graph:
    """A ring and a hub that is linked with all of it."""
    rim = [*range(1, nodes)]
    return Graph.of(nodes, (*((0, i) for i in rim), *pairwise([*rim, 1])))


def windmill(cliques: int, size: int) -> Graph:
    """Cliques that have one node in common."""
    blades = (range(1 + k * (size - 1), 1 + (k + 1) * (size - 1)) for k in range(cliques))
    return Graph.of(1 + cliques * (size - 1), (pair for blade in blades for pair in combinations([0, *blade], 2)))


def circulant(nodes: int, *steps: int) -> Graph:
    """Everybody is linked with those so many places further on."""
    return Graph.of(nodes, ((i, (i + step) % nodes) for i in range(nodes) for step in steps))


GRAPHS: dict[str, Graph] = {
    "bipartite-4-5": bipartite(4, 5),
    "circulant-1-2": circulant(9, 1, 2),
    "bipartite-3-6": bipartite(3, 6),
    "wheel": wheel(9),
    "grid": grid(3, 3),
    "lollipop-8-1": lollipop(8, 1),
    "lollipop-7-2": lollipop(7, 2),
    "bipartite-2-7": bipartite(2, 7),
    "windmill": windmill(4, 3),
    "lollipop-5-4": lollipop(5, 4),
    "path": lollipop(1, 8),
    "star": parse_graph("star:9"),
}
"""In the order that all modes predict, the fastest first."""

# -- predictions ----------------------------------------------------------------------------------------------------


def slowest_mode(mixing: Mixing) -> float:
    """What a round of mixing leaves of the slowest mode, 1 - p."""
    return round(1 - mixing.p, 9)


def same_way(mixing: Mixing) -> float:
    """How far servers stay apart that each stray by 1 in the same direction every round: the mean of (λ/(1 - λ))²."""
    inner = np.sort(np.linalg.eigvalsh(mixing.matrix))[:-1]
    return round(float(np.sum((inner / (1 - inner)) ** 2) / len(mixing.matrix)), 9)


def all_modes(mixing: Mixing) -> float:
    """Lasting disagreement, without rounding's last digits."""
    return round(lasting_disagreement(mixing), 9)


def log_modes(mixing: Mixing) -> float:
    """As all modes, but slow ones count less: the mean of log 1/(1 - λ²)."""
    inner = np.sort(np.linalg.eigvalsh(mixing.matrix))[:-1]
    return round(-float(np.sum(np.log(1 - inner**2)) / len(mixing.matrix)), 9)


PREDICTORS: dict[str, Callable[[Mixing], float]] = {
    "p": slowest_mode,
    "all modes": all_modes,
    "the same way": same_way,
}
"""Each is larger where learning is expected to be slower."""
AFTERWARDS: dict[str, Callable[[Mixing], float]] = {
    "few links": lambda mixing: -float(len(mixing.graph.edges)),
    "logarithms of all modes": log_modes,
}
"""Thought of when the results were there: they describe, and predict nothing before other graphs are tried."""
MARGIN = 1.05
"""All modes must differ by so much for a pair to be a prediction."""


def overlays() -> list[Overlay]:
    """The graphs with the paper's weights; their topologies are files, which ``_written`` makes."""
    return [Overlay(name, name, graph) for name, graph in GRAPHS.items()]


def expected() -> dict[str, dict[str, float]]:
    """Every predictor's number for every graph."""
    return {name: {one.name: say(one.mixing) for one in overlays()} for name, say in PREDICTORS.items()}


def disputed() -> Iterator[tuple[str, str]]:
    """Pairs in which all modes call the first one faster, and p the other one, or neither."""
    numbers = expected()
    for one, other in combinations(GRAPHS, 2):
        fast, slow = sorted((one, other), key=lambda name: numbers["all modes"][name])
        apart = numbers["all modes"][slow] > MARGIN * numbers["all modes"][fast]
        if apart and numbers["p"][fast] >= numbers["p"][slow]:
            yield fast, slow


def prediction_rows() -> list[Row]:
    """All that is known before anything is trained."""
    numbers, others = expected(), ("all modes", "the same way")
    rows = [
        Row(f"{one.name}: p", None, one.mixing.p, "", None, _numbers(one.name, numbers, others)) for one in overlays()
    ]
    for name, values in numbers.items():
        rows.append(Row(f"order by {name}", None, _order(values)))
    return rows


def _numbers(graph: str, numbers: Mapping[str, Mapping[str, float]], which: Sequence[str]) -> str:
    return ", ".join(f"{name} {numbers[name][graph]:.3f}" for name in which)


def _order(slowness: Mapping[str, float]) -> str:
    """Names, the fastest first; = where the number is the same."""
    names = sorted(slowness, key=lambda name: slowness[name])
    signs = ["=" if slowness[a] == slowness[b] else ">" for a, b in pairwise(names)]
    return names[0] + "".join(f" {sign} {name}" for sign, name in zip(signs, names[1:], strict=True))


# -- training -------------------------------------------------------------------------------------------------------


FEWER = 5
"""Most seeds in the paper's split, where runs are twice as long and graphs matter less."""


def splits(scene: Scene, seeds: int) -> dict[str, int]:
    """Splits, each with its number of seeds; CIFAR-10 only where every server has classes of its own."""
    return {"sorted": seeds} if scene.name == "cifar10" else {"sorted": seeds, "paper": min(FEWER, seeds)}


@trained
def graphs(request: Request, laboratory: Laboratory) -> Reproduction:
    """Train on all of the graphs; compare what comes out with what was expected."""
    chosen, rows = tuned(laboratory, scenes(request, ("mnist", "cifar10")))
    chosen = [replace(scene, every=min(5, scene.rounds // 4)) for scene in chosen]
    written = [_written(laboratory, one) for one in overlays()]
    found: dict[tuple[str, str], dict[str, list[Finished]]] = {}
    for scene in chosen:
        for split, seeds in splits(scene, request.seeds).items():
            found[scene.name, split] = train(laboratory, [scene], written, seeds, (split,))[scene.name]
    rows += prediction_rows()
    panels = {}
    for scene in chosen:
        for split, (what, measure) in product(splits(scene, request.seeds), MEASURES.items()):
            runs = {name: found[scene.name, split][f"{split}-{name}"] for name in GRAPHS}
            where, figure = f"{scene.name}, {split}, {what}", percent(whole, measure)
            rows += verdict_rows(where, {name: by_seed(those, figure) for name, those in runs.items()})
            panels[where] = {name: lines(those, measure) for name, those in runs.items()}
    title = "P-FedAvg: twelve other graphs"
    return Reproduction(rows=rows, note=f"{GRAPHS_NOTE}{NOTE}", figure=lambda: draw_lines(panels, title))


def _written(laboratory: Laboratory, one: Overlay) -> Overlay:
    return replace(one, topology=str(write_graph(one.graph, laboratory.root / "graphs" / f"{one.name}.txt")))


# -- what came out --------------------------------------------------------------------------------------------------


def verdict_rows(where: str, means: Mapping[str, Mapping[int, float]]) -> list[Row]:
    """Accuracies (given by graph and seed), rank correlations by predictor, and the pairs in dispute."""
    numbers = expected()
    rows = [
        Row(
            f"{where}: {name}", None, str(mean_interval([*values.values()], within=(0, 100))), "%", None,
            _numbers(name, numbers, [*numbers]),
        )
        for name, values in means.items()
    ]  # fmt: skip
    return [*rows, *_rank_rows(where, means, numbers), *_pair_rows(where, means, numbers)]


def _rank_rows(
    where: str, means: Mapping[str, Mapping[int, float]], numbers: dict[str, dict[str, float]]
) -> list[Row]:
    seeds = sorted(set.intersection(*(set(values) for values in means.values())))
    overall = {name: float(np.mean([values[seed] for seed in seeds])) for name, values in means.items()}
    rows = [Row(f"{where}: order", None, _order({name: -value for name, value in overall.items()}))]
    found = {}
    later = {name: {one.name: say(one.mixing) for one in overlays()} for name, say in AFTERWARDS.items()}
    for name, slowness in (numbers | later).items():
        found[name] = {seed: rank_correlation(slowness, {g: v[seed] for g, v in means.items()}) for seed in seeds}
        at_large, when = rank_correlation(slowness, overall), "; thought of afterwards" * (name in later)
        note = f"by seed {mean_interval([*found[name].values()])}{when}"
        rows.append(Row(f"{where}: rank correlation with {name}", None, f"{at_large:.3f}", "", None, note))
    for rival in ("p", "the same way", *later):
        more = gap(found["all modes"], found[rival])
        rows.append(Row(f"{where}: all modes above {rival}", None, str(more), "rank correlation", above(more)))
    return rows


def _pair_rows(
    where: str, means: Mapping[str, Mapping[int, float]], numbers: Mapping[str, Mapping[str, float]]
) -> list[Row]:
    rows = []
    for fast, slow in disputed():
        found = gap(means[fast], means[slow])
        said = {name: values[slow] - values[fast] for name, values in numbers.items()}
        words = {name: "above" if more > 0 else "level" if more == 0 else "below" for name, more in said.items()}
        note = f"predicted above 0; by p {words['p']}, by the same way {words['the same way']}"
        rows.append(Row(f"{where}: {fast} - {slow}", None, str(found), "points", above(found), note))
    return rows


def rank_correlation(slowness: Mapping[str, float], accuracy: Mapping[str, float]) -> float:
    """Spearman's, equal numbers sharing their ranks; 1: the order was predicted."""
    from scipy.stats import rankdata

    names = [*accuracy]
    expected_ranks = rankdata([-slowness[name] for name in names])
    return float(np.corrcoef(expected_ranks, rankdata([accuracy[name] for name in names]))[0, 1])


assert all(graph.nodes == SERVERS for graph in GRAPHS.values())

GRAPHS_NOTE = (
    "Predictions are ours, from Σ λ²/(1 - λ²) over all modes; the paper has none of these graphs. Accuracies in"
    " percent, averaged over all measured rounds. Rank correlations are Spearman's, of the means over seeds and, as"
    " intervals, of single seeds. Pairs: those in which all modes differ by more than 5 % and p says the contrary or"
    " level. sorted: every server has two classes of its own, and another place in the graph from seed to seed. "
)
