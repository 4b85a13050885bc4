"""Convolution for one client (``single``) and for many.

Many clients at once run Triton kernels on CUDA where those can (``kernels.usable``), else unfolding and a batched
product.

Shapes: C clients, M = B*H*W places, O output channels, K = kh*kw*I; weights are (C, out, kh, kw, in).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from types import ModuleType

import torch
from torch import Tensor
from torch.nn import functional as F

from paceline.learn.kernels.lane import Lane
from paceline.learn.programs import single
from paceline.learn.programs.layers import Saved


@dataclass(frozen=True, slots=True)
class Convolution:
    """``nn.Conv2d``: torch's own for one client; kernels, or unfolding and a batched product, for several."""

    weight: int
    bias: int | None
    stride: tuple[int, int]
    padding: tuple[int, int]
    dilation: tuple[int, int]
    groups: int
    widened: bool = False
    """Whoever reads the output can take more channels."""

    def forward(self, lane: Lane, x: Tensor) -> tuple[Tensor, Saved]:
        """Choose by the number of clients."""
        return self._one(lane, x) if lane.clients == 1 else self._many(lane, x)

    def backward(self, lane: Lane, saved: Saved, g: Tensor, wanted: bool) -> tuple[Tensor | None, ...]:
        """The derivative of whichever form ran."""
        if lane.clients == 1:
            return self._one_backward(lane, saved, g, wanted)
        if isinstance(saved, Tensor):
            return self._kernels_backward(lane, saved, g, wanted)
        return self._many_backward(lane, saved, g, wanted)

    def _one(self, lane: Lane, x: Tensor) -> tuple[Tensor, Saved]:
        bias = None if self.bias is None else lane.params[self.bias][0]
        form = single.formed(self._shape, lane.params[self.weight][0], bias, x)
        return single.convolve(self._shape, form), form

    def _one_backward(self, lane: Lane, saved: single.Formed, g: Tensor, wanted: bool) -> tuple[Tensor | None, ...]:
        weight = lane.params[self.weight][0]
        by_weight, by_bias, gx = single.derivatives(self._shape, saved, weight, g, wanted)
        lane.store(self.weight, by_weight[None])
        if self.bias is not None and by_bias is not None:
            lane.store(self.bias, by_bias[None])
        return (gx,)

    @property
    def _shape(self) -> single.Shape:
        return single.Shape(self.stride, self.padding, self.dilation, self.groups, self.widened)

    def _kernels(self, lane: Lane, x: Tensor) -> tuple[Tensor, Saved]:
        x_NHWI = kernels().images(x)
        bias = None if self.bias is None else lane.params[self.bias]
        out_NHWO = kernels().convolve(x_NHWI, lane.params[self.weight], bias, self.padding)
        return out_NHWO.permute(0, 3, 1, 2), x_NHWI

    def _kernels_backward(self, lane: Lane, x_NHWI: Tensor, g: Tensor, wanted: bool) -> tuple[Tensor | None, ...]:
        g_NHWO = g.permute(0, 2, 3, 1).contiguous()
        gx = None
        if wanted:  # first: under descent the weights change next
            gx = kernels().input_gradient(g_NHWO, lane.params[self.weight], self.padding).permute(0, 3, 1, 2)
        kernels().weight_gradient(lane, self.weight, self.bias, x_NHWI, g_NHWO, self.padding)
        return (gx,)

    def _many(self, lane: Lane, x: Tensor) -> tuple[Tensor, Saved]:
        weight = lane.params[self.weight]
        if kernels().usable(x, weight, self.padding, self.stride, self.dilation, self.groups):
            return self._kernels(lane, x)
        out_channels, kh, kw = weight.shape[1:4]
        cols, (height, width) = self._unfold(x, kh, kw)
        cols_CMK = cols.reshape(lane.clients, -1, kh * kw * x.shape[1])
        w_CKO = weight.flatten(2).transpose(1, 2)
        with _convolution_precision(x):
            if self.bias is None:
                out = torch.bmm(cols_CMK, w_CKO)
            else:
                out = torch.baddbmm(lane.params[self.bias].unsqueeze(1), cols_CMK, w_CKO)
        return out.view(-1, height, width, out_channels).permute(0, 3, 1, 2), (cols_CMK, x.shape)

    def _many_backward(self, lane: Lane, saved: Saved, g: Tensor, wanted: bool) -> tuple[Tensor | None, ...]:
        cols_CMK, shape = saved
        g_CMO = g.permute(0, 2, 3, 1).reshape(lane.clients, -1, g.shape[1])
        weight = lane.params[self.weight]
        gx = None
        with _convolution_precision(g):
            if wanted:
                gcols = torch.bmm(g_CMO, weight.flatten(2))
                gx = self._fold(gcols, shape, g.shape[2:], weight.shape[2:4])
                del gcols
            lane.product(self.weight, g_CMO.transpose(1, 2), cols_CMK)
        if self.bias is not None:
            lane.store(self.bias, g_CMO.sum(dim=1))
        return (gx,)

    def _unfold(self, x: Tensor, kh: int, kw: int) -> tuple[Tensor, tuple[int, int]]:
        """All windows of a channels-last image batch as a view: (N, H', W', kh, kw, I)."""
        (ph, pw), (sh, sw), (dh, dw) = self.padding, self.stride, self.dilation
        nhwc = x.permute(0, 2, 3, 1)
        nhwc = F.pad(nhwc, (0, 0, pw, pw, ph, ph)) if ph or pw else nhwc.contiguous()
        count, high, wide, channels = nhwc.shape
        height, width = (high - dh * (kh - 1) - 1) // sh + 1, (wide - dw * (kw - 1) - 1) // sw + 1
        a, b, c, d = nhwc.stride()
        shape = (count, height, width, kh, kw, channels)
        return nhwc.as_strided(shape, (a, b * sh, c * sw, b * dh, c * dw, d)), (height, width)

    def _fold(self, gcols: Tensor, shape: torch.Size, out: torch.Size, kernel: torch.Size) -> Tensor:
        """Add every window's gradient back to its place."""
        (ph, pw), (sh, sw), (dh, dw) = self.padding, self.stride, self.dilation
        count, channels, high, wide = shape
        windows = gcols.view(count, out[0], out[1], kernel[0], kernel[1], channels)
        total = gcols.new_zeros(count, high + 2 * ph, wide + 2 * pw, channels)
        for i in range(kernel[0]):
            for j in range(kernel[1]):
                rows = slice(i * dh, i * dh + (out[0] - 1) * sh + 1, sh)
                columns = slice(j * dw, j * dw + (out[1] - 1) * sw + 1, sw)
                total[:, rows, columns] += windows[:, :, :, i, j]
        return total[:, ph : ph + high, pw : pw + wide].permute(0, 3, 1, 2)


@cache
def kernels() -> ModuleType:
    """Imported when first needed: loading Triton takes a while."""
    from paceline.learn.kernels import convolution

    return convolution


class _convolution_precision:
    """On CUDA, products that stand for a convolution follow cuDNN's TF32 setting, as ``F.conv2d`` would."""

    def __init__(self, x: Tensor) -> None:
        self.on = x.is_cuda and torch.backends.cudnn.allow_tf32

    def __enter__(self) -> None:
        if self.on:
            self.before = torch.backends.cuda.matmul.allow_tf32
            torch.backends.cuda.matmul.allow_tf32 = True

    def __exit__(self, *_: object) -> None:
        if self.on:
            torch.backends.cuda.matmul.allow_tf32 = self.before
