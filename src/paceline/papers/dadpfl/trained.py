"""DA-DPFL (TNNLS): the tables with training, I and III.

At the small scale only the paper's statements about which of two methods is ahead are judged, not its levels.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from functools import partial
from typing import Any

from paceline.papers.claims import Claim, Figure, Runs, above, ahead, best, by_seed, final, shown, table
from paceline.papers.dadpfl import printed as paper
from paceline.papers.dadpfl.costs import EPOCHS, MIB
from paceline.papers.dadpfl.printed import METHODS, PEERS, SERVED, TABLE1, TABLE3, TABLE3_ZEROS
from paceline.papers.dadpfl.setups import Setup, setups
from paceline.papers.grid import Grid
from paceline.papers.pictures import draw_lines, lines
from paceline.papers.result import Reproduction, Request, Row
from paceline.papers.trials import Finished, Laboratory, trained

LEVEL = 1.0
"""Points of accuracy within which two methods count as equally good."""
NO_WORSE = partial(above, level=-LEVEL)
NO_WORSE_NOTE = f"ok: for certain not more than {LEVEL:g} point below"


def zeros(run: Finished) -> float:
    """The mean share of zeros at the end; dense models have none."""
    return float(run.columns["sparsity"][-1]) if "sparsity" in run.columns else 0.0


def per_round(total: str, size: float = 1.0) -> Figure:
    """A total of a run's summary, per round, in units of so much."""
    return lambda run: run.totals[total] / max(1.0, run.totals["rounds"]) / size


busiest = per_round("busiest_bytes", 2 * MIB)
"""MiB that the busiest site moves in one direction, as DA-T2 counts: half of what it sends and receives."""


# -- Table I --------------------------------------------------------------------------------------------------------


@trained
def table1(request: Request, laboratory: Laboratory) -> Reproduction:
    """DA-T1: nine methods on two splits: accuracy, and what it costs."""
    rows, panels = list[Row](), dict[str, Runs]()
    for setup in setups(request):
        found = Grid(
            scenes=[setup.scene],
            methods=METHODS,
            variants=[setup.variant("Dir", split="dir"), setup.variant("Pat", split="pat")],
            seeds=request.seeds,
        ).carry_out(laboratory)[setup.data]
        for split, runs in found.items():
            case, printed = f"{setup.data}, {split}", TABLE1.get((setup.data, split), {})
            rows += accuracies(case, runs, printed)
            rows += _cost_rows(case, setup, split, runs, small=request.scale == "small")
            rows += _ahead_rows(case, runs, printed)
            rows += _issue_rows(case, runs)
            panels[case] = runs
    return Reproduction(rows=rows, note=f"{NOTE} {TABLE1_NOTE}", figure=lambda: draw(panels, "Table I"))


def accuracies(case: str, runs: Runs, printed: Mapping[str, float]) -> list[Row]:
    """The best accuracy of each method."""
    return table(case, _each(runs, best), what=", accuracy", printed=printed)


def _each(runs: Runs, figure: Figure) -> dict[str, dict[int, float]]:
    return {name: by_seed(those, figure) for name, those in runs.items()}


def _cost_rows(case: str, setup: Setup, split: str, runs: Runs, *, small: bool) -> list[Row]:
    """Sparsity at the end; traffic, operations, energy and time of a round."""
    unit, size = ("1e6", 1e6) if small else ("1e12", 1e12)
    known = paper.zeros(setup.data, split)
    rows = table(case, _each(runs, zeros), what=", sparsity", unit="zeros", printed=known)
    for method, those in runs.items():
        workers = setup.served if method in SERVED else setup.clients
        traffic, operations = (None, "") if small else paper.load(setup.data, split, method)
        whole = float(operations) if operations and setup.epochs == EPOCHS else None
        for name, printed, figure, measure in (
            ("busiest traffic", traffic, busiest, "MiB"),
            ("operations of a client", whole, per_round("flops", workers * size), unit),
            ("energy of all", None, per_round("joules"), "J"),
            ("time", None, per_round("time"), "s"),
        ):
            ours = shown(by_seed(those, figure))
            rows.append(Row(f"{case}: {method}, {name}", printed, ours, f"{measure} a round"))
    return rows


