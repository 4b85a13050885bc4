"""P-FedAvg (ToN 2022), Figures 5 and 6: FedAvg, P-FedAvg, HierFAVG and DPSGD, over rounds and over time."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from paceline.papers.pfedavg.iterations import recordings
from paceline.papers.pfedavg.scenes import (
    NOTE,
    TIME_NOTE,
    Scene,
    above,
    all_of,
    arrivals,
    by_seed,
    draw_lines,
    gap,
    late,
    lines,
    network,
    of_case,
    round_times,
    scenes,
    tuned,
    whole,
)
from paceline.papers.result import Reproduction, Request, Row
from paceline.papers.trials import Column, Finished, Laboratory, computed
from paceline.statistics import Interval, mean_interval, ratio_interval

METHODS = ("fedavg", "p-fedavg", "hierfavg", "dpsgd")
TINY, FAR = 2.0, 5.0
"""Points of accuracy within which two methods are level, and beyond which one is far ahead."""
TORUS = ("p-fedavg.topology=torus:3x3",)


def _methods(laboratory: Laboratory, chosen: Sequence[Scene], seeds: int) -> list[Finished]:
    """The same runs for both figures."""
    return laboratory.carry_out(
        [
            scene.trial("methods", method, seed, *TORUS)
            for scene in chosen
            for method in METHODS
            for seed in range(seeds)
        ]
    )


def fig5(request: Request) -> Reproduction:
    """PF-T3: per round FedAvg is best, P-FedAvg hardly behind it, and DPSGD far behind both."""
    with Laboratory(request) as laboratory:
        chosen, rows = tuned(laboratory, scenes(request, ("cifar10", "femnist", "mnist")))
        found = _methods(laboratory, chosen, request.seeds)
        calls = laboratory.calls()
    panels = {}
    for scene in chosen:
        runs = {method: of_case(found, f"{scene.data}-methods", method) for method in METHODS}
        rows += method_rows(scene.data, runs)
        panels[scene.data] = {name: lines(those, "accuracy") for name, those in runs.items()}
        panels[scene.data]["p-fedavg, mean of servers"] = lines(runs["p-fedavg"], "accuracy_servers")
    return computed(
        calls,
        rows=rows,
        note=f"{METHODS_NOTE}{NOTE}",
        figure=lambda: draw_lines(panels, "P-FedAvg, Figure 5: four methods", "round"),
    )


def method_rows(where: str, runs: Mapping[str, Sequence[Finished]]) -> list[Row]:
    """Accuracy at the end and over the rounds, and the gaps that the paper speaks of."""
    end = {name: by_seed(those, "accuracy", late) for name, those in runs.items()}
    over = {name: by_seed(those, "accuracy", whole) for name, those in runs.items()}
    rows = [
        Row(
            f"{where}: {name}, at the end",
            None,
            str(mean_interval([*values.values()])),
            "%",
            None,
            f"over all rounds {mean_interval([*over[name].values()])}",
        )
        for name, values in end.items()
    ]
    servers = by_seed(runs["p-fedavg"], "accuracy_servers", late)
    rows.append(
        Row(f"{where}: p-fedavg, mean of its servers, at the end", None, str(mean_interval([*servers.values()])), "%")
    )
    for when, values in (("at the end", end), ("over all rounds", over)):
        near, ahead = gap(values["p-fedavg"], values["fedavg"]), gap(values["p-fedavg"], values["dpsgd"])
        rows += [
            Row(f"{where}: p-fedavg - fedavg, {when}", "a small gap", str(near), "points", level(near)),
            Row(
                f"{where}: p-fedavg - dpsgd, {when}", "far above", str(ahead), "points", above(ahead, FAR),
                f"ok: above {FAR:g} points",
            ),
        ]  # fmt: skip
    return rows


def level(interval: Interval) -> bool | None:
    """Whether a gap is between the tolerance and its negative; None where its interval does not tell."""
    inside = above(interval, -TINY), above(Interval(*(-interval.value, -interval.high, -interval.low)), -TINY)
    return all_of(inside)


def fig6(request: Request) -> Reproduction:
    """PF-T3: over time, between servers of 100 Mbit/s (Exodus), P-FedAvg is the first to be accurate."""
    with Laboratory(request) as laboratory:
        chosen, rows = tuned(laboratory, scenes(request, ("cifar10", "femnist", "mnist")))
        found = _methods(laboratory, chosen, request.seeds)
        calls = laboratory.calls()
    panels = {}
    for scene in chosen:
        for links in ("steady", "recorded") if recordings() else ("steady",):
            where, timed = f"{scene.data}, {links} links", _timed(scene, found, links == "recorded")
            rows += time_rows(where, timed, scene.target)
            panels[where] = {
                method: [(clock[x.astype(int) - 1], y) for run, clock in those for x, y in lines([run], "accuracy")]
                for method, those in timed.items()
            }
    return computed(
        calls,
        rows=rows,
        note=f"{TIME_NOTE}{METHODS_NOTE}{NOTE}",
        figure=lambda: draw_lines(panels, "P-FedAvg, Figure 6: over time, servers of 100 Mbit/s", "virtual time / s"),
    )


def _timed(scene: Scene, found: Sequence[Finished], recorded: bool) -> dict[str, list[tuple[Finished, Column]]]:
    """Every run with the ends of its rounds."""
    timed = {}
    for method in METHODS:
        runs = of_case(found, f"{scene.data}-methods", method)
        here = network("exodus", scene.milliseconds, method, recorded=recorded)
        clocks = round_times([run.trial for run in runs], *scene.timed, *here, rounds=scene.rounds)
        timed[method] = [*zip(runs, clocks, strict=True)]
    return timed


def time_rows(where: str, timed: Mapping[str, Sequence[tuple[Finished, Column]]], target: float) -> list[Row]:
    """Seconds of a round, seconds to the target, and the ratio of P-FedAvg's to each other method's."""
    rows, arrived = [], {}
    for method, those in timed.items():
        arrived[method] = arrivals(those, "accuracy", target)
        seconds = mean_interval([float(clock[-1] / len(clock)) for _, clock in those])
        rows.append(Row(f"{where}: {method}, a round", None, str(seconds), "s"))
        times = [*arrived[method].values()]
        ours = str(mean_interval(times)) if times else "not reached"
        some = "" if len(times) == len(those) else f"{len(times)} of {len(those)} seeds"
        rows.append(Row(f"{where}: {method}, to {100 * target:g} %", None, ours, "s", None, some))
    mine = arrived["p-fedavg"]
    rows += [
        ratio_row(f"{where}: time of p-fedavg / {method}", mine, arrived[method], len(timed[method]))
        for method in timed
        if method != "p-fedavg"
    ]
    return rows


def ratio_row(name: str, mine: Mapping[int, float], other: Mapping[int, float], tried: int) -> Row:
    """Whether P-FedAvg takes less time, in the seeds in which both arrived."""
    both = sorted(set(mine) & set(other))
    if len(mine) < tried:
        return Row(name, "below 1", "p-fedavg did not arrive in all seeds", "", None)
    if not both:  # who never arrives is slower
        return Row(name, "below 1", "the other did not arrive", "", True)
    ratio = ratio_interval([mine[seed] for seed in both], [other[seed] for seed in both])
    verdict = above(ratio, 1.0)
    note = "" if len(both) == tried else f"in {tried - len(both)} of {tried} seeds only p-fedavg arrived"
    return Row(name, "below 1", str(ratio), "", None if verdict is None else not verdict, note)


METHODS_NOTE = (
    "All have 36 clients a round, but DPSGD all clients; HierFAVG has two edge aggregations of 10 steps (PF-E8)."
    " DPSGD and P-FedAvg (torus) are evaluated by the average of all models, which flatters DPSGD: none of its"
    " clients has that model. "
)
