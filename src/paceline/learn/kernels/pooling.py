"""Triton kernels for max pooling of channels-last images in windows that do not overlap, with or without a ReLU.

Forward reads every number once and remembers the winner of each window in one byte; where a ReLU follows and leaves
nothing of the winner, the byte says that nobody won. Backward needs those bytes alone, and writes the whole gradient
of the input in one pass, zeros included. As in ``kernels``: nothing waits for the device, tunes itself or adds.

Shapes: N images, (H, W) their sides, (H', W') = (H // kh, W // kw) the sides of the pooled ones, I channels.
"""

from __future__ import annotations

import torch
from torch import Tensor

from paceline.learn.kernels.convolution import Pair, compiled, tl, triton, works

MOST_TAPS = 64
"""Numbers of a window; the kernels write them all out."""
TILE = 512
"""Windows times channels of one program: four a thread, so that numbers and winners share one layout."""


def usable(x: Tensor, kernel: Pair, stride: Pair, padding: Pair, dilation: Pair, ceil: bool) -> bool:
    """Whether the kernels can run this max pooling; x is (N, I, H, W)."""
    if not x.is_cuda or x.dtype != torch.float32 or x.dim() != 4:
        return False
    plain = stride == kernel and padding == (0, 0) and dilation == (1, 1) and not ceil
    if not (plain and x.is_contiguous(memory_format=torch.channels_last)):
        return False
    count, channels, high, wide = x.shape
    windows = kernel[0] <= high and kernel[1] <= wide and kernel[0] * kernel[1] <= MOST_TAPS
    # Places, and offsets within one image, are 32 bits wide.
    fits = x.numel() > 0 and count * high * wide + TILE < 2**31 and high * wide * channels < 2**31
    return windows and fits and works(x.device)


