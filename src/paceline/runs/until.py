"""When to stop early."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from paceline.bounds import LONGEST, bounded, check_bounds
from paceline.errors import SettingError, nearest
from paceline.learn.job import Score
from paceline.reading import plain_number, shown

WORDS = ("accuracy", "loss", "time", "visits")


@dataclass(frozen=True, slots=True)
class Until:
    """Stop as soon as any of these is reached; what is None is not asked.

    >>> until = Until.parse(["accuracy=0.9", "visits=200"])
    >>> until.accuracy, until.learned, until.met_by_visits(199), until.text
    (0.9, True, False, ' until accuracy=0.9 or visits=200')
    >>> until.met_by([Score(accuracy=0.91, loss=0.3, samples=360)])
    True
    """

    accuracy: float | None = bounded(None, above=0, most=1)
    loss: float | None = bounded(None, above=0)
    time: float | None = bounded(None, above=0, most=LONGEST)
    visits: float | None = bounded(None, least=1, most=1e15)
    """Client visits."""
    over: int = bounded(1, least=1)
    """The last so many scores, whose mean must be good enough: one alone may be so by chance."""

    @classmethod
    def parse(cls, texts: Sequence[str]) -> Until:
        """What words such as ``["accuracy=0.9", "time=3600"]`` say."""
        found: dict[str, Any] = {}
        for text in texts:
            word, _, number = text.partition("=")
            if word not in WORDS:
                raise SettingError(f"--until {shown(text)}: {nearest(word, WORDS)}")
            try:
                found[word] = plain_number(number)
            except ValueError:
                raise SettingError(
                    f"--until {shown(text)}: wanted a number after the =, such as {word}=0.9"
                ) from None
            check_bounds(cls(**found), "--until ")  # each, also one that a later one overrules
        return cls(**found)

    @property
    def learned(self) -> bool:
        """Whether the schedule must wait for scores."""
        return self.accuracy is not None or self.loss is not None

    @property
    def text(self) -> str:
        """The limits as they are written, with a word before them; empty where there are none."""
        said = [f"{word}={value:g}" for word in WORDS if (value := getattr(self, word)) is not None]
        return f" until {' or '.join(said)}" if said else ""

    def met_by(self, scores: Sequence[Score]) -> bool:
        """Whether the latest of these scores are good enough."""
        last = scores[-self.over :]
        if len(last) < self.over:
            return False
        good = self.accuracy is not None and _mean([score.accuracy for score in last]) >= self.accuracy
        return good or (self.loss is not None and _mean([score.loss for score in last]) <= self.loss)

    def met_by_visits(self, visits: int) -> bool:
        """Whether enough was done. (That the time is over is a timer of the run's clock.)"""
        return self.visits is not None and visits >= self.visits


def _mean(values: Sequence[float]) -> float:
    return math.fsum(values) / len(values)
