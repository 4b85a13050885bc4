"""Sparse to sparser (DA-8 ... DA-10): clients vote, pruning times follow from the vote, and masks lose weights."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal

import torch
from torch import Tensor

from paceline.algorithms.base import Event, LocalReadings, Model, Reading, World, by_rows
from paceline.algorithms.reuse import End
from paceline.algorithms.sparse import Swarm, masked
from paceline.bounds import bounded
from paceline.learn.space import Slot
from paceline.learn.sparsity import Sap, agreed, counts, detection, prune, pruning_rounds, votes

SCORED = 20
"""Models whose distance from the start is measured together: one is too few for a GPU, all are copied at once."""


@dataclass(frozen=True, kw_only=True)
class Pruning:
    """When masks become sparser, and how much (DA-8 ... DA-10)."""

    target: float = bounded(0.8, least=0, below=1)
    """The share of zeros at which a client stops (s*); not above the first sparsity: nobody prunes."""
    threshold: float = bounded(0.02, least=0)
    """A client votes for it when its detection score changes by less than this, relative to the first (delta_pr)."""
    share: float = bounded(0.5, above=0, most=1)
    """Votes that start it (delta_v)."""
    delay: float = bounded(0.0, least=0)
    """b of Eq. 6."""
    scale: float = bounded(1.3, above=0)
    """c of Eq. 6: the gaps between prunings shrink by it."""
    norm: Literal["tensors", "global"] = "tensors"
    """Of the detection score: as the reference code has it, or as Eq. 4 (DA-E6)."""
    first: int | None = bounded(None, least=1)
    """The round t* itself, instead of a vote."""
    sap: Sap = field(default_factory=Sap)


class Timing:
    """In which rounds masks become sparser (DA-8, DA-9); rounds are counted from 1 there and from 0 here."""

    def __init__(self, rule: Pruning | None, rounds: int, swarm: Swarm) -> None:
        """Take the rule of pruning; without one no model is ever pruned."""
        self._rule = rule or Pruning()
        self._last = rounds
        self._slots = swarm.space.slots
        self._rounds: frozenset[int] = frozenset()
        self._starts = [peer.weights for peer in swarm.peers]
        """Each client's own model at the start, sparse as it was."""
        self._scores: tuple[Tensor, Tensor] | None = None
        """The first of each client, and the last."""
        self.figures: dict[str, float] = {}
        """Of the last round, as long as clients vote: the mean score, and how much it changed, relative to the first,
        on average over those who voted (Eq. 4, Figure 5)."""
        self._found = rule is None
        if rule is not None and rule.first is not None:
            self._set(rule.first)

    def prunes(self, round: int) -> bool:
        """Tell whether models are pruned in this round."""
        return round + 1 in self._rounds

    async def detect(self, world: World, round: int, ends: Sequence[End]) -> None:
        """DA-8: all who took part vote, by how much their models still change; if enough agree, times are set."""
        self.figures = {}
        if self._found:
            self._starts = []
            return
        for_it = self._votes(await self._measured(world, ends), [end.took_part for end in ends])
        if len(for_it) and agreed(for_it, self._rule.share):
            self._set(round + 1)
            text = (
                f"{int(for_it.sum())} of {len(for_it)} clients vote for pruning in round {round + 1};"
                f" rounds that prune: {_few(sorted(self._rounds))}"
            )
            world.log.tell(Event(text=text, figures={"first": round + 1, "rounds": sorted(self._rounds)}))

    async def _measured(self, world: World, ends: Sequence[End]) -> Tensor:
        """Each client's detection score, which it reads off its own models."""
        own = [(start, end.trained) for start, end in zip(self._starts, ends, strict=True)]
        return await world.observe(LocalReadings(own, self._distances))

    def _votes(self, now: Tensor, here: Sequence[bool]) -> Tensor:
        """The votes of those who are here, by their score now, in the round before, and in the first."""
        first, before = self._scores or (now, torch.zeros_like(now))
        first = torch.where(first == 0, now, first)  # of one that was away until now
        self._scores = first, now
        settled = votes(now, before, first, self._rule.threshold) & (before > 0)  # from t = 2 on
        voting = torch.tensor(here) & (before > 0)
        self.figures = {"score": float(now.mean())}
        if voting.any():
            self.figures["change"] = float(((now - before).abs() / first)[voting].mean())
        return settled[torch.tensor(here)]

    def _set(self, first: int) -> None:
        """DA-9: the pruning times that follow from the first decision."""
        times = pruning_rounds(first, self._last, delay=self._rule.delay, scale=self._rule.scale)
        self._rounds, self._found, self._scores = frozenset(times), True, None

    def _distances(self, values: Sequence[Tensor]) -> Tensor:
        found = []
        for k in range(0, len(values), 2 * SCORED):
            some = values[k : k + 2 * SCORED]
            starts, models = torch.stack(list(some[0::2])), torch.stack(list(some[1::2]))
            found.append(detection(models, starts.to(models), self._slots, self._rule.norm).cpu())
        return torch.cat(found)


class Cut:
    """DA-10: what a round's pruning, if there is one, leaves of a trained model."""

    def __init__(self, slots: Sequence[Slot], mask: Model, pruning: Pruning | None) -> None:
        self.prunes = pruning is not None
        self.support = mask
        """The mask under which the weights are."""
        self.weights = mask
        self._slots = slots
        self._pruning = pruning

    def __call__(self, trained: Model) -> Model:
        """Return the weights that are left of a trained model."""
        self.weights, rule = trained, self._pruning
        if rule is not None:
            self.support = by_rows(prune, trained, self.support, slots=self._slots, rule=rule.sap, target=rule.target)
            self.weights = masked(trained, self.support)
        return self.weights

    def read_counts(self, world: World) -> Reading[tuple[int, ...]] | None:
        """How many weights a pruning has left: sizes and times depend on it from the next round on."""
        if not self.prunes:
            return None
        slots = self._slots
        reading = Reading([self.support], lambda values: tuple(counts(values[0][None], slots)[0].tolist()))
        world.learning.expect(reading)
        return reading


def _few(rounds: Sequence[int], most: int = 6) -> str:
    """The first of them, and how many there are."""
    if not rounds:
        return "none is left"
    named = ", ".join(map(str, rounds[:most]))
    return named if len(rounds) <= most else f"{named}, ... {rounds[-1]}, {len(rounds)} in all"