def pool(x: Tensor, kernel: Pair, rectified: bool) -> tuple[Tensor, Tensor]:
    """The largest of each window, (N, I, H', W') in channels-last memory, and the winners, (N, H', W', I)."""
    count, channels, high, wide = x.shape
    out_NHWI = x.new_empty(count, high // kernel[0], wide // kernel[1], channels)
    winner_NHWI = torch.empty_like(out_NHWI, dtype=torch.uint8)
    places = count * out_NHWI.shape[1] * out_NHWI.shape[2]
    grid, blocks = tiles(places, channels)
    with torch.cuda.device_of(x):  # type: ignore[no-untyped-call]
        compiled(find_largest)[grid](
            x, out_NHWI, winner_NHWI, places, high, wide, channels, *kernel, rectified, *blocks, num_warps=4
        )
    return out_NHWI.permute(0, 3, 1, 2), winner_NHWI


def input_gradient(g: Tensor, winner_NHWI: Tensor, kernel: Pair, sides: Pair) -> Tensor:
    """The gradient of the input: g, (N, I, H', W'), where the winners were; (N, I, H, W) in channels-last memory."""
    g_NHWI = g.permute(0, 2, 3, 1).contiguous()
    count, channels, (high, wide) = g_NHWI.shape[0], g_NHWI.shape[3], sides
    into_NHWI = g.new_empty(count, high, wide, channels)
    places = count * triton.cdiv(high, kernel[0]) * triton.cdiv(wide, kernel[1])
    grid, blocks = tiles(places, channels)
    with torch.cuda.device_of(g):  # type: ignore[no-untyped-call]
        compiled(give_to_winner)[grid](
            g_NHWI, winner_NHWI, into_NHWI, places, high, wide, channels, *kernel, *blocks, num_warps=4
        )
    return into_NHWI.permute(0, 3, 1, 2)


def tiles(places: int, channels: int) -> tuple[Pair, Pair]:
    """How many programs, and the windows and channels of each."""
    block_i = int(min(128, triton.next_power_of_2(channels)))
    return (triton.cdiv(places, TILE // block_i), triton.cdiv(channels, block_i)), (TILE // block_i, block_i)


# The kernels' bodies are Triton, not Python: sizes in capitals are known when they are compiled.
def find_largest(
    x_at: tl.tensor,
    out_at: tl.tensor,
    winner_at: tl.tensor,
    places: tl.tensor,
    HIGH: tl.constexpr,
    WIDE: tl.constexpr,
    CHANNELS: tl.constexpr,
    KH: tl.constexpr,
    KW: tl.constexpr,
    RECTIFIED: tl.constexpr,
    BLOCK_M: tl.constexpr,
    BLOCK_I: tl.constexpr,
) -> None:
    """Some windows by some channels: the largest number, and which of the window it is."""
    OUT_WIDE: tl.constexpr = WIDE // KW
    AREA: tl.constexpr = HIGH // KH * OUT_WIDE
    m = tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M)
    i = tl.program_id(1) * BLOCK_I + tl.arange(0, BLOCK_I)
    live = (m < places)[:, None] & (i < CHANNELS)[None, :]
    inside = (m % AREA // OUT_WIDE * KH * WIDE + m % OUT_WIDE * KW) * CHANNELS
    corner = (m // AREA).to(tl.int64) * (HIGH * WIDE * CHANNELS) + inside
    windows = x_at + corner[:, None] + i[None, :]
    largest = tl.load(windows, mask=live, other=0.0)
    winner = tl.zeros((BLOCK_M, BLOCK_I), dtype=tl.int32)
    for tap in tl.static_range(1, KH * KW):
        value = tl.load(windows + (tap // KW * WIDE + tap % KW) * CHANNELS, mask=live, other=0.0)
        # As torch: the first of equals, but whatever is not a number wins always, so that it is noticed.
        wins = (value > largest) | (value != value)  # noqa: PLR0124
        largest = tl.where(wins, value, largest)
        winner = tl.where(wins, tap, winner)
    if RECTIFIED:
        nothing = largest <= 0.0
        largest = tl.where(nothing, 0.0, largest)
        winner = tl.where(nothing, 255, winner)  # no window is that large: nobody won
    out = m.to(tl.int64)[:, None] * CHANNELS + i[None, :]
    tl.store(out_at + out, largest, mask=live)
    tl.store(winner_at + out, winner.to(tl.uint8), mask=live)


def give_to_winner(
    g_at: tl.tensor,
    winner_at: tl.tensor,
    into_at: tl.tensor,
    places: tl.tensor,
    HIGH: tl.constexpr,
    WIDE: tl.constexpr,
    CHANNELS: tl.constexpr,
    KH: tl.constexpr,
    KW: tl.constexpr,
    BLOCK_M: tl.constexpr,
    BLOCK_I: tl.constexpr,
) -> None:
    """Some windows by some channels: g to the winner, 0 to the others, also in cut windows at the far edges."""
    OUT_HIGH: tl.constexpr = HIGH // KH
    OUT_WIDE: tl.constexpr = WIDE // KW
    COLUMNS: tl.constexpr = (WIDE + KW - 1) // KW
    AREA: tl.constexpr = (HIGH + KH - 1) // KH * COLUMNS
    m = tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M)
    i = tl.program_id(1) * BLOCK_I + tl.arange(0, BLOCK_I)
    image = (m // AREA).to(tl.int64)
    row = m % AREA // COLUMNS
    column = m % COLUMNS
    live = (m < places)[:, None] & (i < CHANNELS)[None, :]
    pooled = live
    if HIGH % KH != 0 or WIDE % KW != 0:
        pooled = live & ((row < OUT_HIGH) & (column < OUT_WIDE))[:, None]
    source = (image * (OUT_HIGH * OUT_WIDE) + row * OUT_WIDE + column)[:, None] * CHANNELS + i[None, :]
    g = tl.load(g_at + source, mask=pooled, other=0.0)
    winner = tl.load(winner_at + source, mask=pooled, other=255).to(tl.int32)
    corner = image * (HIGH * WIDE * CHANNELS) + (row * KH * WIDE + column * KW) * CHANNELS
    windows = into_at + corner[:, None] + i[None, :]
    for tap in tl.static_range(KH * KW):
        within = live
        if HIGH % KH != 0 or WIDE % KW != 0:
            within = live & ((row * KH + tap // KW < HIGH) & (column * KW + tap % KW < WIDE))[:, None]
        ahead = (tap // KW * WIDE + tap % KW) * CHANNELS
        tl.store(windows + ahead, tl.where(winner == tap, g, 0.0), mask=within)
