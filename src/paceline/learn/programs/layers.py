"""Layers for C clients at once, with their derivatives written out.

Activations are merged batches: (C*B, features) or (C*B, channels, H, W) in channels-last memory. Weights carry a
leading client axis. Convolution weights are kept as (C, out, kh, kw, in), so that both the channels-last
convolution of one client and the matrix product of many read them without a copy. Writing the derivatives out
(instead of autograd under vmap) lets weight gradients land in buffers that are reused step after step, which on a
CPU is most of the difference.

Shapes: C clients, B batch, I inputs, O outputs, K = kh*kw*I.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from types import ModuleType
from typing import Any, Protocol

import torch
from torch import Tensor

from paceline.learn.dropout import keep_mask
from paceline.learn.kernels.lane import Lane
from paceline.learn.programs.blocks import narrow, product, without_tail

aten = torch.ops.aten
Saved = Any


class Layer(Protocol):
    """One node of a program; ``inputs`` in, one tensor out."""

    @property
    def forward(self) -> Callable[..., tuple[Tensor, Saved]]:
        """(lane, *inputs) to the output, and what backward will need."""
        ...

    def backward(self, lane: Lane, saved: Saved, g: Tensor, wanted: bool) -> tuple[Tensor | None, ...]:
        """Gradients of the inputs (None where not wanted); parameter gradients go to ``lane.grads``."""
        ...


@dataclass(frozen=True, slots=True)
class Dense:
    """``nn.Linear``: one batched matrix product for all clients."""

    weight: int
    bias: int | None

    def forward(self, lane: Lane, x: Tensor) -> tuple[Tensor, Saved]:
        """Compute x Wᵀ + b for every client."""
        x_CBI = x.reshape(lane.clients, -1, x.shape[-1])
        w_CIO = lane.params[self.weight].transpose(1, 2)
        if self.bias is None:
            out = product(x_CBI, w_CIO)
        elif narrow(w_CIO):
            out = product(x_CBI, w_CIO) + lane.params[self.bias].unsqueeze(1)
        else:
            out = torch.baddbmm(lane.params[self.bias].unsqueeze(1), x_CBI, w_CIO)
        return out.reshape(-1, out.shape[-1]), x_CBI

    def backward(self, lane: Lane, saved: Saved, g: Tensor, wanted: bool) -> tuple[Tensor | None, ...]:
        """dW = gᵀ x, db = Σ g, dx = g W."""
        x_CBI = saved
        g_CBO = g.reshape(lane.clients, -1, g.shape[-1])
        # The input's gradient first: under descent the weights change next.
        gx = product(g_CBO, lane.params[self.weight]).reshape(-1, x_CBI.shape[2]) if wanted else None
        lane.product(self.weight, g_CBO.transpose(1, 2), x_CBI)
        if self.bias is not None:
            lane.store(self.bias, g_CBO.sum(dim=1))
        return (gx,)


@dataclass(frozen=True, slots=True)
class GroupNormalisation:
    """``nn.GroupNorm``, and the ReLU after it if there is one: statistics per sample, scale and shift per client.

    Kernels on CUDA where those can, else torch's own normalisation.
    """

    weight: int | None
    bias: int | None
    groups: int
    eps: float
    rectified: bool = False

    def forward(self, lane: Lane, x: Tensor) -> tuple[Tensor, Saved]:
        """Normalise, then scale and shift."""
        if x.is_cuda and normalising().usable(x, self.groups):
            x = x.contiguous(memory_format=torch.channels_last)
            out, mean, rstd = normalising().normalise(x, *self._affine(lane), self.groups, self.eps, self.rectified)
            return out, Normalised(x, mean, rstd)
        x = x.contiguous()
        count, channels = x.shape[:2]
        area = x[0, 0].numel()
        plain, mean, rstd = aten.native_group_norm(x, None, None, count, channels, area, self.groups, self.eps)
        out = plain
        if self.weight is not None and self.bias is not None:
            shape = (lane.clients, 1, channels, *[1] * (x.dim() - 2))
            split = plain.view(lane.clients, -1, *x.shape[1:])
            out = (split * lane.params[self.weight].view(shape) + lane.params[self.bias].view(shape)).view_as(x)
        if self.rectified:
            out = out.relu()
        return out, (x, plain, mean, rstd, out if self.rectified else None)

    def backward(self, lane: Lane, saved: Saved, g: Tensor, wanted: bool) -> tuple[Tensor | None, ...]:
        """Through scale and shift, then torch's own derivative of the normalisation."""
        if isinstance(saved, Normalised):
            return self._kernels_backward(lane, saved, g)
        x, plain, mean, rstd, out = saved
        if out is not None:
            g = aten.threshold_backward(g, out, 0)
        g = g.contiguous()
        count, channels = x.shape[:2]
        if self.weight is not None and self.bias is not None:
            rest = (lane.clients, -1, channels, x[0, 0].numel())
            gv = g.view(rest)
            g = (gv * lane.params[self.weight].view(lane.clients, 1, channels, 1)).view_as(x)
            lane.store(self.weight, (gv * plain.view(rest)).sum(dim=(1, 3)))
            lane.store(self.bias, gv.sum(dim=(1, 3)))
        if not wanted:
            return (None,)
        area = x[0, 0].numel()
        return (
            aten.native_group_norm_backward(
                g, x, mean, rstd, None, count, channels, area, self.groups, [True, False, False]
            )[0],
        )

    def _kernels_backward(self, lane: Lane, saved: Normalised, g: Tensor) -> tuple[Tensor | None, ...]:
        x, (scale, shift) = saved.x, self._affine(lane)
        gx, by_scale, by_shift = normalising().gradients(g, x, scale, shift, saved.mean, saved.rstd, self.rectified)
        if self.weight is not None and self.bias is not None:
            images = (lane.clients, -1, x.shape[1])
            lane.store(self.weight, by_scale.view(images).sum(dim=1))
            lane.store(self.bias, by_shift.view(images).sum(dim=1))
        return (gx,)

    def _affine(self, lane: Lane) -> tuple[Tensor | None, Tensor | None]:
        if self.weight is None or self.bias is None:
            return None, None
        return lane.params[self.weight], lane.params[self.bias]


