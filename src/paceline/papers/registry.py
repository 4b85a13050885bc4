"""Reproductions by name; a paper's module is imported when one of them is asked for."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from importlib import import_module
from pathlib import Path
from typing import Any, cast

from paceline.errors import SettingError, nearest
from paceline.papers.result import Reproduction, Request, hardware


@dataclass(frozen=True, slots=True)
class Entry:
    """One table or figure of a paper."""

    id: str
    title: str
    paper: str
    function: str
    """``module:function``, so that what needs no torch does not wait for it."""
    scales: tuple[str, ...] = ()
    """Sizes to choose from, the first by default; empty where there is only one."""

    @property
    def trained(self) -> bool:
        """Whether models are trained whatever the scale, which takes longer and may use a GPU."""
        return bool(self.scales) and self.scales[0] in BOTH

    @property
    def training(self) -> str:
        """Say in a word whether the reproduction needs training."""
        return "yes" if self.trained else "in part" if self.scales else "no"

    def load(self) -> Callable[[Request], Reproduction]:
        """Import the function that computes the reproduction."""
        module, _, name = self.function.partition(":")
        return cast(Callable[[Request], Reproduction], getattr(import_module(module), name))


PSFL = "PSFL, INFOCOM 2025"
THEORY = "paceline.papers.psfl.theory"
ROUNDS = "paceline.papers.psfl.rounds"
TRAINED = "paceline.papers.psfl.trained"
CONTEST = "paceline.papers.psfl.contest"
NOIDLE = "No One Idles, ICML 2023"
TIMES = "paceline.papers.noidle.times"
LEARNED = "paceline.papers.noidle.trained"
PFEDAVG = "P-FedAvg, ToN 2022"
SERVERS = "paceline.papers.pfedavg.theory"
MIXED = "paceline.papers.pfedavg.trained"
METHODS = "paceline.papers.pfedavg.methods"
CAPACITIES = "paceline.papers.pfedavg.capacities"
SPEEDUP = "paceline.papers.pfedavg.speedup"
ITERATIONS = "paceline.papers.pfedavg.times"
OTHERS = "paceline.papers.pfedavg.graphs"
WEIGHTED = "paceline.papers.pfedavg.weighted"
DADPFL = "DA-DPFL, TNNLS"
ABLATIONS = "paceline.papers.dadpfl.ablations"
FRONTIER = "paceline.papers.dadpfl.frontier"
PEERS = "paceline.papers.dadpfl.times"
SPARSER = "paceline.papers.dadpfl.trained"
BOTH = ("small", "paper")
THREE = ("small", "middle", "paper")
"""Where the paper's own size takes hours on one GPU, a middle one takes minutes."""
THEN_TRAINED = ("theory", *BOTH)
"""What can be had without training, first; the other scales add the rows that need it."""

