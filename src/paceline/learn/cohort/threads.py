"""Work on a CPU in several threads, of which the caller is one.

One thread has one core: torch's own threads inside an operation are not used. They meet after every operation, and on
a machine with one other busy process each meeting waits for the scheduler (measured: up to 100 times slower). The
caller works too, because waking one more thread than there are cores costs a tenth of a small network's visits.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import cached_property
from typing import TypeVar

import torch

T = TypeVar("T")
R = TypeVar("R")


class Threads:
    """So many threads, the caller's among them."""

    def __init__(self, count: int) -> None:
        self.count = count

    def map(self, function: Callable[[T], R], items: list[T]) -> list[R]:
        """``function`` of every item, in the order of the items; whoever is free takes the next.

        Where one fails no more are begun, and its error is raised. An error of the caller's own, which may be that
        somebody wants the process to end, does not wait for what the others have begun.
        """
        torch.set_num_threads(1)
        if len(items) == 1 or self.count == 1:
            return [function(item) for item in items]
        left = [*enumerate(items)][::-1]
        found: dict[int, R] = {}

        def work() -> None:
            try:
                while left:
                    try:
                        place, item = left.pop()
                    except IndexError:  # somebody else was quicker
                        return
                    found[place] = function(item)
            except BaseException:
                left.clear()
                raise

        others = [self._helpers.submit(work) for _ in range(min(self.count, len(items)) - 1)]
        work()
        for other in others:
            other.result()
        return [found[place] for place in range(len(items))]

    @cached_property
    def _helpers(self) -> ThreadPoolExecutor:
        return ThreadPoolExecutor(self.count - 1, "paceline", initializer=lambda: torch.set_num_threads(1))
