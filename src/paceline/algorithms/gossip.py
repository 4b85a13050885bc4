"""What the rivals of DA-DPFL without a server share: a round of meeting one's neighbours, and mixing by weights.

In a round every client trains and sends to those who hear it, as soon as it is done; the round ends when all has
arrived. Whoever drops out is left out of that round and keeps its model. Models are scored after local training and
before mixing, as the reference code does (docs/papers/dadpfl.md#reference-code): a ``Progress`` has what was trained.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from paceline.algorithms.base import Dropped, Model, World, came_back, combine
from paceline.learn.hashing import mix as mix_key
from paceline.learn.hashing import uniform
from paceline.learn.recipe import LocalSGD

Neighbours = Sequence[Sequence[int]]
"""Of every client, whom it hears."""
Train = Callable[[int], Coroutine[Any, Any, Model]]
Pack = Callable[[int, Model], Model]
"""What a client sends, made of what it trained."""


def rival_recipe(
    *, lr: float = 0.1, epochs: int | None = 5, steps: int | None = None, momentum: float = 0.0, sam: float = 0.0
) -> LocalSGD:
    """The local training of all in DA-DPFL's comparison, with what one rival changes.

    For the defaults see docs/papers/dadpfl.md#start-and-defaults.
    """
    return LocalSGD(
        lr=lr,
        epochs=epochs,
        steps=steps,
        schedule="exponential:0.998",
        momentum=momentum,
        weight_decay=5e-4,
        sam=sam,
    )


@dataclass(frozen=True)
class Meeting:
    """What came of a round."""

    trained: Mapping[int, Model]
    """By client; who was away or left is not in it."""
    heard: Mapping[int, Mapping[int, Model]]
    """What each of these has, by who made it: its own parcel and those that arrived."""

    def scored(self, models: Sequence[Model]) -> list[Model]:
        """One model a client: what it has just trained, or, where it was left out, what it had."""
        return [self.trained.get(client, model) for client, model in enumerate(models)]


async def meet(world: World, hears: Neighbours, train: Train, pack: Pack) -> Meeting:
    """All clients train, and send to those who hear them; a barrier."""
    heard: dict[int, dict[int, Model]] = {client: {} for client in world.clients}
    listeners = heard_by(hears)

    async def peer(client: int) -> Model:
        trained = await train(client)
        parcel = heard[client][client] = pack(client, trained)
        gone = False

        async def give(other: int) -> None:
            nonlocal gone
            if gone:
                return
            try:
                heard[other][client] = await world.send(parcel, client, other)
            except Dropped as lost:
                gone = gone or lost.site == client

        await world.transfers(give(other) for other in listeners[client])
        return trained

    came = await came_back(world, {client: peer(client) for client in world.clients})
    return Meeting(came, {client: heard[client] for client in came})


async def train_and_meet(
    world: World, hears: Neighbours, models: Sequence[Model], recipe: LocalSGD, pack: Pack | None = None
) -> Meeting:
    """A meeting after local training from these models; what is trained is sent, packed if need be."""
    return await meet(
        world,
        hears,
        lambda client: world.train(client, models[client], recipe),
        pack or (lambda client, trained: trained),
    )


def heard_by(hears: Neighbours) -> list[list[int]]:
    """Of every client, who hears it: in the order in which it sends.

    The nearest number after its own comes first. So on a complete graph no two send to one client at the same time;
    with one order for all, everybody would stand in line for client 0.
    """
    listeners: list[list[int]] = [[] for _ in hears]
    for client, sources in enumerate(hears):
        for source in sources:
            listeners[source].append(client)
    count = len(listeners)
    ahead = [sorted((other - own) % count for other in others) for own, others in enumerate(listeners)]
    return [[(own + step) % count for step in steps] for own, steps in enumerate(ahead)]


def equal_shares(heard: Mapping[int, Iterable[int]]) -> dict[int, dict[int, float]]:
    """Everybody weighs all that it has the same: for neighbours in one direction, as in DA-DPFL's comparison."""
    rows = {client: sorted(came) for client, came in heard.items()}
    return {client: dict.fromkeys(came, 1.0 / len(came)) for client, came in rows.items()}


def metropolis_shares(hears: Neighbours, heard: Mapping[int, Iterable[int]]) -> dict[int, dict[int, float]]:
    """1/(larger degree of both ends + 1) on the links of an undirected graph, the rest at home.

    A link counts only if both of its ends have heard each other: so the weights that are used stay symmetric, and
    averaging keeps the mean, also when somebody was left out.
    """
    came = {client: set(others) for client, others in heard.items()}
    rows: dict[int, dict[int, float]] = {}
    for client, others in came.items():
        mutual = sorted(k for k in others if k != client and client in came.get(k, ()))
        row = {k: 1.0 / (max(len(hears[client]), len(hears[k])) + 1) for k in mutual}
        rows[client] = {client: 1.0 - sum(row.values())} | row
    return rows


def mixed(row: Mapping[int, float], models: Mapping[int, Model]) -> Model:
    """The weighted sum, in the order of the clients: who weighs the same models alike gets the same bits."""
    return combine([(row[client], models[client]) for client in sorted(row)])


def draws(key: int, like: Tensor) -> Tensor:
    """Numbers from (0, 1) at an address, one for every place of the last dimension."""
    place = torch.arange(like.shape[-1], device=like.device)
    return uniform(mix_key(torch.tensor(key, device=like.device), place))


def draw_keys(world: World, name: str, round: int) -> list[int]:
    """A round's own address for every client."""
    return [int(key) for key in world.stream(name, "keys", round).integers(2**63, size=len(world.clients))]
