"""What a server makes of updates: their mean, a robust mean, the mean of those that pass a screening, a distillation.

The rules for which No One Idles (ICML 2023) finds the server busy: every upload is validated on public data (NI-T1),
or the uploads are distilled into one model (NI-T2). Values are deferred; the time is charged with ``world.work``.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Literal

from torch import Tensor

from paceline.algorithms.base import Model, World, apply, mean, require
from paceline.bounds import bounded, check_bounds
from paceline.learn.aggregation import Screening, average, krum, median, screen, screened_mean, trimmed
from paceline.learn.distillation import Distillation, distil
from paceline.learn.flops import TRAINING_PASSES
from paceline.learn.graph import Ghost, job
from paceline.learn.job import Trainer
from paceline.learn.space import Space
from paceline.system.availability import whole_part

RULES = ("mean", "median", "trimmed", "krum", "screen", "distil")
Rejected = Callable[[Sequence[int]], None]


@dataclass(frozen=True, kw_only=True)
class Aggregation:
    """How a server combines updates; ``screen`` and ``distil`` need public data."""

    rule: Literal["mean", "median", "trimmed", "krum", "screen", "distil"] = "mean"
    """Plain mean; coordinate-wise median; coordinate-wise mean without the extremes; the update closest to its
    neighbours; the mean of those that do no harm on public data; one model that learns there what all of them say."""
    trim: float = bounded(0.2, least=0, below=0.5)
    """Share of the updates left out at each end of every coordinate (trimmed)."""
    hostile: float = bounded(0.2, least=0, below=0.5)
    """Share of the updates taken to be hostile (krum): f is the whole part of share times updates."""
    picks: int = bounded(1, least=1)
    """How many updates Krum averages; more than 1 is multi-Krum, at most all but the f hostile ones."""
    screening: Screening = field(default_factory=Screening)
    distillation: Distillation = field(default_factory=Distillation)

    def __post_init__(self) -> None:
        require(self.rule in RULES, f"aggregation.rule is {self.rule!r}; wanted one of {', '.join(RULES)}")
        check_bounds(self, "aggregation.")

    @property
    def needs_public(self) -> bool:
        """Whether it needs samples at the server."""
        return self.rule in ("screen", "distil")

    def centre(
        self, world: World, model: Model, deltas: Sequence[Model], on_rejected: Rejected | None = None
    ) -> Model:
        """The middle of updates of the server's model, deferred; a single update is its own, unless screened out.

        ``on_rejected`` is told the places of the updates that a screening left out (maybe none), when it is computed.
        """
        require(len(deltas) > 0, "there are no updates to aggregate; leave the model as it is")
        count = len(deltas)
        if isinstance(model, Ghost):
            return model
        if self.rule == "screen":
            x, y = world.public.data()
            function = partial(_screened, self.screening, model.space, x, y, on_rejected)
            return job(function, model.space, model, *deltas)
        if self.rule == "mean" or count == 1:
            return mean(deltas)
        if self.rule == "median":
            return apply(median, *deltas)
        if self.rule == "trimmed":
            return apply(trimmed, *deltas, cut=whole_part(self.trim, count))
        if self.rule == "krum":
            f = whole_part(self.hostile, count)
            return apply(krum, *deltas, hostile=f, picks=min(self.picks, count - f))
        return self._distilled(world, model, deltas)

    def _distilled(self, world: World, model: Model, deltas: Sequence[Model]) -> Model:
        function = partial(_distilled, self.distillation, model.space, public_features(world), batches_key(world))
        return job(function, model.space, model, *deltas)

    def flops(self, world: World, model: Model, count: int) -> float:
        """What combining so many updates costs the server, in FLOPs; also in a dry run."""
        size, forward = model.space.size, model.space.flops
        if self.rule == "screen":
            return self.screening.passes(count) * public_size(world) * forward
        if self.rule == "distil" and count > 1:
            samples = self.distillation.samples(public_size(world))
            return samples * (count * forward + TRAINING_PASSES * forward)
        if self.rule == "krum":
            return 3.0 * size * count * (count - 1) / 2
        return 2.0 * size * count


async def aggregated(world: World, model: Model, count: int, site: int | None = None) -> Model:
    """Return ``model``, a sum of ``count`` models, once a server (by default the first) has spent the time on it.

    >>> import paceline
    >>> class Once(paceline.Algorithm):
    ...     rounds, local = 1, paceline.LocalSGD()
    ...     async def run(self, world):
    ...         trained = await world.visit(0, world.initial_model(), self.local)
    ...         yield paceline.Progress(await aggregated(world, paceline.mean([trained]), 1))
    >>> paceline.dry(Once(), {"times": "constant:3", "jitter": 0, "server": "constant:2"}, clients=1).seconds
    5.0
    """
    return await world.work(world.server if site is None else site, Aggregation().flops(world, model, count), model)


def distilled(world: World, student: Model, teachers: Sequence[Model], rule: Distillation) -> Model:
    """A student of any architecture after distillation from teachers of any architectures; deferred (FedDF)."""
    require(len(teachers) > 0, "there are no teachers to learn from; leave the model as it is")
    if isinstance(student, Ghost):
        return student
    spaces = [teacher.space for teacher in teachers]
    function = partial(_taught, rule, student.space, spaces, public_features(world), batches_key(world))
    return job(function, student.space, student, *teachers)


def distillation_flops(world: World, student: Space, teachers: Sequence[Space], rule: Distillation) -> float:
    """What ``distilled`` costs: every sample of every step passes all teachers, and the student three times."""
    each = sum(space.flops for space in teachers) + TRAINING_PASSES * student.flops
    return rule.samples(public_size(world)) * each


def public_size(world: World) -> int:
    """How many public samples there are; none is an error, also in a dry run."""
    size = world.public.size
    require(size > 0, "this aggregation.rule needs samples that the server holds; give it some, as in public=0.05")
    return size


def public_features(world: World) -> Tensor:
    """The public samples without their labels, for tasks with classes."""
    x, y = world.public.data()
    require(
        not y.is_floating_point(),
        "distillation compares probabilities of classes, but this task's targets are numbers; use another rule",
    )
    return x


def batches_key(world: World) -> int:
    """Where this round's distillation draws its batches."""
    return int(world.stream("distillation", world.round).integers(1 << 63))


def _screened(
    rule: Screening,
    space: Space,
    x: Tensor,
    y: Tensor,
    on_rejected: Rejected | None,
    trainer: Trainer,
    model: Tensor,
    *deltas: Tensor,
) -> Tensor:
    rejected = screen(rule, trainer, space, model, deltas, x, y)
    if on_rejected is not None:
        on_rejected(rejected)
    return screened_mean(deltas, rejected)


def _distilled(
    rule: Distillation, space: Space, x: Tensor, key: int, _: Trainer, model: Tensor, *deltas: Tensor
) -> Tensor:
    teachers = [(space, model + delta) for delta in deltas]
    return distil(rule, space, model + average(deltas), teachers, x, key) - model


def _taught(
    rule: Distillation, space: Space, spaces: Sequence[Space], x: Tensor, key: int, _: Trainer, *values: Tensor
) -> Tensor:
    start, *teachers = values
    return distil(rule, space, start, list(zip(spaces, teachers, strict=True)), x, key)