@dataclass(frozen=True, slots=True)
class Normalised:
    """What the kernels remember of a group normalisation."""

    x: Tensor
    mean: Tensor
    rstd: Tensor


@cache
def normalising() -> ModuleType:
    """Imported when first needed: loading Triton takes a while."""
    from paceline.learn.kernels import normalising

    return normalising


@dataclass(frozen=True, slots=True)
class Rectifier:
    """The rectifier (ReLU): max(x, 0)."""

    def forward(self, lane: Lane, x: Tensor) -> tuple[Tensor, Saved]:
        """Compute max(x, 0); what comes out is kept for the way back."""
        out = x.relu()
        return out, out

    def backward(self, lane: Lane, saved: Saved, g: Tensor, wanted: bool) -> tuple[Tensor | None, ...]:
        """g where the output is positive."""
        return (aten.threshold_backward(g, saved, 0),)


@dataclass(frozen=True, slots=True)
class MaxPool:
    """``nn.MaxPool2d``, and the ReLU after it if there is one: kernels on CUDA where those can, else torch's own."""

    kernel: tuple[int, int]
    stride: tuple[int, int]
    padding: tuple[int, int]
    dilation: tuple[int, int]
    ceil: bool
    rectified: bool = False

    def forward(self, lane: Lane, x: Tensor) -> tuple[Tensor, Saved]:
        """The largest of each window, and where it was."""
        shape = (self.kernel, self.stride, self.padding, self.dilation, self.ceil)
        if pooling().usable(x, *shape):
            out, winner = pooling().pool(x, self.kernel, self.rectified)
            return out, Winners(winner, (x.shape[2], x.shape[3]))
        out, where = aten.max_pool2d_with_indices(x, *shape)
        if not self.rectified:
            return out, (x, where, None)
        out = out.relu()
        return out, (x, where, out)

    def backward(self, lane: Lane, saved: Saved, g: Tensor, wanted: bool) -> tuple[Tensor | None, ...]:
        """g goes to where the largest was, if the ReLU left something of it."""
        if isinstance(saved, Winners):
            return (pooling().input_gradient(g, saved.tap_NHWI, self.kernel, saved.sides),)
        x, where, out = saved
        if self.rectified:
            g = aten.threshold_backward(g, out, 0)
        return (
            aten.max_pool2d_with_indices_backward(
                g, x, self.kernel, self.stride, self.padding, self.dilation, self.ceil, where
            ),
        )


