"""P-FedAvg (ToN 2022), Figures 5 and 6: FedAvg, P-FedAvg, HierFAVG and DPSGD, over rounds and over time."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial

from paceline.papers.claims import (
    Claim,
    Runs,
    Seeds,
    above,
    below,
    between,
    by_seed,
    late,
    percent,
    percentage,
    ratio,
    shown,
    whole,
)
from paceline.papers.crossings import EARLY, WAYS, arrived
from paceline.papers.grid import Found, Grid, Scene, Variant
from paceline.papers.pfedavg.iterations import recordings
from paceline.papers.pfedavg.racing import evenly, on_clocks, race
from paceline.papers.pfedavg.scenes import NOTE, RACE_NOTE, TIME_NOTE, courses, network, scenes, tuned
from paceline.papers.pictures import draw_lines, lines
from paceline.papers.result import Reproduction, Request, Row
from paceline.papers.trials import Column, Finished, Laboratory, trained
from paceline.statistics import mean_interval

METHODS = ("fedavg", "p-fedavg", "hierfavg", "dpsgd")
TINY, FAR = 2.0, 5.0
"""Points of accuracy within which two methods are level, and beyond which one is far ahead."""
SMALL_ROUNDS = 120
"""Of the race at the small scale: DPSGD needs that many."""
TORUS = ("p-fedavg.topology=torus:3x3",)


def _methods(request: Request, laboratory: Laboratory) -> tuple[list[Scene], list[Row], dict[str, Found]]:
    """Compare all methods at one rate per dataset, judged by the clients' own models: none has DPSGD's average."""
    chosen, rows = tuned(laboratory, scenes(request, ("cifar10", "femnist", "mnist")))
    variants = [Variant("methods", case="own", words=(*TORUS, "personal=true"))]
    grid = Grid(scenes=chosen, methods=METHODS, variants=variants, seeds=request.seeds)
    return chosen, rows, grid.carry_out(laboratory)


@trained
def fig5(request: Request, laboratory: Laboratory) -> Reproduction:
    """PF-T3: per round FedAvg is best, P-FedAvg hardly behind it, and DPSGD far behind both."""
    chosen, rows, found = _methods(request, laboratory)
    panels = {}
    for scene in chosen:
        runs = found[scene.name]["methods"]
        rows += method_rows(scene.name, runs)
        panels[scene.name] = {name: lines(those) for name, those in runs.items()}
    title = "P-FedAvg, Figure 5: four methods"
    return Reproduction(rows=rows, note=f"{METHODS_NOTE}{OWN_NOTE}{NOTE}", figure=lambda: draw_lines(panels, title))


def method_rows(where: str, runs: Runs) -> list[Row]:
    """Accuracy at the end and over the rounds, and the gaps that the paper speaks of."""
    end, over = ({name: by_seed(those, percent(figure)) for name, those in runs.items()} for figure in (late, whole))
    rows = [
        Row(f"{where}: {name}, at the end", None, percentage(mine), "%", None, f"over all {percentage(over[name])}")
        for name, mine in end.items()
    ]
    for when, values in (("at the end", end), ("over all rounds", over)):
        near = Claim("p-fedavg", "fedavg", "a small gap", level)
        verdict, note = partial(above, level=FAR), f"ok: above {FAR:g} points"
        far = Claim("p-fedavg", "dpsgd", "far above", verdict, note=note)
        rows += [claim.row(where, values, f", {when}") for claim in (near, far)]
    return rows


level = partial(between, low=-TINY, high=TINY)
"""Whether a gap is between the tolerance and its negative; None where its interval does not tell."""


@trained
def fig6(request: Request, laboratory: Laboratory) -> Reproduction:
    """PF-T3: over time, between servers of 100 Mbit/s (Exodus), P-FedAvg is the first to be accurate."""
    chosen = courses(request, ("cifar10", "femnist", "mnist"), SMALL_ROUNDS)
    found = race(laboratory, chosen, {name: (name, TORUS) for name in METHODS}, request.seeds)
    rows, panels = [], {}
    for scene in chosen:
        entrants = found[scene.name]
        rows += [one.row(scene.name) for one in entrants]
        for links in ("steady", "recorded") if recordings() and request.scale == "paper" else ("steady",):
            here = {name: network(scene, "exodus", name, recorded=links == "recorded") for name in METHODS}
            where, clocked = f"{scene.name}, {links} links", on_clocks(scene, entrants, here)
            rows += time_rows(where, clocked, scene.targets[0])
            panels[where] = {
                method: [(clock[x.astype(int) - 1], y) for run, clock in those for x, y in lines([run])]
                for method, those in clocked.items()
            }
    title, note = (
        "P-FedAvg, Figure 6: over time, servers of 100 Mbit/s",
        f"{TIME_NOTE}{METHODS_NOTE}{AVERAGE_NOTE}{RACE_NOTE}",
    )
    return Reproduction(rows=rows, note=note, figure=lambda: draw_lines(panels, title, "virtual time / s"))


def time_rows(where: str, clocked: Mapping[str, Sequence[tuple[Finished, Column]]], target: float) -> list[Row]:
    """Seconds of a round and between scores; seconds to the target and ratios of P-FedAvg's, smoothed and first."""
    runs, interval = evenly(clocked)
    rows = [Row(f"{where}: between scores", None, interval, "s", None, "of all methods alike")]
    for method, those in clocked.items():
        seconds = mean_interval([float(clock[-1] / len(clock)) for _, clock in those])
        rows.append(Row(f"{where}: {method}, a round", None, str(seconds), "s"))
    for way in WAYS:
        found = {method: arrived(those, target, way) for method, those in runs.items()}
        for method, one in found.items():
            some = "" if one.complete else f"{len(one.crossings)} of {one.tried} seeds"
            name = f"{where}: {method}, to {100 * target:g} %, {way}"
            rows.append(Row(name, None, shown(one.seconds, "not reached"), "s", None, some))
        mine = found["p-fedavg"]
        for method, one in found.items():
            if method != "p-fedavg":
                row = ratio_row(f"{where}: time of p-fedavg / {method}, {way}", mine.seconds, one.seconds, one.tried)
                rows.append(replace(row, ok=None, note=EARLY) if mine.early or one.early else row)
    return rows


def ratio_row(name: str, mine: Seeds, other: Seeds, tried: int) -> Row:
    """Whether P-FedAvg takes less time, in the seeds in which both arrived."""
    both = len(set(mine) & set(other))
    if len(mine) < tried:
        return Row(name, "below 1", "p-fedavg did not arrive in all seeds", "", None)
    if not both:  # who never arrives is slower
        return Row(name, "below 1", "the other did not arrive", "", True)
    found = ratio(mine, other)
    note = "" if both == tried else f"in {tried - both} of {tried} seeds only p-fedavg arrived"
    return Row(name, "below 1", str(found), "", below(found, 1.0), note)


METHODS_NOTE = (
    "All have 36 clients a round, but DPSGD all clients; HierFAVG has two edge aggregations of 10 steps (PF-E8). "
)
OWN_NOTE = (
    "Accuracies are means over clients (personal=true): each scores a model on test samples in its own"
    " proportions of labels: its own model with DPSGD, its server's with P-FedAvg (torus), the global one otherwise. "
)
AVERAGE_NOTE = (
    "DPSGD and P-FedAvg (torus) are evaluated by the average of all models, which flatters DPSGD: none of its clients"
    " has that model. "
)