def _ahead_rows(case: str, runs: Runs, printed: Mapping[str, float]) -> list[Row]:
    """How far DA-DPFL is ahead of each other method; ok if the sign is the paper's for certain."""
    others = [method for method in runs if method != "da-dpfl"]
    claims = [ahead("da-dpfl", other, printed["da-dpfl"] - printed[other] if printed else None) for other in others]
    return judged(case, runs, best, claims)


def judged(case: str, runs: Runs, figure: Figure, claims: Iterable[Claim]) -> list[Row]:
    """A row of each claim about a figure."""
    values = _each(runs, figure)
    return [claim.row(case, values) for claim in claims]


def _issue_rows(case: str, runs: Runs) -> list[Row]:
    """Sparser than DisPFL, and no worse."""
    name = "da-dpfl - dispfl, sparsity at the end"
    sparser = Claim("da-dpfl", "dispfl", "sparser", name=name, unit="zeros")
    name = "da-dpfl - dispfl, last tenth of the rounds"
    no_worse = Claim("da-dpfl", "dispfl", "no worse", NO_WORSE, name, note=NO_WORSE_NOTE)
    return [*judged(case, runs, zeros, [sparser]), *judged(case, runs, final, [no_worse])]


# -- Table III ------------------------------------------------------------------------------------------------------


SMALL_GRAPH = 30
"""Clients at the small scale: a complete graph of 100 is 9,900 transfers a round."""


@trained
def table3(request: Request, laboratory: Laboratory) -> Reproduction:
    """DA-T3: a ring and a complete graph."""
    rows, panels = list[Row](), dict[str, Runs]()
    for setup in setups(request, ("cifar10",)):
        here = replace(setup, clients=SMALL_GRAPH) if request.scale == "small" else setup
        links = {"ring": 2, "complete": here.clients - 1}
        found = Grid(
            scenes=[here.scene],
            methods=PEERS,
            variants=[here.variant(graph, graph, *here.linked(graph, n), split="dir") for graph, n in links.items()],
            seeds=request.seeds,
        ).carry_out(laboratory)[setup.data]
        known = here.data == "cifar10"
        for graph, runs in found.items():
            case, printed = f"{here.data}, {graph}", TABLE3[graph] if known else {}
            rows += accuracies(case, runs, printed)
            sparsity = TABLE3_ZEROS[graph] if known else None
            rows.append(Row(f"{case}: da-dpfl, sparsity", sparsity, shown(by_seed(runs["da-dpfl"], zeros)), "zeros"))
            rows += _ahead_rows(case, runs, printed)
            panels[case] = runs
        for method in PEERS:  # in the paper every method is better on the complete graph
            gain = TABLE3["complete"][method] - TABLE3["ring"][method] if known else None
            claim = ahead("complete", "ring", gain, name=f"{method}, complete - ring")
            rows += judged(here.data, {graph: runs[method] for graph, runs in found.items()}, best, [claim])
    return Reproduction(rows=rows, note=f"{NOTE} {TABLE3_NOTE}", figure=lambda: draw(panels, "Table III"))


# -- what they share ------------------------------------------------------------------------------------------------


def draw(panels: Mapping[str, Runs], title: str) -> Any:
    """Draw accuracy over rounds, one panel for each case."""
    drawn = {case: {name: lines(one) for name, one in runs.items()} for case, runs in panels.items()}
    return draw_lines(drawn, f"DA-DPFL: {title}")


NOTE = (
    "Accuracies are a run's best, as in the paper, of personal models or of one model for all: the mean over clients"
    " of that on test samples in each one's own proportions of labels. Differences are means over pairs with the same"
    " seed, with 95 % intervals (Student's t): ok is yes or no where the interval decides, and open where not."
    " Levels are not the paper's at the small scale, which has other data and networks."
)
TABLE1_NOTE = (
    "Traffic is half of what the busiest site sends and receives in a round, a mean over all rounds; sparse models"
    " count by weights only, as in Table II. Operations include the dense batch by which weights grow back, and a"
    " server's additions. Energy is that of all clients: 450 W while they compute at 16 TFLOPS (a fifth of the peak,"
    " DA-T6), 1 W while they send at 1 Gbit/s; a server's is not counted. Time is that of a whole round with all"
    " waiting and queueing for links."
)
TABLE3_NOTE = (
    "GossipFL meets in random pairs of neighbours on the ring, and all together on the complete graph. At the small"
    " scale 30 clients."
)
