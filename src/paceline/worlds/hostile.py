"""Devices that work against the others: by what they upload, or by the labels they train on."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

from paceline.bounds import Bounds
from paceline.forms import NUMBER, SHARE, Form, Forms, bounded
from paceline.learn.graph import Model, apply
from paceline.learn.hashing import mix, uniform
from paceline.learn.job import Shards
from paceline.seeds import stream
from paceline.system.availability import whole_part
from paceline.worlds.problem import Problem

Attack = Literal["none", "push", "random", "label-flip"]
_NOISE = (1 << 40) + 101
"""Sub-address below a visit's key; ``learn.draws`` has those from 1 << 40 on."""


@dataclass(frozen=True)
class Hostile:
    """Who is hostile, and how; nobody unless given."""

    clients: frozenset[int] = frozenset()
    attack: Attack = "none"
    factor: float = 1.0
    """For ``push``: the upload is start + factor * (trained - start); for ``random``: noise so many times as long."""

    def shards(self, problem: Problem, client: int) -> Shards:
        """The data that a client computes on: with wrong labels where it flips them."""
        flips = self.attack == "label-flip" and client in self.clients
        return problem.flipped_shards if flips else problem.shards()

    def upload(self, client: int, key: int, start: Model, trained: Model, mask: Model | None = None) -> Model:
        """What a client hands over after a visit of this key: what it trained, unless it attacks. Deferred."""
        if client not in self.clients or self.attack in ("none", "label-flip"):
            return trained
        masks = () if mask is None else (mask,)  # a sparse model stays as sparse as its receiver expects
        if self.attack == "push":
            return apply(_pushed, start, trained, *masks, factor=self.factor)
        return apply(_random, start, trained, *masks, key=key, factor=self.factor)


HARMLESS = Hostile()
"""An adversary that has nobody: no client is hostile."""


def _pushed(start: Tensor, trained: Tensor, mask: Tensor | None = None, *, factor: float) -> Tensor:
    start = start if mask is None else start * mask
    return start.add(trained - start, alpha=factor)


def _random(start: Tensor, trained: Tensor, mask: Tensor | None = None, *, key: int, factor: float) -> Tensor:
    """The start and Gaussian noise as long as the honest update, times a factor."""
    start = start if mask is None else start * mask
    noise = gaussian(key, start)
    noise = noise if mask is None else noise * mask
    length: Tensor = factor * (trained - start).norm() / noise.norm().clamp(min=1e-30)
    return start + noise * length


def gaussian(key: int, like: Tensor) -> Tensor:
    """Standard normal numbers at a visit's key: a function of key and place, whatever is computed beside it."""
    place = torch.arange(like.numel(), device=like.device)
    keys = mix(mix(torch.tensor(key, device=like.device), _NOISE), place)
    normal: Tensor = torch.special.ndtri(uniform(keys))
    return normal.to(like.dtype).reshape(like.shape)


def _attack(attack: Attack, sign: float = 1.0) -> Callable[..., Hostile]:
    """What makes hostile devices of this kind, from a share of all clients and a factor."""

    def make(share: float, *, clients: int, seed: int, factor: float = 1.0) -> Hostile:
        chosen = stream(seed, "hostile").permutation(clients)[: whole_part(share, clients)]
        return Hostile(frozenset(chosen.tolist()), attack, sign * factor)

    return make


_FACTOR = bounded(NUMBER, "a number of at most 3e38 in size", Bounds(least=-3e38, most=3e38).hold)
_KINDS, _KNOWN = {"SHARE": SHARE, "FACTOR": _FACTOR}, ("clients", "seed")
ATTACKS: Forms[Hostile] = Forms(
    "hostile",
    Form("none", lambda: HARMLESS, "nobody attacks", "none"),
    Form(
        "sign-flip:SHARE[,FACTOR]",
        _attack("push", -1.0),
        "a share of all clients uploads its update with the opposite sign, and so many times as long",
        "sign-flip:0.2",
        _KINDS,
        _KNOWN,
    ),
    Form(
        "scaled:SHARE,FACTOR",
        _attack("push"),
        "they upload their update times a factor",
        "scaled:0.2,10",
        _KINDS,
        _KNOWN,
    ),
    Form(
        "random:SHARE[,FACTOR]",
        _attack("random"),
        "they upload noise as long as their update, or so many times as long",
        "random:0.2",
        _KINDS,
        _KNOWN,
    ),
    Form("label-flip:SHARE", _attack("label-flip"), "they train on wrong labels", "label-flip:0.2", _KINDS, _KNOWN),
)
"""The ways to attack."""


def parse_hostile(text: str, clients: int, seed: int) -> Hostile:
    """Hostile devices from words such as ``none``, ``sign-flip:0.2`` or ``scaled:0.2,10``.

    Exactly the whole part of share times clients, drawn at (seed, "hostile"), the same ones for every attack.
    """
    return ATTACKS.parse(text, clients=clients, seed=seed)
