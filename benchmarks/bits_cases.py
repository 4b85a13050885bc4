"""Networks and clients for ``benchmarks.bits``: every kind of layer, at widths that fill whole vectors or do not."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor, nn

from paceline.learn.hashing import signed
from paceline.learn.job import Shards, TrainJob
from paceline.learn.models import build
from paceline.learn.recipe import LocalSGD
from paceline.learn.space import Space
from paceline.seeds import address, stream

SIZES = (23, 7, 40, 12, 31, 1, 20, 33, 9, 17, 28)
"""Samples of eleven clients: ragged, one smaller than a batch, one a single sample."""
RECIPES = (
    LocalSGD(batch=10, lr=0.1, epochs=2),
    LocalSGD(batch=5, lr=0.1, steps=7),
    LocalSGD(batch=10, lr=0.1, epochs=1, momentum=0.5, weight_decay=1e-3, clip=1.0, prox=0.1, sam=0.02),
)
FLAT, SMALL, IMAGE = (64,), (1, 8, 8), (3, 28, 28)


class Gated(nn.Module):
    """A recurrent network with two gates, written out: ``vmap`` takes no ``nn.GRU``."""

    def __init__(self, width: int, classes: int) -> None:
        super().__init__()
        self.width = width
        self.inside, self.again = nn.Linear(8, 3 * width), nn.Linear(width, 3 * width)
        self.outside = nn.Linear(width, classes)

    def forward(self, x: Tensor) -> Tensor:
        """Eight steps over eight numbers each."""
        x = x.reshape(x.shape[0], 8, 8)
        state = torch.zeros_like(x[:, 0, :1]).expand(-1, self.width)
        for step in range(8):
            keep, use, new = (self.inside(x[:, step]) + self.again(state)).chunk(3, dim=-1)
            state = torch.sigmoid(keep) * state + torch.tanh(new) * torch.sigmoid(use)
        scores: Tensor = self.outside(state)
        return scores


class Residual(nn.Module):
    """A block of ResNet with group normalisation, small."""

    def __init__(self) -> None:
        super().__init__()
        self.stem, self.body, self.norm = (
            nn.Conv2d(1, 8, 3, padding=1),
            nn.Conv2d(8, 8, 3, padding=1),
            nn.GroupNorm(4, 8),
        )
        self.relu, self.pool, self.flat, self.head = nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(8, 4)

    def forward(self, x: Tensor) -> Tensor:
        """Class scores of a batch."""
        x = self.stem(x)
        scores: Tensor = self.head(self.flat(self.pool(self.relu(self.norm(self.body(x)) + x))))
        return scores


@dataclass(frozen=True)
class Case:
    """A network and the shape of its samples."""

    factory: Callable[[], nn.Module]
    shape: tuple[int, ...]
    classes: int


def _named(name: str, shape: tuple[int, ...], classes: int) -> Case:
    return Case(lambda: build(name, shape, classes), shape, classes)


def _between(width: int, classes: int, *layers: nn.Module) -> Case:
    return Case(lambda: nn.Sequential(nn.Linear(64, width), *layers, nn.Linear(width, classes)), FLAT, classes)


CASES: dict[str, Case] = {
    "logistic": _named("logistic", FLAT, 10),
    "logistic, 13 to 3": _named("logistic", (13,), 3),
    "mlp:64": _named("mlp:64", FLAT, 10),
    "mlp:200": _named("mlp:200", (1, 28, 28), 10),
    "mlp:17,5": _named("mlp:17,5", FLAT, 7),
    "mlp:1": _named("mlp:1", FLAT, 4),
    "tanh, 33": _between(33, 3, nn.Tanh()),
    "sigmoid, 33": _between(33, 3, nn.Sigmoid()),
    "SiLU, 33": _between(33, 3, nn.SiLU()),
    "GELU, 33": _between(33, 3, nn.GELU()),
    "ELU, 33": _between(33, 3, nn.ELU()),
    "softplus, 33": _between(33, 3, nn.Softplus()),
    "dropout, 33": _between(33, 3, nn.ReLU(), nn.Dropout(0.5)),
    "GELU and LayerNorm, 32": _between(32, 4, nn.LayerNorm(32), nn.GELU()),
    "GELU and LayerNorm, 33": _between(33, 3, nn.LayerNorm(33), nn.GELU()),
    "recurrent, 8": Case(lambda: Gated(8, 4), SMALL, 4),
    "recurrent, 7": Case(lambda: Gated(7, 3), SMALL, 3),
    "lenet": _named("lenet", IMAGE, 10),
    "cnn-ham": _named("cnn-ham", (3, 16, 16), 7),
    "residual, GroupNorm": Case(Residual, SMALL, 4),
    "convolution and LayerNorm": Case(
        lambda: nn.Sequential(nn.Conv2d(1, 4, 3), nn.Flatten(), nn.LayerNorm(144), nn.Linear(144, 4)), SMALL, 4
    ),
}
"""``BatchNorm`` is not among them: a network that has it is refused."""


def make_space(name: str, dtype: torch.dtype) -> Space:
    """The architecture of a case."""
    case = CASES[name]
    return Space(name, case.factory, case.shape, dtype)


def waves(name: str, space: Space, clients: int = len(SIZES)) -> Iterator[list[TrainJob]]:
    """One wave of visits for each recipe, every client with a start of its own."""
    case, sizes = CASES[name], SIZES[:clients]
    rng = stream(0, "bits", name)
    x = torch.from_numpy(rng.normal(size=(sum(sizes), *case.shape))).to(space.dtype)
    y = torch.from_numpy(rng.integers(0, case.classes, len(x)))
    shards = Shards(x, y, rng.permutation(len(x)).astype(np.int64), np.cumsum([0, *sizes]).astype(np.int64))
    starts = [space.initial(client) for client in range(clients)]
    for recipe in RECIPES:
        yield [
            TrainJob(space, starts[k], recipe, recipe.lr, shards, k, signed(address(0, "bits", k)))
            for k in range(clients)
        ]
