"""P-FedAvg (ToN 2022), Figure 7: time to an accuracy on five topologies, over capacities of links and of servers."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import product
from typing import Any

import numpy as np

from paceline.papers.claims import above, ratio
from paceline.papers.crossings import EARLY, WAYS, Arrivals, arrived
from paceline.papers.pfedavg.racing import evenly, on_clocks, race
from paceline.papers.pfedavg.scenes import MEASURES, RACE_NOTE, TIME_NOTE, courses, network
from paceline.papers.pfedavg.trained import ORDER, topologies
from paceline.papers.pictures import new_figure, plain
from paceline.papers.result import Reproduction, Request, Row
from paceline.papers.trials import Column, Finished, Laboratory, trained

SMALL_ROUNDS = 60
"""At the small scale, where everybody arrives within 55; most of the time goes into dry runs, ten of each run."""
CAPACITIES = (1, 3, 10, 30, 100)
KINDS = {"edge": "links", "node": "servers"}
NEAR = 1.05
"""Times within 5 % of the best count as the best."""
MOST = 0.8
"""The share of cases that "almost all" means."""

Times = dict[tuple[str, int], dict[str, dict[int, float]]]
"""By kind and Mbit/s, then by topology, the seconds of each seed that arrived."""


@trained
def fig7(request: Request, laboratory: Laboratory) -> Reproduction:
    """PF-T4: the torus is nearly always best; complete is good where links are the limit; barbell is worst."""
    chosen = courses(request, ("mnist",), SMALL_ROUNDS)
    found = race(laboratory, chosen, {one.name: ("p-fedavg", one.words()) for one in topologies()}, request.seeds)
    rows, panels = list[Row](), dict[str, Times]()
    for scene in chosen:
        entrants, target = found[scene.name], scene.targets[0]
        rows += [one.row(scene.name) for one in entrants]
        clocked = {
            (kind, mbps): on_clocks(scene, entrants, dict.fromkeys(ORDER, network(scene, f"{kind}:{mbps}")))
            for kind, mbps in product(KINDS, CAPACITIES)
        }
        for (what, measure), way in product(MEASURES.items(), WAYS):
            there = {key: _arrivals(those, measure, target, way) for key, those in clocked.items()}
            times = {key: {name: one.seconds for name, one in those.items()} for key, those in there.items()}
            where = f"{scene.name}, {what}, {100 * target:g} %, {way}"
            early = any(one.early for those in there.values() for one in those.values())
            found_rows = capacity_rows(where, times)
            rows += [replace(row, ok=None, note=EARLY) for row in found_rows] if early else found_rows
            if way == "smoothed":
                panels[where] = times
    return Reproduction(rows=rows, note=f"{CAPACITY_NOTE}{RACE_NOTE}", figure=lambda: _draw_capacities(panels))


def _arrivals(
    clocked: Mapping[str, Sequence[tuple[Finished, Column]]], measure: str, target: float, way: str
) -> dict[str, Arrivals]:
    """Where each topology's seeds reached the target, all scored at like intervals."""
    return {name: arrived(runs, target, way) for name, runs in evenly(clocked, measure)[0].items()}


def capacity_rows(where: str, times: Times) -> list[Row]:
    """The mean times of every case, then what the paper says of them."""
    means = {key: _means(here) for key, here in times.items()}
    rows = []
    for (kind, mbps), here in means.items():
        ours = ", ".join(f"{name} {value:.3g}" for name, value in here.items())
        rows.append(Row(f"{where}: {KINDS[kind]} of {mbps} Mbit/s", None, ours, "s"))
    if any(np.isinf(min(here.values())) for here in means.values()):
        return [*rows, Row(f"{where}: claims", None, "no topology arrived with all seeds", "", None)]
    near = [here["torus"] <= NEAR * min(here.values()) for here in means.values()]
    ranks = {name: float(np.mean([_rank(here, name) for here in means.values()])) for name in ORDER}
    worst = [max(here, key=lambda name: here[name]) == "barbell" for here in means.values()]
    edge = [here["complete"] <= NEAR * min(here.values()) for (kind, _), here in means.items() if kind == "edge"]
    tight = times["node", min(mbps for kind, mbps in times if kind == "node")]
    slower = ratio(tight["complete"], tight["torus"])
    listed = ", ".join(f"{name} {rank:.1f}" for name, rank in ranks.items())
    return [
        *rows,
        Row(f"{where}: mean rank", "torus first", listed, "", min(ranks, key=lambda name: ranks[name]) == "torus"),
        _share_row(f"{where}: torus within 5 % of the best", near),
        _share_row(f"{where}: complete within 5 % of the best, links limited", edge),
        Row(f"{where}: time of complete / torus, slowest servers", "above 1", str(slower), "", above(slower, 1.0)),
        _share_row(f"{where}: barbell slowest", worst),
    ]


def _means(times: Mapping[str, Mapping[int, float]]) -> dict[str, float]:
    """Over the seeds; infinite where not all of them arrived, since those that did were the fast ones."""
    tried = max(len(those) for those in times.values())
    return {
        name: float(np.mean([*those.values()])) if those and len(those) == tried else math.inf
        for name, those in times.items()
    }


def _rank(times: Mapping[str, float], name: str) -> float:
    """1 is the fastest; those that are equal share the mean of their ranks."""
    here = times[name]
    return 1 + sum(time < here for time in times.values()) + (sum(time == here for time in times.values()) - 1) / 2


def _share_row(name: str, cases: Sequence[bool]) -> Row:
    ours, ok = f"{sum(cases)} of {len(cases)} cases", sum(cases) / len(cases) >= MOST
    return Row(name, "almost all", ours, "", ok, f"ok: {MOST:.0%} or more")


def _draw_capacities(panels: Mapping[str, Times]) -> Any:
    figure = new_figure((9.0, 3.4 * len(panels) + 0.4), "P-FedAvg, Figure 7: time to an accuracy over capacities")
    axes = figure.subplots(len(panels), 2, squeeze=False, sharey="row")
    for row, (where, times) in zip(axes, panels.items(), strict=True):
        for ax, (kind, limited) in zip(row, KINDS.items(), strict=True):
            for place, name in enumerate(ORDER):
                y = [_means(times[kind, mbps])[name] for mbps in CAPACITIES]
                ax.plot(CAPACITIES, y, "o-", color=f"C{place}", markersize=3, label=name)
            ax.set(xscale="log", yscale="log", xlabel=f"capacity of {limited} / Mbit/s", ylabel="virtual time / s")
            ax.set_title(where, loc="left", fontsize=9)
            plain(ax)
    axes[0, 1].legend(frameon=False, fontsize=8)
    return figure


CAPACITY_NOTE = TIME_NOTE + (
    "average and servers: as in Figure 4. Ranks and shares are of mean times, over 2 kinds of"
    " network and 5 capacities. "
)
