"""Whether a simulation with the durations of a real run makes the same run of it."""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from paceline.config import apply
from paceline.errors import DataError
from paceline.ledger.weights import read_weights
from paceline.reading import parse_object, read_text
from paceline.references import refuse_untrusted
from paceline.runs.driver import drive, make_executor
from paceline.runs.local import make_replay
from paceline.runs.settings import ExecutorSettings, settings_from
from paceline.runs.until import Until

ALONE = ExecutorSettings(device="cpu", cohort=1, threads=1)
"""One client a time in one thread, as the workers compute: the same operations, so the same bits."""


@dataclass(frozen=True, kw_only=True)
class Replayed:
    """A run on the wall clock beside its repetition in a simulation."""

    algorithm: str
    equal: bool
    """Whether all final weights that were kept are equal to the last bit, and all acts began when they did."""
    max_difference: float
    """The largest difference between two weights."""
    simulated_seconds: float
    recorded_seconds: float
    rounds: int
    acts_elsewhere: int
    """Acts that began at another time than they did then."""
    weights_lost: int
    """Models that were not kept, because the clients that held them were gone when the run ended."""

    def plain(self) -> dict[str, Any]:
        """Return all fields as plain values, for JSON."""
        return asdict(self)


def replay(directory: Path, *, trust: bool = False) -> Replayed:
    """Run again what was recorded in a directory, and compare; code that its settings name needs ``trust``."""
    kept, summary = (_kept(directory, name) for name in ("settings.json", "summary.json"))
    if not trust:
        refuse_untrusted({**kept, "executor": None}, str(directory))  # of which none is joined
    settings = replace(settings_from(kept), executor=ALONE)
    if summary.get("status") in ("running", "interrupted"):
        raise DataError(f"{directory} holds an unfinished run; finish it with paceline resume or paceline serve")
    until, seconds = summary.get("until"), summary.get("time")
    if not isinstance(until, dict) or not isinstance(seconds, int | float):
        raise DataError(
            f"{directory / 'summary.json'} does not say until when the run went, and how long; run it again"
        )
    run, hands = make_replay(settings, directory, apply(Until(), until, "until."))
    drive([run], make_executor(ALONE))
    if run.failure is not None:
        raise run.failure
    then, now = read_weights(directory), run.final
    if any(then[name].shape != now[name].shape for name in then.keys() & now.keys()):
        raise DataError(f"{directory} holds weights that do not fit the {settings.model} of today; restore it")
    difference = _difference(then, now)
    return Replayed(
        algorithm=settings.name,
        equal=difference == 0.0 and not hands.strays,
        max_difference=difference,
        simulated_seconds=run.world.now(),
        recorded_seconds=float(seconds),
        rounds=run.world.progress,
        acts_elsewhere=len(hands.strays),
        weights_lost=len(now.keys() - then.keys()),
    )


def _kept(directory: Path, name: str) -> dict[str, Any]:
    """What one of a finished run's files says."""
    try:
        return parse_object(read_text(directory / name), str(directory / name))
    except FileNotFoundError:
        raise DataError(f"{directory} holds no finished run: there is no {name}") from None


def _difference(then: dict[str, Tensor], now: dict[str, Tensor]) -> float:
    if not then or not then.keys() <= now.keys():
        return float("inf")
    pairs = [(then[name], now[name].cpu()) for name in then]
    if all(torch.equal(one, other) for one, other in pairs):
        return 0.0
    return max(float((one - other).abs().max()) for one, other in pairs)
