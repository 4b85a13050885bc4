"""Work on a device that runs out of memory: in smaller parts, from what is not done yet, and so for good.

What fits is not known before: kernels take room of their own, and others may use the same GPU. So cohorts are as
large as the rules say until the device says no. Then what can be made again (captured graphs, the allocator's
reserve) is let go and the same is tried once more; then cohorts are halved, for this kind of work, until the process
ends.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Any, TypeVar

import torch

from paceline.errors import ModelError
from paceline.learn.notices import tell_slower

R = TypeVar("R")
Done = Callable[[slice, list[R]], None]


class Shrinking:
    """How large parts of each kind of work may be, as far as the device has said no."""

    def __init__(self, release: Callable[[], None]) -> None:
        self._release = release
        """Lets go of all on the device that can be made again."""
        self._most: dict[Hashable, int] = {}

    def run(
        self,
        kind: Hashable,
        name: str,
        parts: list[slice],
        compute: Callable[[list[slice], Done[R]], None],
        smaller: Callable[[], bool] = lambda: False,
    ) -> list[R]:
        """The results of all parts, in order.

        ``compute(parts, done)`` computes parts and tells ``done(part, results)`` of each. Where a part of one is too
        large still, ``smaller`` finds another way to take less room, or says that there is none.
        """
        done: dict[int, list[R]] = {}
        parts, again = self._cut(kind, parts), True
        while not self._fits(compute, [part for part in parts if part.start not in done], done):
            self._release()
            if again:
                again = False
                continue
            left = [part for part in parts if part.start not in done]
            largest = max(part.stop - part.start for part in left)
            if largest > 1:
                self._most[kind] = largest // 2
                tell_slower(f"{name} ran out of device memory: at most {largest // 2} go together from now on")
                parts = self._cut(kind, left)
            elif not smaller():
                raise ModelError(
                    f"{name} does not fit into the device's memory, even one by itself; lower local.batch, choose a"
                    " smaller model, end what else uses the device, or train on the CPU (executor.device=cpu)"
                )
        return [one for start in sorted(done) for one in done[start]]

    def _cut(self, kind: Hashable, parts: list[slice]) -> list[slice]:
        most = self._most.get(kind)
        if most is None:
            return parts
        return [slice(k, min(k + most, part.stop)) for part in parts for k in range(part.start, part.stop, most)]

    @staticmethod
    def _fits(
        compute: Callable[[list[slice], Done[Any]], None], left: list[slice], done: dict[int, list[Any]]
    ) -> bool:
        """Whether all went well. A function of its own: what was under way is let go with the error."""

        def keep(part: slice, results: list[Any]) -> None:
            done[part.start] = results

        try:
            compute(left, keep)
        except torch.OutOfMemoryError:
            return False
        return True
