"""Several questions at once, asked by threads that keep nobody from ending.

A pool's threads are waited for when a process ends, also after Ctrl-C; a device may take minutes to answer.
"""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable, Sequence
from typing import TypeVar

R = TypeVar("R")
AT_ONCE = 64
"""How many are asked at the same time."""


def together(calls: Sequence[Callable[[], R]]) -> list[R]:
    """What these give, in their order; the first problem that comes up is raised.

    >>> together([lambda: 1, lambda: 2])
    [1, 2]
    """
    left: queue.SimpleQueue[int] = queue.SimpleQueue()
    done: queue.SimpleQueue[tuple[int, R] | BaseException] = queue.SimpleQueue()
    for place in range(len(calls)):
        left.put(place)

    def work() -> None:
        while True:
            try:
                place = left.get_nowait()
            except queue.Empty:
                return
            try:
                done.put((place, calls[place]()))
            except BaseException as problem:  # whoever waits is told
                done.put(problem)

    for _ in range(min(len(calls), AT_ONCE)):
        threading.Thread(target=work, daemon=True).start()
    found: dict[int, R] = {}
    for _ in calls:
        if isinstance(one := done.get(), BaseException):
            raise one
        found[one[0]] = one[1]
    return [found[place] for place in range(len(calls))]
