"""What a server makes of the models that come back: an average, or a step of an optimiser towards it.

The move from the server's model to the average of what came back is taken as a gradient would be (Reddi et al., ICLR
2021, Algorithm 2; FedAvgM: Hsu et al. 2019). With the rule ``average`` and rate 1 it is the plain average.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

from paceline.algorithms.base import Model, apply, mean, once, total
from paceline.bounds import bounded, check_bounds

RATES = {"average": 1.0, "momentum": 1.0, "adam": 0.01, "yogi": 0.01, "adagrad": 0.01}


@dataclass(frozen=True, kw_only=True)
class ServerRule:
    """How a server makes its next model of the uploads' mean."""

    rule: Literal["average", "momentum", "adam", "yogi", "adagrad"] = "average"
    lr: float | None = bounded(None, above=0)
    """The server's rate; 1 for average and momentum, 0.01 for the adaptive rules when not given."""
    momentum: float = bounded(0.9, least=0, below=1)
    """Of the move (beta 1); not used by average."""
    beta2: float = bounded(0.99, least=0, below=1)
    """Of the squared move, for adam and yogi."""
    tau: float = bounded(1e-3, above=0)
    """How adaptive the adaptive rules are: the smaller, the more."""
    weights: Literal["uniform", "samples"] = "uniform"
    """All alike (PS-2), or by the number of samples a model was trained on, as FedAvg was first published."""

    def __post_init__(self) -> None:
        check_bounds(self, "server.")

    @property
    def rate(self) -> float:
        """The rate given, or the rule's own."""
        return RATES[self.rule] if self.lr is None else self.lr

    def start(self) -> ServerOptimiser:
        """An optimiser that has aggregated nothing yet."""
        return ServerOptimiser(self)


class ServerOptimiser:
    """A server's rule with its memory: the moves so far, and their squares."""

    def __init__(self, rule: ServerRule) -> None:
        self.rule = rule
        self._velocity: Model | None = None
        self._squares: Model | None = None

    def step(self, model: Model, arrived: Sequence[Model], samples: Sequence[int]) -> Model:
        """The next model; nothing arrived leaves it as it is."""
        if not arrived:
            return model
        rule = self.rule
        average = mean(arrived, samples if rule.weights == "samples" else None)
        if rule.rule == "average" and rule.rate == 1.0:
            return average
        if rule.rule == "average":
            return (1.0 - rule.rate) * model + rule.rate * average
        move = once(average - model)
        if rule.rule == "momentum":
            self._velocity = move if self._velocity is None else rule.momentum * self._velocity + move
            return model + rule.rate * self._velocity
        return self._adaptive(model, move)

    def _adaptive(self, model: Model, move: Model) -> Model:
        rule = self.rule
        share = 1.0 - rule.momentum
        kept = [] if self._velocity is None else [rule.momentum * self._velocity]
        self._velocity = total([*kept, share * move])
        if self._squares is None:
            self._squares = apply(torch.full_like, move, fill_value=rule.tau**2)
        self._squares = apply(SQUARES[rule.rule], self._squares, move, beta=rule.beta2)
        return apply(_stepped, model, self._velocity, self._squares, rate=rule.rate, tau=rule.tau)


def _adam(squares: Tensor, move: Tensor, beta: float) -> Tensor:
    return beta * squares + (1 - beta) * move.square()


def _yogi(squares: Tensor, move: Tensor, beta: float) -> Tensor:
    squared = move.square()
    return squares - (1 - beta) * squared * torch.sign(squares - squared)


def _adagrad(squares: Tensor, move: Tensor, beta: float) -> Tensor:
    return squares + move.square()


SQUARES = {"adam": _adam, "yogi": _yogi, "adagrad": _adagrad}


def _stepped(model: Tensor, velocity: Tensor, squares: Tensor, rate: float, tau: float) -> Tensor:
    return model + rate * velocity / (squares.sqrt() + tau)
