"""Convolution of one client by torch's own, channels-last; on a CPU with whole vectors of channels.

oneDNN and torch's pooling compute eight channels at a time. Where a layer has six, as LeNet's first, the rest of a
vector goes number by number, so six channels become eight, two of them zero, if whoever reads them can ignore them.
That changes last bits and nothing else. Where vectors hold sixteen numbers (AVX-512), a first layer with eight
outputs or fewer would fill half of one; two neighbours of a row are then computed together, as one place with twice
the channels under a window that is wider by one. ``python -m benchmarks.forms`` has the gains.

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
FEW = 4
"""Most input channels of a layer whose outputs are computed in pairs: of more, the wider window costs what is won."""


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

    def pairs(self, x: Tensor, outputs: int, window: int) -> bool:
        """Whether two neighbours of a row are computed together."""
        width = int(x.shape[3]) + 2 * self.padding[1] - window + 1
        moves_by_one = self.stride[1] == self.dilation[1] == self.groups == 1
        return moves_by_one and width % 2 == 0 and outputs <= VECTOR and x.shape[1] <= FEW and wide_vectors()

    def move(self, *, paired: bool) -> tuple[tuple[int, int], tuple[int, int], tuple[int, int], int]:
        """What torch's functions take: stride, padding, dilation and groups."""
        return (self.stride[0], 2) if paired else self.stride, self.padding, self.dilation, self.groups


@cache
def wide_vectors() -> bool:
    """Whether this CPU computes sixteen numbers at a time."""
    return torch.backends.cpu.get_cpu_capability() == "AVX512"


class Formed(NamedTuple):
    """Input and parameters in the form in which they are convolved; the weight as (O, I, kh, kw)."""

    x: Tensor
    weight: Tensor
    bias: Tensor | None
    paired: bool
    """The weight is there twice, for a place and for the next one."""


def formed(shape: Shape, weight: Tensor, bias: Tensor | None, x: Tensor) -> Formed:
    """With surplus channels where these help, and zeros for those of the input; in pairs where that helps."""
    given = x.shape[1] - weight.shape[3] if shape.groups == 1 else 0
    vectors = not x.is_cuda and x.dtype == torch.float32
    more = shape.surplus(len(weight)) if vectors else 0
    if given or more:
        weight = F.pad(weight, (0, given, 0, 0, 0, 0, 0, more))
    if more and bias is not None:
        bias = F.pad(bias, (0, more))
    paired = vectors and shape.pairs(x, len(weight), weight.shape[2])
    if paired:
        weight = torch.cat([F.pad(weight, (0, 0, 0, 1)), F.pad(weight, (0, 0, 1, 0))])
        bias = None if bias is None else bias.repeat(2)
    return Formed(_channels_last(x), weight.permute(0, 3, 1, 2), bias, paired)


def convolve(shape: Shape, form: Formed) -> Tensor:
    """The output, perhaps with surplus channels."""
    out = F.conv2d(form.x, form.weight, form.bias, *shape.move(paired=form.paired))
    return _apart(out) if form.paired else out


def derivatives(
    shape: Shape, form: Formed, like: Tensor, g: Tensor, wanted: bool
) -> tuple[Tensor, Tensor | None, Tensor | None]:
    """Of a weight like this, of the bias if there is one, and of the input if it is wanted.

    The bias's is a sum of its own: within the convolution's derivative oneDNN takes several times as long for it.
    """
    g, move = _channels_last(g), shape.move(paired=form.paired)
    found = convolution_derivatives()[wanted](_together(g) if form.paired else g, form.x, form.weight, *move)
    outputs, _, window, inputs = like.shape
    by_weight = found[0].permute(0, 2, 3, 1)
    if form.paired:
        here, next_one = by_weight.chunk(2)
        by_weight = here[:, :, :window] + next_one[:, :, 1:]
    by_weight = by_weight[:outputs, :, :, :inputs]
    by_bias = None if form.bias is None else g.sum(dim=(0, 2, 3))[:outputs]
    return by_weight, by_bias, found[-1] if wanted else None


def _apart(out: Tensor) -> Tensor:
    """Pairs of places become places: in channels-last memory, where every place has its channels, nothing moves."""
    images, channels, height, width = out.shape
    return out.permute(0, 2, 3, 1).reshape(images, height, 2 * width, channels // 2).permute(0, 3, 1, 2)


def _together(g: Tensor) -> Tensor:
    """Places become pairs of places: the inverse of ``_apart``."""
    images, channels, height, width = g.shape
    return g.permute(0, 2, 3, 1).reshape(images, height, width // 2, 2 * channels).permute(0, 3, 1, 2)


def _channels_last(x: Tensor) -> Tensor:
    return x.contiguous(memory_format=torch.channels_last)


@cache
def convolution_derivatives() -> dict[bool, Callable[..., tuple[Tensor, ...]]]:
    """Torch's derivative of a convolution, by whether the input's is wanted: the weight's, then the input's.

    In TorchScript, because its tracer cannot see through the list of booleans that the operator takes, nor through
    outputs that are not asked for; where TorchScript is gone, the operator itself.
    """
    forms = {wanted: _derivative(wanted) for wanted in (False, True)}
    names, text = [name for name, _ in forms.values()], "".join(text for _, text in forms.values())
    found = compiled(names, text, "the derivative of a convolution")
    if found is None:
        return {wanted: partial(_plain_derivatives, wanted) for wanted in forms}
    return {wanted: found[name] for wanted, (name, _) in forms.items()}


def _derivative(wanted: bool) -> tuple[str, str]:
    """Name and TorchScript text of one form."""
    name = f"derivative_{wanted}"
    return (
        name,
        f"""
def {name}(
    g: Tensor, x: Tensor, w: Tensor, stride: List[int], padding: List[int], dilation: List[int], groups: int
):
    gx, gw, _ = torch.ops.aten.convolution_backward(
        g, x, w, None, stride, padding, dilation, False, [0, 0], groups, [{wanted}, True, False])
    return (gw, {"gx, " if wanted else ""})
""",
    )


def _plain_derivatives(
    wanted: bool, g: Tensor, x: Tensor, w: Tensor, stride: Any, padding: Any, dilation: Any, groups: int
) -> tuple[Tensor, ...]:
    shape = (stride, padding, dilation, False, (0, 0), groups)
    gx, gw, _ = aten.convolution_backward(g, x, w, None, *shape, (wanted, True, False))
    return (gw, gx) if wanted else (gw,)
