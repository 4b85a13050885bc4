"""Convolution of one client by torch's own, channels-last; on a CPU with whole vectors of channels.

oneDNN and torch's pooling compute eight channels at a time. Where a layer has six, as LeNet's first, the rest of a
vector goes number by number, so six channels become eight, two of them zero, if whoever reads them can ignore them.
That changes last bits and nothing else. ``python -m benchmarks.forms`` has the gains.

Shapes: O output channels, I input channels; weights are (O, kh, kw, I).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, partial
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.nn import functional as F

from paceline.learn.programs.layers import aten
from paceline.learn.torchscript import compiled

VECTOR = 8
"""Channels that are computed at a time (32 bytes of float32)."""


@dataclass(frozen=True, slots=True)
class Shape:
    """How a window moves, and whether whoever reads the output can take more channels."""

    stride: tuple[int, int]
    padding: tuple[int, int]
    dilation: tuple[int, int]
    groups: int
    widened: bool

    def surplus(self, outputs: int) -> int:
        """Channels that are added: to most of a vector, not to less (too much is computed for nothing)."""
        return VECTOR - outputs if self.widened and VECTOR // 2 < outputs < VECTOR else 0


class Formed(NamedTuple):
    """Input and parameters in the form in which they are convolved; the weight as (O, I, kh, kw)."""

    x: Tensor
    weight: Tensor
    bias: Tensor | None


def formed(shape: Shape, weight: Tensor, bias: Tensor | None, x: Tensor) -> Formed:
    """With surplus channels where these help, and zeros for those of the input."""
    given = x.shape[1] - weight.shape[3] if shape.groups == 1 else 0
    more = 0 if x.is_cuda or x.dtype != torch.float32 else shape.surplus(len(weight))
    if given or more:
        weight = F.pad(weight, (0, given, 0, 0, 0, 0, 0, more))
    if more and bias is not None:
        bias = F.pad(bias, (0, more))
    return Formed(_channels_last(x), weight.permute(0, 3, 1, 2), bias)


def convolve(shape: Shape, form: Formed) -> Tensor:
    """The output, perhaps with surplus channels."""
    return F.conv2d(form.x, form.weight, form.bias, shape.stride, shape.padding, shape.dilation, shape.groups)


def derivatives(
    shape: Shape, form: Formed, like: Tensor, g: Tensor, wanted: bool
) -> tuple[Tensor, Tensor | None, Tensor | None]:
    """Of a weight like this, of the bias if there is one, and of the input if it is wanted."""
    compute = convolution_derivatives()[wanted, form.bias is not None]
    move = (shape.stride, shape.padding, shape.dilation, shape.groups)
    found = compute(_channels_last(g), form.x, form.weight, *move)
    outputs, inputs = like.shape[0], like.shape[3]
    by_weight = found[0].permute(0, 2, 3, 1)[:outputs, :, :, :inputs]
    by_bias = None if form.bias is None else found[1][:outputs]
    return by_weight, by_bias, found[-1] if wanted else None


def _channels_last(x: Tensor) -> Tensor:
    return x.contiguous(memory_format=torch.channels_last)


@cache
def convolution_derivatives() -> dict[tuple[bool, bool], Callable[..., tuple[Tensor, ...]]]:
    """Torch's derivative of a convolution, by whether the input's is wanted and whether there is a bias.

    Each gives the weight's, then the bias's, then the input's. In TorchScript, because its tracer cannot see through
    the list of booleans that the operator takes, nor through outputs that are not asked for; where TorchScript is
    gone, the operator itself. What is not needed is not computed: a bias alone reads all of g.
    """
    forms = {(wanted, biased): _derivative(wanted, biased) for wanted in (False, True) for biased in (False, True)}
    names, text = [name for name, _ in forms.values()], "".join(text for _, text in forms.values())
    found = compiled(names, text, "the derivative of a convolution")
    if found is None:
        return {form: partial(_plain_derivatives, *form) for form in forms}
    return {form: found[name] for form, (name, _) in forms.items()}


def _derivative(wanted: bool, biased: bool) -> tuple[str, str]:
    """Name and TorchScript text of one form."""
    name = f"derivative_{wanted}_{biased}"
    outputs = "gw, " + ("gb, " if biased else "") + ("gx, " if wanted else "")
    return (
        name,
        f"""
def {name}(
    g: Tensor, x: Tensor, w: Tensor, stride: List[int], padding: List[int], dilation: List[int], groups: int
):
    gx, gw, gb = torch.ops.aten.convolution_backward(
        g, x, w, [w.size(0)], stride, padding, dilation, False, [0, 0], groups, [{wanted}, True, {biased}])
    return ({outputs})
""",
    )


def _plain_derivatives(
    wanted: bool, biased: bool, g: Tensor, x: Tensor, w: Tensor, stride: Any, padding: Any, dilation: Any, groups: int
) -> tuple[Tensor, ...]:
    shape = (stride, padding, dilation, False, (0, 0), groups)
    gx, gw, gb = aten.convolution_backward(g, x, w, [w.shape[0]], *shape, (wanted, True, biased))
    return tuple(part for part, there in ((gw, True), (gb, biased), (gx, wanted)) if there)
