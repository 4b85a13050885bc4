"""A limit on memory, kept by accounting: how much of it is taken, and how much what comes next may take.

Taken is what the process needs anyway, the data, and the models that somebody holds. Both are counted, not measured,
so that a repeated run cuts its work into the same parts. The one thing that is looked at is what the process takes
before anything is learned, and only where that is more than is usual (a notebook, another build of torch).
"""

from __future__ import annotations

import ctypes
import math
import os
import weakref
from collections.abc import Callable, Iterable
from functools import cache
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from paceline.errors import SettingError
from paceline.learn.cohort.captured import ROUNDED
from paceline.learn.footprint import Need, model_bytes, sample_bytes
from paceline.learn.graph import Model
from paceline.learn.notices import tell_slower
from paceline.learn.space import Space
from paceline.sizes import shown_size

MIB = 1 << 20
RESERVED = 448 * MIB
"""Python, torch, all else that a command loads, scripts, and the books of a run. Measured: a run that learns next to
nothing, ``/usr/bin/time -v paceline run fedavg --set rounds=2``, takes 408 MiB at most (torch 2.13 for CPUs)."""
LATER = 96 * MIB
"""Of that, what comes only after learning has begun (Parquet, TorchScript, the report): 90 MiB in the same run."""
GRAIN = 64 * MIB
"""What a process takes is rounded up to a multiple of this: it differs a little from run to run."""
USABLE = 0.75
"""Of what is left, the part that is given away: the rest is for gaps between what was freed and is taken again, and
for results of algebra."""
IN_STEPS = 0.25
"""Of what a wave may take, the part for the clients in training at one moment; the rest is for results and draws."""
IN_SCORES = 0.5
"""Of what may be taken, the part for scoring: threads of the C library share no freed memory, and layers of several
sizes leave gaps. Measured: 470 MiB taken where the rules said 285, by two threads with 40 models of 1.7 MiB each."""
PRUNED = 4096
FEWEST = 16
"""Samples of a model that are scored at a time at least: a product with a single row is another kernel on a CPU, with
other last bits."""
TRIMMED = 0.75
"""Of what the process may take beside its ground, what it takes when freed memory is given back after a portion. To
do so after every portion costs a third more CPU time (3 rounds of the runs in DESIGN.md: 10.7 s, not 7.9 s), for
what is given back is taken again; never to do so exceeds limits."""
MEASURED = 0.125
"""Of the limit, what models may take that wait for nothing but to be scored."""
COARSE = 128
"""Above the largest of the rounded sizes, multiples of this."""


def rounded_down(count: float) -> int:
    """The largest of a few sizes that is at most this: so that few forms of a step occur; at least 1.

    >>> [rounded_down(n) for n in (0, 7, 99, 700, 5000)]
    [1, 6, 80, 640, 4992]
    """
    if count >= ROUNDED[-1] + COARSE:
        return int(count) // COARSE * COARSE
    return max((size for size in ROUNDED if size <= count), default=1)


