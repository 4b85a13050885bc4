"""The two networks in plain torch, for every peer that takes a module."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from math import prod

import numpy as np
import torch
from torch import nn
from torch.nn import functional as F

from benchmarks.peers.workload import Workload, read


def network(name: str, shape: tuple[int, ...]) -> nn.Sequential:
    """An MLP with 200 hidden units, or LeNet; the same layers as Paceline's own."""
    if name == "mlp":
        return nn.Sequential(nn.Flatten(), nn.Linear(prod(shape), 200), nn.ReLU(), nn.Linear(200, 10))
    padding = 2 if shape[1] < 32 else 0  # LeNet was drawn for 32x32
    return nn.Sequential(
        nn.Conv2d(shape[0], 6, 5, padding=padding),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Conv2d(6, 16, 5),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Flatten(),
        nn.Linear(400, 120),
        nn.ReLU(),
        nn.Linear(120, 84),
        nn.ReLU(),
        nn.Linear(84, 10),
    )


def started(work: Workload) -> nn.Sequential:
    """The network with the first weights."""
    module = network(work.federation.model, work.federation.shape)
    module.load_state_dict({name: torch.from_numpy(value) for name, value in work.weights.items()})
    return module


def train(module: nn.Module, x: torch.Tensor, y: torch.Tensor, batches: np.ndarray, lr: float) -> None:
    """One visit: SGD over the given (step, sample) rows."""
    optimiser = torch.optim.SGD(module.parameters(), lr=lr)
    for rows in torch.from_numpy(batches):
        optimiser.zero_grad()
        F.cross_entropy(module(x[rows]), y[rows]).backward()
        optimiser.step()


@torch.no_grad()
def score(module: nn.Module, x: torch.Tensor, y: torch.Tensor, batch: int = 1000) -> tuple[float, float]:
    """Mean loss and accuracy on the test samples."""
    loss = right = 0.0
    for some, labels in zip(x.split(batch), y.split(batch), strict=True):
        guess = module(some)
        loss += F.cross_entropy(guess, labels, reduction="sum").item()
        right += (guess.argmax(1) == labels).sum().item()
    return loss / len(y), right / len(y)


@dataclass
class Held:
    """A workload as tensors, and a module to work with."""

    work: Workload
    x: torch.Tensor
    y: torch.Tensor
    module: nn.Sequential


@cache
def held(path: str) -> Held:
    """A workload's tensors, read once in each process."""
    work = read(path)
    return Held(work, torch.from_numpy(work.x_train), torch.from_numpy(work.y_train), started(work))
