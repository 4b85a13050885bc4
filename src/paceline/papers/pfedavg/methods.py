"""P-FedAvg (ToN 2022), Figures 5 and 6: FedAvg, P-FedAvg, HierFAVG and DPSGD, over rounds and over time."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
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
from paceline.papers.grid import Found, Grid, Scene, Variant
from paceline.papers.pfedavg.iterations import recordings
from paceline.papers.pfedavg.scenes import NOTE, TIME_NOTE, arrivals, network, round_times, scenes, tuned
from paceline.papers.pictures import draw_lines, lines
from paceline.papers.result import Reproduction, Request, Row
from paceline.papers.trials import Column, Finished, Laboratory, trained
from paceline.statistics import mean_interval

METHODS = ("fedavg", "p-fedavg", "hierfavg", "dpsgd")
TINY, FAR = 2.0, 5.0
"""Points of accuracy within which two methods are level, and beyond which one is far ahead."""
TORUS = ("p-fedavg.topology=torus:3x3",)


def _methods(request: Request, laboratory: Laboratory) -> tuple[list[Scene], list[Row], dict[str, Found]]:
    """The same runs for both figures, at tuned rates."""
    chosen, rows = tuned(laboratory, scenes(request, ("cifar10", "femnist", "mnist")))
    variants = [Variant("methods", words=TORUS)]
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
        panels[scene.name]["p-fedavg, mean of servers"] = lines(runs["p-fedavg"], "accuracy_servers")
    title = "P-FedAvg, Figure 5: four methods"
    return Reproduction(rows=rows, note=f"{METHODS_NOTE}{NOTE}", figure=lambda: draw_lines(panels, title))


def method_rows(where: str, runs: Runs) -> list[Row]:
    """Accuracy at the end and over the rounds, and the gaps that the paper speaks of."""
    end, over = ({name: by_seed(those, percent(figure)) for name, those in runs.items()} for figure in (late, whole))
    rows = [
        Row(f"{where}: {name}, at the end", None, percentage(mine), "%", None, f"over all {percentage(over[name])}")
        for name, mine in end.items()
    ]
    servers = by_seed(runs["p-fedavg"], percent(late, "accuracy_servers"))
    rows.append(Row(f"{where}: p-fedavg, mean of its servers, at the end", None, percentage(servers), "%"))
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
    chosen, rows, found = _methods(request, laboratory)
    panels = {}
    for scene in chosen:
        for links in ("steady", "recorded") if recordings() else ("steady",):
            where, timed = f"{scene.name}, {links} links", _timed(scene, found, links == "recorded")
            rows += time_rows(where, timed, scene.targets[0])
            panels[where] = {
                method: [(clock[x.astype(int) - 1], y) for run, clock in those for x, y in lines([run])]
                for method, those in timed.items()
            }
    title, note = "P-FedAvg, Figure 6: over time, servers of 100 Mbit/s", f"{TIME_NOTE}{METHODS_NOTE}{NOTE}"
    return Reproduction(rows=rows, note=note, figure=lambda: draw_lines(panels, title, "virtual time / s"))


def _timed(scene: Scene, found: Mapping[str, Found], recorded: bool) -> dict[str, list[tuple[Finished, Column]]]:
    """Every run with the ends of its rounds."""
    timed = {}
    for method, runs in found[scene.name]["methods"].items():
        here = network(scene, "exodus", method, recorded=recorded)
        clocks = round_times(scene, runs, here, scene.rounds)
        timed[method] = [*zip(runs, clocks, strict=True)]
    return timed


def time_rows(where: str, timed: Mapping[str, Sequence[tuple[Finished, Column]]], target: float) -> list[Row]:
    """Seconds of a round, seconds to the target, and the ratio of P-FedAvg's to each other method's."""
    rows, arrived = [], {}
    for method, those in timed.items():
        mine = arrived[method] = arrivals(those, "accuracy", target)
        seconds = mean_interval([float(clock[-1] / len(clock)) for _, clock in those])
        some = "" if len(mine) == len(those) else f"{len(mine)} of {len(those)} seeds"
        rows += [
            Row(f"{where}: {method}, a round", None, str(seconds), "s"),
            Row(f"{where}: {method}, to {100 * target:g} %", None, shown(mine, "not reached"), "s", None, some),
        ]
    return rows + [
        ratio_row(f"{where}: time of p-fedavg / {method}", arrived["p-fedavg"], arrived[method], len(timed[method]))
        for method in timed
        if method != "p-fedavg"
    ]


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
    "All have 36 clients a round, but DPSGD all clients; HierFAVG has two edge aggregations of 10 steps (PF-E8)."
    " DPSGD and P-FedAvg (torus) are evaluated by the average of all models, which flatters DPSGD: none of its"
    " clients has that model. "
)