class Budget:
    """The accounts of one executor."""

    def __init__(self, limit: float, device: torch.device, threads: int = 1) -> None:
        self.limit = limit
        self.device = device
        self.threads = threads if device.type == "cpu" else 1
        self._ground: int | None = None
        self._data: dict[int, Tensor] = {}
        self._held: list[weakref.ref[Model]] = []
        self._pruned_at = PRUNED
        self._told = False
        """Whether it was said that models have taken all."""

    # -- what is taken ---------------------------------------------------------------------------------------------

    @property
    def ground(self) -> int:
        """What the process takes besides data and models; settled when it is asked for first."""
        if self._ground is None:
            self._ground = 0 if self.device.type != "cpu" else ground(resident() - self.data)
        return self._ground

    @property
    def data(self) -> int:
        """Bytes of the samples that were seen."""
        return sum(tensor.nbytes for tensor in self._data.values())

    def see(self, *tensors: Tensor) -> None:
        """Count these samples, each once."""
        for tensor in tensors:
            self._data.setdefault(tensor.data_ptr(), tensor)

    def note(self, model: Model) -> None:
        """A model has a value: it counts for as long as somebody holds it."""
        self._held.append(weakref.ref(model))
        if len(self._held) > self._pruned_at:
            self._held = [one for one in self._held if one() is not None]
            self._pruned_at = max(PRUNED, 2 * len(self._held))

    def held(self) -> int:
        """Bytes of all values that somebody holds; what several share, once."""
        values: dict[int, int] = {}
        for reference in self._held:
            model = reference()
            if model is not None and model.value is not None:
                values[id(model.value)] = model.value.nbytes
        return sum(values.values())

    # -- what may be taken -----------------------------------------------------------------------------------------

    def room(self, besides: int = 0) -> float:
        """Bytes that may be taken now, where ``besides`` are taken by what is no model yet."""
        held = self.held()
        left = self.limit - self.ground - self.data - held - besides
        if left <= 0 and not self._told:
            self._told = True  # how much that is changes with every portion: not news each time
            tell_slower(
                f"executor.memory is {shown_size(self.limit)}, and the models that the runs hold at one time take"
                f" {shown_size(held + besides)} of it, so that nothing is left: one client trains at a time, and the"
                " limit is exceeded; give more memory, or fewer seeds or clients at once"
            )
        return max(0.0, USABLE * left)

    def visits(self, need: Need, besides: int = 0) -> int:
        """How many such visits may be computed in one call."""
        room = self.room(besides)
        now = max(IN_STEPS * room, self.threads * need.step)
        return rounded_down((room - now) / (model_bytes(need.space) + need.draws))

    def cohort(self, need: Need) -> int:
        """How many clients may be in one cohort, where each thread has one."""
        return rounded_down(IN_STEPS * self.room() / (self.threads * need.step))

    def stacked(self, space: Space, parents: int) -> int:
        """How many nodes may be computed row by row at once."""
        return rounded_down(self.room() / row_bytes(space, parents))

    def scored(self, space: Space) -> tuple[int, int]:
        """How many models may be scored together, on how many samples (over all of them) at a time."""
        room = IN_SCORES * self.room() / self.threads
        samples = max(FEWEST, int(room / 2 / sample_bytes(space)))
        return min(rounded_down(room / 2 / (2 * model_bytes(space))), samples // FEWEST), samples

    def to_be_measured(self, models: Iterable[Model]) -> bool:
        """Whether these, which wait for nothing but to be scored, have become too many to wait any longer."""
        values = {id(model.value): model.value.nbytes for model in models if model.value is not None}
        return sum(values.values()) > MEASURED * self.limit

    def give_back(self, above: float = TRIMMED, *, coming: int = 0) -> None:
        """Give what was freed back to the system, which the C library does not do by itself, if the process takes, or
        will with what is ``coming`` in large pieces, more than this part of what it may take beside its ground. What
        it really takes may decide: no result changes.
        """
        trim = _trim() if self.device.type == "cpu" else None
        if trim is not None and resident() + coming > self.ground + above * (self.limit - self.ground):
            trim(0)

    # -- before anything is learned --------------------------------------------------------------------------------

    def require(self, needs: Iterable[Need]) -> None:
        """Refuse a limit under which not even one client a thread could train; one need a run."""
        models, step = 0, 0
        for need in needs:
            models += 2 * model_bytes(need.space)  # where it starts, and what it makes of it
            step = max(step, self.threads * need.step + model_bytes(need.space) + need.draws)
        least = self.ground + self.data + (models + step) / USABLE
        if least <= self.limit:
            return
        where = "Python and torch" if self.device.type == "cpu" else "torch"
        advice = "fewer seeds at once, a smaller local.batch or model"
        if self.threads > 1:
            advice += ", or executor.threads=1"
        raise SettingError(
            f"executor.memory (--memory) is {shown_size(self.limit)}, but these runs need"
            f" {shown_size(math.ceil(least))} at least: {shown_size(self.ground)} for {where},"
            f" {shown_size(self.data)} for data, {shown_size(models)} for the runs' own models and {shown_size(step)}"
            f" to train one client {'a thread' if self.threads > 1 else 'at a time'}, with a third more to move in;"
            f" give more, or {advice}"
        )


def ground(taken: int) -> int:
    """What a process needs besides data and models, by what it takes before anything is learned.

    >>> ground(250 * MIB) == RESERVED, ground(700 * MIB) // MIB
    (True, 832)
    """
    return max(RESERVED, -(-(taken + LATER) // GRAIN) * GRAIN)


def row_bytes(space: Space, parents: int) -> int:
    """What a node takes that is computed row by row: inputs, as much again in between, results twice."""
    return model_bytes(space) * (3 * parents + 2)


def resident() -> int:
    """Bytes that this process takes now; 0 where the system does not say."""
    try:
        pages = int(Path("/proc/self/statm").read_text().split()[1])
    except (OSError, IndexError, ValueError):
        return 0
    return pages * os.sysconf("SC_PAGE_SIZE")


@cache
def _trim() -> Callable[[int], Any] | None:
    try:
        found: Callable[[int], Any] = ctypes.CDLL(None).malloc_trim
    except (OSError, AttributeError, TypeError):  # another C library, another system
        return None
    return found
