"""DA-DPFL (TNNLS), Figure 1, top: who waits for whom among six clients, under three wait caps.

The caption and section IV-B say who waits for whom, and that a client's number is its index. The prior sets follow
from that; neighbours that come later change nothing, and are chosen here.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from paceline.papers.dadpfl.printed import FIGURE_1
from paceline.papers.pictures import new_figure, plain
from paceline.papers.result import Reproduction, Request, Row, claimed
from paceline.plans.peers import Schedule, schedule

NEIGHBOURS = {1: (5, 6), 2: (3, 4), 3: (2, 4), 4: (5, 6), 5: (1, 6), 6: (1, 5)}
"""M = 2 of K = 6."""
CAPS = (0, 1, 2)


def scheduled(cap: int) -> Schedule:
    """The round of the six clients, with a training time of 1 for all."""
    near = np.array([[other - 1 for other in those] for those in NEIGHBOURS.values()])
    return schedule(near, np.arange(len(NEIGHBOURS)), cap=cap)


def awaited(found: Schedule) -> dict[int, tuple[int, ...]]:
    """For whom each client waits, of those who wait."""
    named = {
        client: tuple(
            other for other, waits in zip(NEIGHBOURS[client], found.awaited[client - 1], strict=True) if waits
        )
        for client in NEIGHBOURS
    }
    return {client: those for client, those in named.items() if those}


def fig1(request: Request) -> Reproduction:
    """DA-2 to DA-4 for the paper's example."""
    found = {cap: scheduled(cap) for cap in CAPS}
    rows = []
    for cap, one in found.items():
        ours, printed = awaited(one), FIGURE_1[cap]
        rows.append(claimed(f"N = {cap}: who waits for whom", _told(printed), _told(ours), ours == printed))
    at_once = [client for client in NEIGHBOURS if found[1].starts[client - 1] == 0]
    beside = found[1].starts[[2, 4, 5]]
    rows += [
        claimed("N = 1: who starts at once", "1, 2, 4", ", ".join(map(str, at_once)), at_once == [1, 2, 4]),
        claimed("N = 1: 5 and 6 train beside 3", "yes", _starts(beside), len(set(beside.tolist())) == 1),
        *(
            Row(f"N = {cap}: the round takes", None, float(one.finishes.max()), "trainings")
            for cap, one in found.items()
        ),
    ]
    note = (
        "All clients train for as long as each other. The lower half of the figure is a flow chart of a client's"
        " round, which docs/papers/dadpfl.md follows step by step (DA-7 to DA-12)."
    )
    return Reproduction(rows=rows, note=note, figure=lambda: _draw(found))


def _told(waits: dict[int, tuple[int, ...]]) -> str:
    return "; ".join(f"{k} for {' and '.join(map(str, those))}" for k, those in waits.items()) or "nobody"


def _starts(starts: Any) -> str:
    return "yes" if len(set(starts.tolist())) == 1 else f"they start at {', '.join(f'{t:g}' for t in starts)}"


def _draw(found: dict[int, Schedule]) -> Any:
    figure = new_figure((9, 2.8), "DA-DPFL, Figure 1: a round of six clients")
    panels = figure.subplots(1, len(found), sharex=True, sharey=True)
    for ax, (cap, one) in zip(panels, found.items(), strict=True):
        ax.barh([*NEIGHBOURS], one.finishes - one.starts, 0.7, one.starts, color="C0")
        for client, those in awaited(one).items():
            for other in those:
                look = {"arrowstyle": "->", "color": "C3"}
                ax.annotate("", (one.starts[client - 1], client), (one.finishes[other - 1], other), arrowprops=look)
        ax.set_title(f"N = {cap}", loc="left", fontsize=10)
        ax.set(xlabel="time, in local trainings", yticks=[*NEIGHBOURS])
        plain(ax)
    panels[0].set_ylabel("client")
    panels[0].invert_yaxis()
    return figure