@dataclass(frozen=True, slots=True)
class Winners:
    """What the kernels remember of a max pooling."""

    tap_NHWI: Tensor
    """Which number of its window won, in one byte."""
    sides: tuple[int, int]
    """Height and width of the input."""


@cache
def pooling() -> ModuleType:
    """Imported when first needed: loading Triton takes a while."""
    from paceline.learn.kernels import pooling

    return pooling


@dataclass(frozen=True, slots=True)
class Flatten:
    """``nn.Flatten``: everything but the batch."""

    def forward(self, lane: Lane, x: Tensor) -> tuple[Tensor, Saved]:
        """(N, ...) to (N, features), channel-major as torch does."""
        return x.flatten(1), x.shape

    def backward(self, lane: Lane, saved: Saved, g: Tensor, wanted: bool) -> tuple[Tensor | None, ...]:
        """Give the gradient the shape that came in."""
        return (g.reshape(saved),)


@dataclass(frozen=True, slots=True)
class Dropout:
    """``AddressedDropout``: each client's mask from its own key."""

    p: float
    layer: int

    def forward(self, lane: Lane, x: Tensor) -> tuple[Tensor, Saved]:
        """Drop and rescale in training, the identity otherwise."""
        if lane.dropout_key_C is None or self.p == 0.0:
            return x, None
        x = x.contiguous()
        split = x.view(lane.clients, -1, *x.shape[1:])
        factor = keep_mask(lane.dropout_key_C, self.layer, split.shape, self.p, x).view_as(x)
        return x * factor, factor

    def backward(self, lane: Lane, saved: Saved, g: Tensor, wanted: bool) -> tuple[Tensor | None, ...]:
        """Multiply the gradient by the factors of the way forward."""
        return (g if saved is None else g * saved,)


@dataclass(frozen=True, slots=True)
class Add:
    """A residual connection, and the ReLU after it if there is one."""

    rectified: bool = False

    def forward(self, lane: Lane, x: Tensor, y: Tensor) -> tuple[Tensor, Saved]:
        """Compute x + y, rectified where a ReLU follows."""
        if not self.rectified:
            return x + y, None
        out = normalising().add_rectified(x, y) if x.is_cuda else None
        if out is None:
            out = (x + y).relu_()
        return out, out

    def backward(self, lane: Lane, saved: Saved, g: Tensor, wanted: bool) -> tuple[Tensor | None, ...]:
        """g to both, where the output is positive."""
        if self.rectified:
            g = aten.threshold_backward(g, saved, 0)
        return g, g


@dataclass(frozen=True, slots=True)
class Plain:
    """Any function of single samples without parameters (pooling, other activations), by torch's autograd."""

    function: Callable[[Tensor], Tensor]
    pointwise: bool = False
    """Whether every number is computed from one number."""

    def forward(self, lane: Lane, x: Tensor) -> tuple[Tensor, Saved]:
        """Record a little graph of its own."""
        with torch.enable_grad():
            inside = x.detach().requires_grad_()
            out = without_tail(self.function, inside) if self.pointwise else self.function(inside)
        return out.detach(), (inside, out)

    def backward(self, lane: Lane, saved: Saved, g: Tensor, wanted: bool) -> tuple[Tensor | None, ...]:
        """Leave the derivative to autograd."""
        inside, out = saved
        flowing: Tensor = torch.autograd.grad(out, inside, g)[0]
        return (flowing,)
