"""Triton kernels for group normalisation of channels-last images, with or without a ReLU, and for x + y with one.

Torch's own group normalisation wants the other memory order and so costs two copies of every image, and it knows
nothing of scales that differ by client or of what follows. Here a program holds some groups of one image at once:
forward reads and writes each number once, backward reads two and writes one. As in ``kernels``: nothing waits for the
device, tunes itself, or adds in an order that depends on anything but the layer's own shape.

Shapes: N = C*B images of C clients, A = H*W places, I channels in G groups.
"""

from __future__ import annotations

import torch
from torch import Tensor

from paceline.learn.kernels.convolution import Pair, compiled, tl, triton, works

TILE = 16384
"""Numbers of a program where a group allows it: few enough to stay in registers, twice in backward."""
LARGEST_TILE = 32768
LINE = 4096
"""Numbers of a program of ``add``."""


def usable(x: Tensor, groups: int) -> bool:
    """Whether the kernels can normalise these images; x is (N, I, H, W)."""
    if not x.is_cuda or x.dtype != torch.float32 or x.dim() != 4 or not x.numel() or not works(x.device):
        return False
    count, channels, high, wide = x.shape
    each = channels // groups
    powers = each & (each - 1) == 0
    fits = triton.next_power_of_2(high * wide) * each <= LARGEST_TILE and high * wide * channels < 2**31
    return powers and fits and count < 2**31


