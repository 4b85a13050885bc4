"""A mailbox: what has arrived at somebody, who takes it in the order in which it came."""

from __future__ import annotations

import asyncio
from collections import deque
from typing import Generic, TypeVar

T = TypeVar("T")


class Mailbox(Generic[T]):
    """Many put, one takes: an ``asyncio.Queue`` without bounds, whose owner can sleep until several have come.

    >>> async def owner():
    ...     letters = Mailbox()
    ...     for letter in "abc":
    ...         letters.put(letter)
    ...     return await letters.get(), await letters.take(2)
    >>> asyncio.run(owner())
    ('a', ['b', 'c'])
    """

    def __init__(self) -> None:
        self._items: deque[T] = deque()
        self._wanted = 0
        self._enough: asyncio.Future[None] | None = None
        """What the owner awaits while there are fewer than are wanted."""

    def __len__(self) -> int:
        return len(self._items)

    def put(self, item: T) -> None:
        """Put something in that has arrived, and wake who waits if there is enough now."""
        self._items.append(item)
        enough = self._enough
        if enough is not None and len(self._items) >= self._wanted and not enough.done():
            enough.set_result(None)

    async def get(self) -> T:
        """Take the first, as soon as there is one."""
        if not self._items:
            await self._until(1)
        return self._items.popleft()

    async def take(self, count: int) -> list[T]:
        """Take so many, as soon as they are there."""
        if len(self._items) < count:
            await self._until(count)
        return [self._items.popleft() for _ in range(count)]

    async def _until(self, count: int) -> None:
        assert self._enough is None, "a mailbox has one owner, who waits for one thing at a time"
        self._wanted, self._enough = count, asyncio.get_running_loop().create_future()
        try:
            await self._enough
        finally:
            self._enough = None
