"""Rare classes dealt out more often than they are there: ``pathological:2,equal*18,12,6,53,44,1,6``."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from paceline.data.schemes import Scheme
from paceline.data.shares import Groups, Labels, Partition
from paceline.errors import PartitionError, SettingError
from paceline.reading import shown

MOST = 1000
"""The most times a sample can be dealt out; more is a slip."""


@dataclass(frozen=True)
class Oversampled:
    """Another scheme on a population in which every sample of class c is there ``factors[c]`` times.

    Nothing is copied: clients own indices, and several of them, or one of them several times, own the same sample.
    """

    scheme: Scheme
    factors: tuple[int, ...]
    """One for each class."""

    def split(
        self, labels: Labels, clients: int, rng: np.random.Generator, groups: Groups | None = None
    ) -> Partition:
        """Repeat the samples, and deal them out by the other scheme."""
        classes = int(labels.max()) + 1
        if classes > len(self.factors):
            raise PartitionError(
                f"partition: {len(self.factors)} factors after the * for {classes} classes; give one for each class"
            )
        rows = np.repeat(np.arange(len(labels)), np.array(self.factors)[labels])
        dealt = self.scheme.split(labels[rows], clients, rng, None if groups is None else groups[rows])
        return Partition(rows[dealt.indices], dealt.offsets)


def parse_factors(text: str) -> tuple[int, ...]:
    """The whole numbers after the ``*``."""
    words = [word.strip() for word in text.split(",")]
    if not all(word.isascii() and word.isdecimal() and len(word) < 9 and 1 <= int(word) <= MOST for word in words):
        raise SettingError(
            f"partition: after the * stands {shown(text)}; wanted a whole number from 1 to {MOST} for each class,"
            " as in pathological:2,equal*18,12,6"
        )
    return tuple(map(int, words))
