"""What becomes of a device that is away: one rule for a whole run, whatever its algorithm."""

from __future__ import annotations

import math
from dataclasses import dataclass

from paceline.forms import ABOVE_ZERO, Form, Forms


@dataclass(frozen=True, slots=True)
class Absence:
    """How long a device that is away, or that leaves, is waited for before it is left out."""

    patience: float

    @property
    def text(self) -> str:
        """The rule as it is written in settings."""
        if self.patience == 0:
            return "skip"
        return "wait" if self.patience == math.inf else f"deadline:{self.patience:g}"


SKIP, WAIT = Absence(0.0), Absence(math.inf)


def _deadline(seconds: float) -> Absence:
    return Absence(patience=seconds)


ABSENCES: Forms[Absence] = Forms(
    "absence",
    Form("skip", lambda: SKIP, "a device that is away, or leaves in the middle, is left out", "skip"),
    Form("wait", lambda: WAIT, "it is waited for until it is back", "wait"),
    Form(
        "deadline:SECONDS",
        _deadline,
        "it is waited for so many seconds at most, each time",
        "deadline:30",
        {"SECONDS": ABOVE_ZERO},
    ),
)
"""The rules that a run can have."""


def parse_absence(text: str) -> Absence:
    """A rule from words: ``skip``, ``wait``, ``deadline:30``."""
    return ABSENCES.parse(text)
