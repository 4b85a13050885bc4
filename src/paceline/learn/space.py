"""A parameter space: one architecture, its flat layout, and how to read and write it.

Everywhere outside the trainers a model is one flat vector of P numbers in the order of ``named_parameters``.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import torch
from torch import Tensor, nn

from paceline.errors import CostError
from paceline.learn.dropout import address_dropout
from paceline.learn.flops import forward_flops
from paceline.learn.models.check import check_trainable
from paceline.learn.randomness import borrowed_generator


@dataclass(frozen=True)
class Slot:
    """Where one named parameter lives in the flat vector."""

    name: str
    shape: tuple[int, ...]
    start: int
    stop: int


@dataclass(frozen=True, eq=False)
class Space:
    """An architecture whose parameters are flat vectors; two models of one space can be averaged."""

    name: str
    factory: Callable[[], nn.Module]
    shape: tuple[int, ...]
    """Shape of one input sample."""
    dtype: torch.dtype = torch.float32
    module: nn.Module = field(init=False)
    """The template: its layers are used, its own parameter values never are (see ``initial``)."""
    slots: tuple[Slot, ...] = field(init=False)
    size: int = field(init=False)
    nbytes: float = field(init=False)
    """Bytes of one dense model on the wire: 4 per parameter, whatever precision the simulation computes in."""
    derived: dict[str, Any] = field(init=False, repr=False, default_factory=dict)
    """What trainers have made of it, by name: made once a process, for all experiments with this architecture."""

    def __post_init__(self) -> None:
        template = self._build(0)
        check_trainable(template)
        slots, at = [], 0
        for name, parameter in template.named_parameters():
            slots.append(Slot(name, tuple(parameter.shape), at, at + parameter.numel()))
            at += parameter.numel()
        object.__setattr__(self, "module", template)
        object.__setattr__(self, "slots", tuple(slots))
        object.__setattr__(self, "size", at)
        object.__setattr__(self, "nbytes", 4.0 * at)

    def __reduce__(self) -> tuple[Any, ...]:
        """What it is made of: templates and programs are made again where it is read."""
        return Space, (self.name, self.factory, self.shape, self.dtype)

    @cached_property
    def flops(self) -> float:
        """FLOPs of one sample's forward pass; NaN where some layer's are not known."""
        try:
            return float(sum(forward_flops(self.module, self.shape).values()))
        except CostError:
            # Times drawn from a law need no FLOPs; a cost model that does refuses NaN.
            return math.nan

    def flatten(self, tensors: Mapping[str, Tensor]) -> Tensor:
        """Named tensors to one flat vector."""
        return torch.cat([tensors[slot.name].detach().reshape(-1).to(self.dtype) for slot in self.slots])

    def unflatten(self, flat: Tensor) -> dict[str, Tensor]:
        """One flat vector to named tensors (views)."""
        return {slot.name: flat[slot.start : slot.stop].view(slot.shape) for slot in self.slots}

    def split(self, flat_CP: Tensor) -> list[Tensor]:
        """C flat vectors to one (C, *shape) tensor per parameter (views where possible)."""
        return [flat_CP[:, s.start : s.stop].reshape(flat_CP.shape[0], *s.shape) for s in self.slots]

    def join(self, tensors: Sequence[Tensor]) -> list[Tensor]:
        """The inverse of ``split``: one vector per client, each with memory of its own."""
        rows = [t.reshape(t.shape[0], -1) for t in tensors]
        if not rows[0].is_cuda:
            return [torch.cat(parts) for parts in zip(*[row.unbind(0) for row in rows], strict=True)]
        # On a GPU a few large copies instead of one launch per client.
        views = torch.cat(rows, dim=1).unbind(0)
        own = [torch.empty_like(view) for view in views]
        torch._foreach_copy_(own, list(views))
        return own

    def initial(self, seed: int) -> Tensor:
        """The architecture's own random initialisation, from a seed of its own, always drawn on the CPU."""
        return self.flatten(dict(self._build(seed).named_parameters()))

    def _build(self, seed: int) -> nn.Module:
        with borrowed_generator(seed % (1 << 63)):
            return address_dropout(self.factory()).to(self.dtype)

    def describe(self) -> str:
        """Say in one line for logs what the architecture is."""
        return f"{self.name}: {self.size:,} parameters, input {'x'.join(map(str, self.shape))}"

    def features(self) -> int:
        """Numbers in one input sample."""
        return math.prod(self.shape)
