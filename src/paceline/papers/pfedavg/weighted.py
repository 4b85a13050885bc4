"""Beyond P-FedAvg's paper: weights that are best by p (PF-8), and weights that are best by all modes, in training.

Two numbers say how well servers mix: p, of the slowest mode of disagreement, and the sum of λ²/(1 - λ²) over all
modes (``docs/results/pfedavg-graphs.md``). Weights can be solved for to make either best. By the sum, the weights
that p calls best are *behind* the plain ones of PF-7 on ring and torus, and ahead of them on tree and barbell; and
those that are solved for by the sum are ahead of both everywhere. That is the prediction which is tested here.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import combinations, product

from paceline.papers.claims import above, by_seed, gap, percent, percentage, whole
from paceline.papers.pfedavg.scenes import MEASURES, NOTE, scenes, tuned
from paceline.papers.pfedavg.theory import GRAPHS
from paceline.papers.pfedavg.trained import Overlay, lasting_disagreement, train
from paceline.papers.result import Reproduction, Request, Row
from paceline.papers.trials import Laboratory, trained
from paceline.topology import parse_graph

WEIGHTS = ("all-modes", "optimal", "metropolis")
GRAPHS_TRIED = ("torus", "ring", "tree", "barbell")
SPLITS = ("sorted", "paper")


def weightings() -> dict[str, list[Overlay]]:
    """The graphs of Figure 4 that are not complete, each with three weightings."""
    return {
        name: [Overlay(f"{name}-{rule}", GRAPHS[name], parse_graph(GRAPHS[name]), rule) for rule in WEIGHTS]
        for name in GRAPHS_TRIED
    }


@trained
def weights(request: Request, laboratory: Laboratory) -> Reproduction:
    """Train with all weightings on all of the graphs; compare what comes out with what both numbers say."""
    chosen, rows = tuned(laboratory, scenes(request, ("mnist", "cifar10")))
    overlays = weightings()
    for one in (one for those in overlays.values() for one in those):
        note = f"lasting disagreement {lasting_disagreement(one.mixing):.3f}"
        rows.append(Row(f"{one.name}: p", None, one.mixing.p, "", None, note))
    found = train(laboratory, chosen, [one for those in overlays.values() for one in those], request.seeds, SPLITS)
    for scene, split, (what, measure) in product(chosen, SPLITS, MEASURES.items()):
        for name, those in overlays.items():
            means = {
                one.weights: by_seed(found[scene.name][f"{split}-{one.name}"], percent(whole, measure))
                for one in those
            }
            rows += compared_rows(
                f"{scene.name}, {split}, {what}, {name}", means, {one.weights: one for one in those}
            )
    return Reproduction(rows=rows, note=f"{WEIGHTS_NOTE}{NOTE}")


def compared_rows(where: str, means: Mapping[str, Mapping[int, float]], overlays: Mapping[str, Overlay]) -> list[Row]:
    """The accuracies of the weightings of one graph, and their differences beside what p and all modes say."""
    rows = [Row(f"{where}: {rule}", None, percentage(values), "%") for rule, values in means.items()]
    lasting = {rule: lasting_disagreement(one.mixing) for rule, one in overlays.items()}
    for pair in combinations(means, 2):
        fast, slow = sorted(pair, key=lambda rule: lasting[rule])
        difference = gap(means[fast], means[slow])
        p = overlays[fast].mixing.p - overlays[slow].mixing.p
        note = f"predicted above 0 by all modes, {'above' if p > 0 else 'below'} 0 by p"
        rows.append(Row(f"{where}: {fast} - {slow}", None, str(difference), "points", above(difference), note))
    return rows


WEIGHTS_NOTE = (
    "Predictions are ours: of two weightings the one with the smaller Σ λ²/(1 - λ²) over all modes learns faster."
    " Accuracies in percent, averaged over all rounds; average: of the average of the servers' models; servers: the"
    " mean of the accuracies of each. sorted: every server has two classes of its own, and another place in the graph"
    " from seed to seed; paper: clients of two classes spread over servers at random. "
)
