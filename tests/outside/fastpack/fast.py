"""An asynchronous algorithm of a user's own: every arrival moves the server's model, the later the less."""

from collections.abc import AsyncIterator
from dataclasses import dataclass, field

import paceline


@dataclass(frozen=True, kw_only=True)
class Twist(paceline.Algorithm):
    """Arrivals are mixed in with a weight that falls with their age."""

    rounds: int = 30
    concurrency: int = 4
    mixing: float = 0.5
    local: paceline.LocalSGD = field(default_factory=lambda: paceline.LocalSGD(steps=5, batch=10, lr=0.1))

    async def run(self, world: paceline.World) -> AsyncIterator[paceline.Progress]:
        server = paceline.start_pool(world, self.concurrency, self.local, self.rounds)
        for _ in range(self.rounds):
            update = await server.inbox.get()
            age = server.version - update.version
            weight = self.mixing / (1 + age)
            mixed = paceline.combine([(1 - weight, server.model), (weight, update.trained)])
            await server.aggregate(world, mixed, 1)
            yield paceline.Progress(server.model, {"age": age})
