"""Connections, none of which keeps others out: the oldest that asks nothing makes place for a new one."""

from __future__ import annotations

import asyncio
from itertools import count

from uvicorn.protocols.http.h11_impl import H11Protocol

MOST = 90
"""Connections at a time; fewer than those at which uvicorn would answer nobody."""
_NUMBERS = count()


class Yielding(H11Protocol):
    """A connection that may be ended when there are too many."""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Begin, and end another connection if need be."""
        super().connection_made(transport)
        self.number = next(_NUMBERS)
        others = [one for one in self.connections if isinstance(one, Yielding)]
        if len(others) > MOST:
            first = min(others, key=Yielding.place)
            self.connections.discard(first)  # at once: it ends in a moment, and others may come until then
            first.transport.abort()

    def place(self) -> tuple[bool, int]:
        """Where it stands among those to be ended: first who has no whole request, then who came first."""
        asks = self.cycle is not None and not (self.cycle.more_body or self.cycle.response_complete)
        return asks, self.number