def normalise(
    x: Tensor, scale: Tensor | None, shift: Tensor | None, groups: int, eps: float, rectified: bool
) -> tuple[Tensor, Tensor, Tensor]:
    """Normalised, scaled and shifted images in channels-last memory, and the mean and 1/deviation (N, G) of each.

    ``x`` is (N, I, H, W) in channels-last memory; ``scale`` and ``shift`` are (C, I).
    """
    count, channels, high, wide = x.shape
    out = torch.empty_like(x, memory_format=torch.channels_last)
    mean, rstd = (x.new_empty(count, groups) for _ in range(2))
    grid, blocks, warps = tiles(count, high * wide, channels, groups)
    shape = (_images(count, scale), high * wide, channels, channels // groups, eps, rectified)
    with torch.cuda.device_of(x):  # type: ignore[no-untyped-call]
        compiled(forward)[grid](x, scale, shift, out, mean, rstd, *shape, *blocks, num_warps=warps)
    return out, mean, rstd


def gradients(
    g: Tensor, x: Tensor, scale: Tensor | None, shift: Tensor | None, mean: Tensor, rstd: Tensor, rectified: bool
) -> tuple[Tensor, Tensor, Tensor]:
    """The gradient of the input, and those of scale and shift of every image, (N, I) each."""
    count, channels, high, wide = x.shape
    into = torch.empty_like(x, memory_format=torch.channels_last)
    by_scale, by_shift = (x.new_empty(count, channels) for _ in range(2))
    grid, blocks, warps = tiles(count, high * wide, channels, mean.shape[1])
    shape = (_images(count, scale), high * wide, channels, channels // mean.shape[1], rectified)
    with torch.cuda.device_of(x):  # type: ignore[no-untyped-call]
        compiled(backward)[grid](
            g.contiguous(memory_format=torch.channels_last), x, scale, shift, mean, rstd, into, by_scale, by_shift,
            *shape, *blocks, num_warps=warps,
        )  # fmt: skip
    return into, by_scale, by_shift


def add_rectified(x: Tensor, y: Tensor) -> Tensor | None:
    """max(x + y, 0) in one pass; None where the kernel does not serve."""
    same = x.shape == y.shape and x.stride() == y.stride() and x.dtype == y.dtype == torch.float32
    dense = x.dim() == 4 and x.is_contiguous(memory_format=torch.channels_last)
    if not (x.is_cuda and same and dense and 0 < x.numel() < 2**40 and works(x.device)):
        return None
    out = torch.empty_like(x)
    with torch.cuda.device_of(x):  # type: ignore[no-untyped-call]
        compiled(add)[(triton.cdiv(x.numel(), LINE),)](x, y, out, x.numel(), LINE, num_warps=4)
    return out


def tiles(count: int, area: int, channels: int, groups: int) -> tuple[Pair, Pair, int]:
    """How many programs, the places and channels of each, and its warps."""
    block_m = int(triton.next_power_of_2(area))
    each = channels // groups
    block_i = each
    # Whole groups, up to 32 channels (128 bytes in a row).
    while block_i < 32 and channels % (2 * block_i) == 0 and 2 * block_i * block_m <= TILE:
        block_i *= 2
    numbers = block_m * block_i
    return (count, channels // block_i), (block_m, block_i), 16 if numbers >= TILE else 8 if numbers >= 4096 else 4


def _images(count: int, scale: Tensor | None) -> int:
    """Return how many images each client has."""
    return count if scale is None else count // scale.shape[0]


# The kernels' bodies are Triton, not Python: sizes in capitals are known when they are compiled.
def over_group(values: tl.tensor, EACH: tl.constexpr, BLOCK_I: tl.constexpr) -> tl.tensor:
    """The sum over each group of channels, at every channel."""
    sums = tl.sum(tl.reshape(values, (BLOCK_I // EACH, EACH)), axis=1)
    return tl.reshape(tl.broadcast_to(sums[:, None], (BLOCK_I // EACH, EACH)), (BLOCK_I,))


if triton is not None:  # kernels call only what is compiled too
    over_group = triton.jit(over_group)


def forward(
    x_at: tl.tensor,
    scale_at: tl.tensor,
    shift_at: tl.tensor,
    out_at: tl.tensor,
    mean_at: tl.tensor,
    rstd_at: tl.tensor,
    images: tl.tensor,
    AREA: tl.constexpr,
    CHANNELS: tl.constexpr,
    EACH: tl.constexpr,
    EPS: tl.constexpr,
    RECTIFIED: tl.constexpr,
    BLOCK_M: tl.constexpr,
    BLOCK_I: tl.constexpr,
) -> None:
    """Some groups of one image."""
    image = tl.program_id(0).to(tl.int64)
    i = tl.program_id(1) * BLOCK_I + tl.arange(0, BLOCK_I)
    m = tl.arange(0, BLOCK_M)
    live = (m < AREA)[:, None]
    place = image * (AREA * CHANNELS) + m[:, None] * CHANNELS + i[None, :]
    x = tl.load(x_at + place, mask=live, other=0.0)
    mean = over_group(tl.sum(x, axis=0), EACH, BLOCK_I) / (AREA * EACH)
    centred = tl.where(live, x - mean[None, :], 0.0)
    square = over_group(tl.sum(centred * centred, axis=0), EACH, BLOCK_I) / (AREA * EACH)
    rstd = 1.0 / tl.sqrt(square + EPS)
    y = centred * rstd[None, :]
    if scale_at is not None:
        own = image // images * CHANNELS + i
        y = y * tl.load(scale_at + own)[None, :] + tl.load(shift_at + own)[None, :]
    if RECTIFIED:
        y = tl.where(y <= 0.0, 0.0, y)  # whatever is not a number stays, so that it is noticed
    tl.store(out_at + place, y, mask=live)
    # Every channel of a group writes the same number to the same place.
    group = image * (CHANNELS // EACH) + i // EACH
    tl.store(mean_at + group, mean)
    tl.store(rstd_at + group, rstd)


def backward(
    g_at: tl.tensor,
    x_at: tl.tensor,
    scale_at: tl.tensor,
    shift_at: tl.tensor,
    mean_at: tl.tensor,
    rstd_at: tl.tensor,
    into_at: tl.tensor,
    by_scale_at: tl.tensor,
    by_shift_at: tl.tensor,
    images: tl.tensor,
    AREA: tl.constexpr,
    CHANNELS: tl.constexpr,
    EACH: tl.constexpr,
    RECTIFIED: tl.constexpr,
    BLOCK_M: tl.constexpr,
    BLOCK_I: tl.constexpr,
) -> None:
    """Some groups of one image; what the ReLU stopped is found anew, which is cheaper than to remember it."""
    image = tl.program_id(0).to(tl.int64)
    i = tl.program_id(1) * BLOCK_I + tl.arange(0, BLOCK_I)
    m = tl.arange(0, BLOCK_M)
    live = (m < AREA)[:, None]
    place = image * (AREA * CHANNELS) + m[:, None] * CHANNELS + i[None, :]
    group = image * (CHANNELS // EACH) + i // EACH
    mean = tl.load(mean_at + group)
    rstd = tl.load(rstd_at + group)
    g = tl.load(g_at + place, mask=live, other=0.0)
    x = tl.load(x_at + place, mask=live, other=0.0)
    plain = tl.where(live, x - mean[None, :], 0.0) * rstd[None, :]
    scale = tl.full((BLOCK_I,), 1.0, dtype=tl.float32)
    shift = tl.zeros((BLOCK_I,), dtype=tl.float32)
    if scale_at is not None:
        own = image // images * CHANNELS + i
        scale = tl.load(scale_at + own)
        shift = tl.load(shift_at + own)
    if RECTIFIED:
        g = tl.where(plain * scale[None, :] + shift[None, :] <= 0.0, 0.0, g)
    by_shift = tl.sum(g, axis=0)
    by_scale = tl.sum(g * plain, axis=0)
    tl.store(by_shift_at + image * CHANNELS + i, by_shift)
    tl.store(by_scale_at + image * CHANNELS + i, by_scale)
    level = over_group(scale * by_shift, EACH, BLOCK_I) / (AREA * EACH)
    slope = over_group(scale * by_scale, EACH, BLOCK_I) / (AREA * EACH)
    flowing = rstd[None, :] * (g * scale[None, :] - level[None, :] - plain * slope[None, :])
    tl.store(into_at + place, flowing, mask=live)


def add(x_at: tl.tensor, y_at: tl.tensor, out_at: tl.tensor, numbers: tl.tensor, BLOCK: tl.constexpr) -> None:
    """Compute max(x + y, 0), block by block."""
    k = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    live = k < numbers
    total = tl.load(x_at + k, mask=live) + tl.load(y_at + k, mask=live)
    tl.store(out_at + k, tl.where(total <= 0.0, 0.0, total), mask=live)
