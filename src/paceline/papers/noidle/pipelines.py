"""No One Idles (ICML 2023), Figures 1, 2 and 5: the pipelines as they are run here, and who idles in them.

The paper draws them by hand. Here they are dry runs of four devices, one of which straggles, with CIFAR-10's times of
Table 1 (noidle-table1) and, for Figure 5, with a server that takes as long as everything else together.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from paceline.papers.noidle.times import T_COMM, T_LOCAL, WAIT_RATIO
from paceline.papers.result import Reproduction, Request, Row, by_reference, claimed, compared
from paceline.papers.timelines import common, draw_timelines, length, pieces
from paceline.plans.overlap import NAMES, closed_forms
from paceline.plans.pace import Pace
from paceline.runs.dry import dry

DEVICES, ROUNDS, SETTLED = 4, 9, 3
"""The first rounds, in which nothing has settled yet, are neither measured nor drawn."""
USUAL = Pace(
    devices=DEVICES,
    t_local=T_LOCAL[1],
    t_comm=T_COMM,
    t_wait=WAIT_RATIO * T_LOCAL[1],
    t_aggregate=T_LOCAL[1],
    dropout=1 / DEVICES,
)
SLOW = Pace(
    devices=DEVICES,
    t_local=T_LOCAL[1],
    t_comm=T_COMM,
    t_wait=T_LOCAL[1],
    t_aggregate=2 * T_LOCAL[1] + T_COMM,
    dropout=1 / DEVICES,
)
"""T_g = T_l + T_c + T_w."""
DOING = ("train", "send", "receive")
DRAWN = 4
"""Rounds of FedAvg that are drawn."""


@dataclass(frozen=True)
class Pipeline:
    """A method's timeline, and what it shows once it has settled."""

    method: str
    spans: pa.Table
    times: list[float]

    @property
    def round(self) -> float:
        """Mean seconds of a round."""
        return (self.times[-1] - self.times[SETTLED - 1]) / (len(self.times) - SETTLED)

    @property
    def work(self) -> float:
        """The share of time in which the server aggregates."""
        begin, end = self._stretch
        return length(self._server) / (end - begin)

    @property
    def beside(self) -> float:
        """The share of the server's work during which some device trains, sends or receives."""
        begin, end = self._stretch
        busy = pieces(self.spans, DOING, server=False, begin=begin, end=end)
        return common(self._server, busy) / length(self._server)

    @property
    def _server(self) -> list[tuple[float, float]]:
        begin, end = self._stretch
        return pieces(self.spans, ("work",), server=True, begin=begin, end=end)

    @property
    def _stretch(self) -> tuple[float, float]:
        return self.times[SETTLED - 1], self.times[-1]


def pipeline(method: str, pace: Pace, rounds: int = ROUNDS) -> Pipeline:
    """A dry run of a method at a pace."""
    fleet = {
        "times": f"constant:{pace.t_local:g}",
        "jitter": 0,
        "links": f"seconds:{pace.t_comm / 2:g},{pace.t_comm / 2:g}",
        "server": f"constant:{pace.t_aggregate:g}",
        "availability": f"stragglers:{pace.dropout:g},{pace.t_wait:g}",
    }
    found = dry(method, fleet, clients=pace.devices, rounds=rounds, absence="wait" if method == "fedavg" else None)
    return Pipeline(method, found.spans(), found.times)


def pipelines(request: Request) -> Reproduction:
    """Rounds, how busy the server is, and how much of its work is beside training; three figures."""
    usual = {method: pipeline(method, USUAL) for method in ("fedavg", "spfl")}
    asynchronous = pipeline("apfl", USUAL, rounds=DEVICES * ROUNDS)
    slow = {method: pipeline(method, SLOW) for method in ("fedavg", "spfl")}
    rows = [row for method, one in usual.items() for row in _round_rows("Figure 1", one, USUAL, method)]
    rows += _words("Figure 1", usual["fedavg"], usual["spfl"])
    rows += _words("Figure 2", usual["fedavg"], asynchronous)[1:]
    rows += _round_rows("Figure 5", slow["fedavg"], SLOW, "fedavg")
    rows.append(compared("Figure 5: SPFL, a round", SLOW.t_aggregate, slow["spfl"].round, within=1e-6, unit="s"))
    rows.append(
        claimed("Figure 5: the server never waits", "yes", _percent(slow["spfl"].work), slow["spfl"].work > ALMOST)
    )
    note = (
        f"{DEVICES} devices, one of them away for T_w at every visit; T_l = {USUAL.t_local:g}, T_c ="
        f" {USUAL.t_comm:g}, T_g = {USUAL.t_aggregate:g}, T_w = {USUAL.t_wait:g} s in Figures 1 and 2, and T_g ="
        f" T_l + T_c + T_w = {SLOW.t_aggregate:g} s in Figure 5, with T_w = T_l. References are the formulas of"
        f" Table 1 (NI-E2). The first {SETTLED} rounds are not measured."
    )
    charts = {f"Figure 1: {NAMES[name]}": one for name, one in usual.items()} | {"Figure 2: APFL": asynchronous}
    charts |= {f"Figure 5: {NAMES['spfl']}": slow["spfl"]}
    return Reproduction(rows=rows, note=note, figure=lambda: _draw(charts))


def _round_rows(figure: str, one: Pipeline, pace: Pace, method: str) -> list[Row]:
    name, wanted = f"{figure}: {NAMES[method]}", closed_forms(pace)[method]
    return [
        by_reference(compared(f"{name}, a round", wanted, one.round, within=1e-6 * wanted, unit="s")),
        Row(f"{name}, server at work", None, 100 * one.work, "% of the time"),
    ]


def _words(figure: str, serial: Pipeline, parallel: Pipeline) -> list[Row]:
    """What the drawings say: one after the other in FedAvg, side by side in the others."""
    name, beside = NAMES[parallel.method], parallel.beside
    return [
        claimed(
            f"{figure}: FedAvg aggregates beside devices at work",
            "never",
            _percent(serial.beside),
            serial.beside == 0,
        ),
        claimed(
            f"{figure}: {name} aggregates beside devices at work", "always", _percent(beside), beside > ALMOST, ALWAYS
        ),
    ]


ALMOST = 0.95
ALWAYS = "ok from 95 % on: of the server's work, the share during which some device trains, sends or receives"


def _percent(share: float) -> str:
    return f"{100 * share:.0f} %"


def _draw(charts: dict[str, Pipeline]) -> Any:
    end = DRAWN * closed_forms(USUAL)["fedavg"]
    return draw_timelines(
        {name: (one.spans, 0.0, end) for name, one in charts.items()}, "No One Idles: the pipelines, dry"
    )