_ENTRIES = (
    Entry("psfl-table1", "the optimal structure over the number of clients", PSFL, f"{THEORY}:table1", THEN_TRAINED),
    Entry("psfl-fig1", "rounds of SFL, FedAvg and PSFL with 9 clients", PSFL, f"{ROUNDS}:fig1", THEN_TRAINED),
    Entry("psfl-fig3", "time to an accuracy, and accuracy at equal time", PSFL, f"{TRAINED}:fig3", BOTH),
    Entry("psfl-fig6", "round time under three ways of sampling", PSFL, f"{ROUNDS}:fig6"),
    Entry("psfl-fig7", "the cost over the sequence length", PSFL, f"{THEORY}:fig7", THEN_TRAINED),
    Entry("psfl-fig8", "accuracy at equal time on three other splits", PSFL, f"{TRAINED}:fig8", BOTH),
    Entry("psfl-fig9", "accuracy at equal time with more clients a round", PSFL, f"{TRAINED}:fig9", BOTH),
    Entry(
        "psfl-structures", "every structure at its best rate, and the chosen one", PSFL, f"{CONTEST}:contest", BOTH
    ),
    Entry("noidle-table1", "speed-ups of MIFA, SPFL and APFL over FedAvg", NOIDLE, f"{TIMES}:table1"),
    Entry("noidle-table2", "speed-ups with a slow server and no stragglers", NOIDLE, f"{TIMES}:table2"),
    Entry("noidle-fig3", "speed-ups over stragglers' absence and server time", NOIDLE, f"{TIMES}:fig3"),
    Entry("noidle-table1-accuracy", "five methods with screening, IID and not", NOIDLE, f"{LEARNED}:table1", THREE),
    Entry("noidle-table2-accuracy", "distillation by local epochs", NOIDLE, f"{LEARNED}:table2", THREE),
    Entry("noidle-fig4", "convergence with 20 devices", NOIDLE, f"{LEARNED}:fig4", THREE),
    Entry("noidle-architectures", "three architectures taught by all", NOIDLE, f"{LEARNED}:architectures", BOTH),
    Entry("pfedavg-p", "the consensus rate of five topologies of 9 servers", PFEDAVG, f"{SERVERS}:rates"),
    Entry("pfedavg-table2", "traffic of a round, FedAvg and five topologies", PFEDAVG, f"{ITERATIONS}:table2"),
    Entry("pfedavg-table3", "traffic, time and robustness of five topologies", PFEDAVG, f"{SERVERS}:table3"),
    Entry("pfedavg-table5", "time of a global iteration of four methods", PFEDAVG, f"{ITERATIONS}:table5"),
    Entry("pfedavg-fig2", "the speed-up of parallel servers by order statistics", PFEDAVG, f"{SPEEDUP}:fig2"),
    Entry("pfedavg-fig8-p", "the consensus rate of three weightings", PFEDAVG, f"{SERVERS}:fig8_rates"),
    Entry("pfedavg-fig4", "convergence on five topologies of servers", PFEDAVG, f"{MIXED}:fig4", BOTH),
    Entry("pfedavg-fig5", "FedAvg, P-FedAvg, HierFAVG and DPSGD per round", PFEDAVG, f"{METHODS}:fig5", BOTH),
    Entry("pfedavg-fig6", "the same methods over time", PFEDAVG, f"{METHODS}:fig6", BOTH),
    Entry("pfedavg-fig7", "time to an accuracy over capacities", PFEDAVG, f"{CAPACITIES}:fig7", BOTH),
    Entry("pfedavg-fig8", "convergence with three weightings", PFEDAVG, f"{MIXED}:fig8", BOTH),
    Entry("pfedavg-graphs", "twelve other graphs: p against all modes", PFEDAVG, f"{OTHERS}:graphs", BOTH),
    Entry("pfedavg-weights", "weights best by p and by all modes", PFEDAVG, f"{WEIGHTED}:weights", BOTH),
    Entry("noidle-screening", "hostile devices, and what screening saves", NOIDLE, f"{LEARNED}:screening", BOTH),
    Entry("dadpfl-table2", "traffic and operations of all methods", DADPFL, "paceline.papers.dadpfl.costs:table2"),
    Entry("dadpfl-fig3", "cost in time and energy over θ", DADPFL, "paceline.papers.dadpfl.energy:fig3"),
    Entry("dadpfl-fig8", "the share of clients that start at once", DADPFL, f"{PEERS}:fig8"),
    Entry("dadpfl-fig9", "the mean longest wait over neighbours", DADPFL, f"{PEERS}:fig9"),
    Entry("dadpfl-table1", "accuracy and costs of nine methods, Dir and Pat", DADPFL, f"{SPARSER}:table1", THREE),
    Entry("dadpfl-table3", "six methods on a ring and a complete graph", DADPFL, f"{SPARSER}:table3", THREE),
    Entry("dadpfl-fig5", "accuracy and time over the neighbours M", DADPFL, f"{ABLATIONS}:fig5", THREE),
    Entry("dadpfl-fig6", "long runs to 80 % zeros, by thresholds", DADPFL, f"{ABLATIONS}:fig6", THREE),
    Entry("dadpfl-fig7", "accuracy over the wait cap N", DADPFL, f"{ABLATIONS}:fig7", THREE),
    Entry("dadpfl-frontier", "time to accuracies over N and link costs", DADPFL, f"{FRONTIER}:frontier", THREE),
)
REPRODUCTIONS: dict[str, Entry] = {entry.id: entry for entry in _ENTRIES}


def entry_named(id: str) -> Entry:
    """Look a reproduction up; an unknown name is an error that names the nearest one."""
    if id not in REPRODUCTIONS:
        raise SettingError(f"no reproduction is called {id!r}; {nearest(id, REPRODUCTIONS)}")
    return REPRODUCTIONS[id]


def reproduce(
    id: str,
    *,
    scale: str | None = None,
    seeds: int = 5,
    out: Path | None = None,
    quiet: bool = False,
    data: str | None = None,
) -> Reproduction:
    """Compute one table or figure anew; with ``out``, also write result.json and the figure there."""
    entry = entry_named(id)
    scale = _scale(entry, scale)
    if seeds < 1:
        raise SettingError(f"seeds is {seeds}; it must be 1 or more")
    if data is not None and not entry.trained:
        raise SettingError(f"data is {data!r}, but {entry.id} has no choice of datasets; leave out --data")
    if out is not None:
        _make_directory(out)
    begin = time.perf_counter()
    found = entry.load()(Request(scale=scale, seeds=seeds, out=out, quiet=quiet, data=data))
    found = replace(
        found,
        id=entry.id,
        title=f"{entry.paper}: {entry.title}",
        scale=scale,
        seconds=found.seconds or time.perf_counter() - begin,
        hardware=found.hardware or hardware(trained=scale in BOTH),
    )
    if out is not None:
        write(found, out)
    return found


def _scale(entry: Entry, scale: str | None) -> str | None:
    if scale is None or scale in entry.scales:
        return scale or next(iter(entry.scales), None)
    if not entry.scales:
        raise SettingError(f"scale is {scale!r}, but {entry.id} has only one size; leave out --scale")
    raise SettingError(f"scale is {scale!r}; {entry.id} has: {', '.join(entry.scales)}")


def _make_directory(out: Path) -> None:
    """Before the work, so that a path that cannot be is known at once."""
    try:
        out.mkdir(parents=True, exist_ok=True)
    except OSError as problem:
        raise SettingError(f"--out {out} cannot be made a directory: {problem.strerror}") from None


def write(found: Reproduction, out: Path) -> None:
    """result.json and, where there is one, figure.svg and figure.png."""
    (out / "result.json").write_text(dump(found.to_json()) + "\n", encoding="utf-8")
    if found.figure is None:
        return
    from matplotlib import rc_context

    figure = found.figure()
    with rc_context({"svg.hashsalt": found.id}):  # without it the same picture has other bytes each time
        figure.savefig(out / "figure.svg", metadata={"Date": None})
    figure.savefig(out / "figure.png")


def dump(value: Any) -> str:
    """JSON as it is printed and written: σ stays σ."""
    return json.dumps(value, indent=2, ensure_ascii=False, allow_nan=False)
