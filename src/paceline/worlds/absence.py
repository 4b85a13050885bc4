"""What becomes of a device that is away: one rule for a whole run, whatever its algorithm."""

from __future__ import annotations

import math
from dataclasses import dataclass

from paceline.errors import SettingError, nearest

FORMS = "skip, wait or deadline:SECONDS"


@dataclass(frozen=True, slots=True)
class Absence:
    """How long a device that is away, or that leaves, is waited for before it is left out."""

    patience: float

    @property
    def text(self) -> str:
        """As it is set."""
        if self.patience == 0:
            return "skip"
        return "wait" if self.patience == math.inf else f"deadline:{self.patience:g}"


SKIP, WAIT = Absence(0.0), Absence(math.inf)


def parse_absence(text: str) -> Absence:
    """A rule from words: ``skip``, ``wait``, ``deadline:30``."""
    word, colon, number = text.partition(":")
    if text in ("skip", "wait"):
        return SKIP if text == "skip" else WAIT
    if word == "deadline":
        try:
            seconds = float(number)
        except ValueError:
            seconds = math.nan
        if 0 < seconds < math.inf:
            return Absence(seconds)
        raise SettingError(f"absence is {text!r}; wanted seconds above 0 after the colon, as in deadline:30")
    hint = f"{word!r} takes nothing after it" if colon and word in ("skip", "wait") else ""
    raise SettingError(f"absence is {text!r}; {hint or nearest(word, ('skip', 'wait', 'deadline'))} Forms: {FORMS}")
