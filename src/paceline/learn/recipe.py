"""Local training recipes: what one visit to a client does to a model."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache
from typing import ClassVar, Literal

from paceline.bounds import Bounds, bounded, check_bounds
from paceline.errors import SettingError, nearest
from paceline.reading import shown

Loss = Literal["cross_entropy", "squared"]
SCHEDULES = {
    "constant": "lr",
    "exponential:F": "lr * F**round",
    "inverse:T": "lr / (1 + round/T)",
    "step:F,E": "lr * F**(round // E)",
}
SOUND = Bounds(above=0)
"""Of the numbers of a schedule."""
MOST_DRAWN = 100_000_000
"""Samples that one visit may draw: their numbers alone take 8 bytes each."""


@dataclass(frozen=True, kw_only=True)
class LocalSGD:
    """SGD on one client's own data, starting afresh (no momentum is carried over) at every visit.

    One step, in this order: the gradient of the batch's mean loss (at the perturbed point under SAM), plus
    ``prox`` times the distance from the anchor, plus the correction; the mask; clipped by its global
    norm; plus ``weight_decay`` times the weights; momentum; the step; the mask again.
    """

    lr: float = bounded(0.1, above=0)
    batch: int = bounded(20, least=1, most=1_000_000)
    steps: int | None = bounded(None, least=1, most=1_000_000)
    """SGD steps a visit; give either this or ``epochs``."""
    epochs: int | None = bounded(None, least=1, most=10_000)
    """Passes over the client's data a visit (1 when neither is given)."""
    schedule: str = "constant"
    """How lr falls with the round: constant, exponential:0.998, inverse:10, step:0.1,50."""
    momentum: float = bounded(0.0, least=0, below=1)
    weight_decay: float = bounded(0.0, least=0)
    clip: float | None = bounded(None, above=0)
    """Largest norm of the gradient; none when not given."""
    prox: float = bounded(0.0, least=0)
    """FedProx's mu: pulls towards the model the visit started from, or the anchor given."""
    sam: float = bounded(0.0, least=0)
    """Sharpness-aware minimisation: radius rho of the perturbation; 0 is off."""
    augment: Literal["none", "crop-flip"] = "none"
    loss: Loss = "cross_entropy"

    ALTERNATIVES: ClassVar = (("steps", "epochs"),)

    def __post_init__(self) -> None:
        if self.steps is not None and self.epochs is not None:
            raise SettingError(f"local.steps={self.steps} and local.epochs={self.epochs}: give one of the two")
        check_bounds(self, "local.")
        if (drawn := (self.steps or 1) * self.batch) > MOST_DRAWN:
            raise SettingError(
                f"local.steps times local.batch is {drawn:,} samples a visit; wanted {MOST_DRAWN:,} at most"
            )
        if self.augment not in ("none", "crop-flip"):
            raise SettingError(f"local.augment is {self.augment!r}; {nearest(self.augment, ['none', 'crop-flip'])}")
        if self.loss not in ("cross_entropy", "squared"):
            raise SettingError(f"local.loss is {self.loss!r}; {nearest(self.loss, ['cross_entropy', 'squared'])}")
        self.lr_at(0)

    def lr_at(self, round: int) -> float:
        """The learning rate of a round."""
        name, _, text = self.schedule.partition(":")
        try:
            numbers = [float(part) for part in text.split(",")] if text else []
            match name, numbers:
                case "constant", []:
                    return self.lr
                case "exponential", [factor] if SOUND.hold(factor):
                    return self.lr * _power(factor, round)
                case "inverse", [period] if SOUND.hold(period):
                    return self.lr / (1 + round / period)
                case "step", [factor, every] if SOUND.hold(every) and SOUND.hold(factor):
                    return self.lr * _power(factor, round // every)
        except ValueError:
            pass
        forms = ", ".join(f"{form} ({meaning})" for form, meaning in SCHEDULES.items())
        raise SettingError(f"local.schedule is {shown(self.schedule)}; wanted one of {forms}")

    def steps_for(self, samples: int) -> int:
        """How many SGD steps a visit to a client with this many samples takes."""
        if self.steps is not None:
            return self.steps
        return (self.epochs or 1) * -(-samples // self.batch)

    def samples_for(self, samples: int) -> int:
        """How many sample gradients such a visit computes, the measure of its work (SAM doubles it)."""
        if self.steps is None:
            seen = (self.epochs or 1) * samples
        else:
            per_epoch = max(1, -(-samples // self.batch))
            epochs, rest = divmod(self.steps, per_epoch)
            seen = epochs * samples + min(rest * self.batch, samples)
        return seen * (2 if self.sam else 1)


def _power(factor: float, exponent: float) -> float:
    """A learning rate that grows beyond all numbers is infinite, and the run diverges; that is no bug."""
    try:
        return float(factor**exponent)
    except OverflowError:
        return math.inf


@lru_cache(maxsize=256)
def one_step(recipe: LocalSGD) -> LocalSGD:
    """One plain step with rate 1 on a batch of this recipe: what it moves is the gradient."""
    return LocalSGD(lr=1.0, batch=recipe.batch, steps=1, loss=recipe.loss, augment=recipe.augment)


@lru_cache(maxsize=4096)
def share_of_a_step(recipe: LocalSGD, samples: int) -> float:
    """How much of a visit to a client with so many samples one more plain step is; at most 1."""
    return min(1.0, one_step(recipe).samples_for(samples) / recipe.samples_for(samples))
