"""Devices that work against the others: by what they upload, or by the labels they train on."""

from __future__ import annotations

from dataclasses import dataclass
from math import isfinite
from typing import Literal

import torch
from torch import Tensor

from paceline.errors import SettingError, nearest
from paceline.learn.graph import Model, apply
from paceline.learn.hashing import mix, uniform
from paceline.learn.job import Shards
from paceline.seeds import stream
from paceline.system.availability import whole_part
from paceline.system.cost import share
from paceline.worlds.problem import Problem

Attack = Literal["none", "push", "random", "label-flip"]
_NOISE = (1 << 40) + 101
"""Sub-address below a visit's key; ``learn.draws`` has those from 1 << 40 on."""
_FORMS = {
    "sign-flip": "sign-flip:SHARE or sign-flip:SHARE,FACTOR",
    "scaled": "scaled:SHARE,FACTOR",
    "random": "random:SHARE or random:SHARE,FACTOR",
    "label-flip": "label-flip:SHARE",
}


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


def parse_hostile(text: str, clients: int, seed: int) -> Hostile:
    """Hostile devices from words: ``none``, ``sign-flip:0.2``, ``scaled:0.2,10``, ``random:0.2``, ``label-flip:0.2``;
    ``sign-flip:0.2,5`` and ``random:0.2,5`` are five times as long.

    Exactly the whole part of share times clients, drawn at (seed, "hostile"), the same ones for every attack.
    """
    if text == "none":
        return HARMLESS
    word, _, rest = text.partition(":")
    if word not in _FORMS:
        raise SettingError(f"hostile is {text!r}; {nearest(word, ('none', *_FORMS))}")
    numbers = _numbers(rest)
    wanted = {form.count(",") + 1 for form in _FORMS[word].split(" or ")}
    if len(numbers) not in wanted:
        raise SettingError(f"hostile is {text!r}; wanted {_FORMS[word]}, as in 'scaled:0.2,10' or 'sign-flip:0.2'")
    part = share(numbers[0], f"the share of hostile clients in {text!r}")
    chosen = stream(seed, "hostile").permutation(clients)[: whole_part(part, clients)]
    who = frozenset(chosen.tolist())
    factor = numbers[1] if len(numbers) > 1 else 1.0
    if word in ("sign-flip", "scaled"):
        return Hostile(who, "push", -factor if word == "sign-flip" else factor)
    return Hostile(who, "random" if word == "random" else "label-flip", factor)


def _numbers(text: str) -> list[float]:
    """Finite numbers between commas; none at all if one of them is not."""
    try:
        numbers = [float(word) for word in text.split(",")]
    except ValueError:
        return []
    return numbers if all(map(isfinite, numbers)) else []
