"""A limit on connections: beyond it, the oldest one without a complete request is closed for a new one."""

from __future__ import annotations

import asyncio
from itertools import count

from uvicorn.protocols.http.h11_impl import H11Protocol

MOST = 90
"""Most connections at a time; fewer than uvicorn's own limit, above which it refuses all requests."""
_NUMBERS = count()


class Yielding(H11Protocol):
    """A connection that may be closed when there are too many."""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Open the connection, and close another one if there are too many."""
        super().connection_made(transport)
        self.number = next(_NUMBERS)
        others = [one for one in self.connections if isinstance(one, Yielding)]
        if len(others) > MOST:
            first = min(others, key=Yielding.place)
            self.connections.discard(first)  # at once: it ends in a moment, and others may come until then
            first.transport.abort()

    def place(self) -> tuple[bool, int]:
        """Return the sort key for closing: connections without a complete request first, then the oldest."""
        asks = self.cycle is not None and not (self.cycle.more_body or self.cycle.response_complete)
        return asks, self.number
