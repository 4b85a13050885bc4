"""Triton kernels for the convolutions of many clients: windows are read where they lie, never written out.

Two kernels, both products over implicit windows of channels-last images. ``correlate`` serves the forward pass and,
with the taps reversed and the channels exchanged, the gradient of the input; ``spread`` is the gradient of the
weights. Nothing here waits for the device, tunes itself, or adds in an order that may change: block sizes follow from
the shapes of the layer alone, so a client's numbers do not depend on who shares its cohort, and a launch can be
captured in a CUDA graph. Without Triton this module imports, and ``usable`` says no.

Shapes: C clients, N = C*B images, M = B*H'*W' places of a client, O output channels, K = kh*kw*I; weights are
(C, O, kh, kw, I), images (N, H, W, channels).
"""

from __future__ import annotations

from functools import cache
from importlib import import_module
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from paceline.learn.kernels.lane import Lane
from paceline.learn.notices import tell_slower

tl: Any
triton: Any
try:
    triton, tl = import_module("triton"), import_module("triton.language")
except ImportError:  # CPU builds of torch come without it
    triton = tl = None

Pair = tuple[int, int]
Blocks = tuple[int, int, int]
LONG_SUM = 2048
"""Places beyond which the sum of a weight gradient is shared among programs."""
MOST_PROGRAMS = 16
"""Programs of one client's weight gradient that are enough to fill a GPU with a cohort."""


def usable(x: Tensor, weight: Tensor, padding: Pair, stride: Pair, dilation: Pair, groups: int) -> bool:
    """Whether the kernels can run this convolution of several clients; x is (N, I, H, W)."""
    plain = stride == (1, 1) and dilation == (1, 1) and groups == 1
    if not (plain and x.is_cuda and x.dtype == weight.dtype == torch.float32):
        return False
    # Offsets within one client are 32 bits wide; an image may get up to a third more channels.
    count, channels, high, wide = x.shape
    clients, outputs = weight.shape[:2]
    area = (high + 2 * padding[0]) * (wide + 2 * padding[1])
    fits = 0 < count // clients * area * max(channels + 3, outputs) < 2**31
    return weight.is_contiguous() and fits and works(x.device)


@cache
def works(device: torch.device) -> bool:
    """Whether this device can run the kernels and this machine can compile them; if not, the user is told once."""
    if reason := _obstacle(device):
        tell_slower(
            f"convolutions, pooling and masks on {device} run without their kernels, which is slower: {reason}"
        )
    return not reason


def _obstacle(device: torch.device) -> str:
    """Why the kernels cannot run on a CUDA device, tried on next to nothing; empty if they can."""
    if triton is None:
        return "Triton is not installed"
    if torch.cuda.get_device_capability(device) < (8, 0):  # no TF32, and little shared memory
        return "they need a device of compute capability 8.0 or more"
    try:
        convolve(torch.zeros(1, 1, 1, 16, device=device), torch.zeros(1, 16, 1, 1, 16, device=device), None, (0, 0))
    except Exception as error:
        return f"Triton cannot compile here ({error})"
    return ""


def images(x: Tensor) -> Tensor:
    """(N, I, H, W) to contiguous (N, H, W, I'), as ``convolve`` and ``weight_gradient`` want it.

    Where it costs little (3 channels, not 1), zero channels are added until a place is a multiple of 16 bytes: four
    numbers are then copied at once.
    """
    extra = -x.shape[1] % 4
    x_NHWI = x.permute(0, 2, 3, 1)
    return (F.pad(x_NHWI, (0, extra)) if 0 < 3 * extra <= x.shape[1] else x_NHWI).contiguous()


def convolve(x: Tensor, weight: Tensor, bias: Tensor | None, padding: Pair) -> Tensor:
    """The forward pass: (N, H, W, I) to (N, H', W', O)."""
    extra = x.shape[3] - weight.shape[4]
    wide = F.pad(weight, (0, extra)).contiguous() if extra else weight
    return _correlate(x, wide, bias, padding, reverse=False)


def input_gradient(g: Tensor, weight: Tensor, padding: Pair) -> Tensor:
    """The gradient of the input: a correlation of g with the reversed kernel, from (N, H', W', O) to (N, H, W, I)."""
    kh, kw = weight.shape[2:4]
    # A copy with O innermost: tensor cores want the summed axis to be contiguous, and this copy is small.
    turned = weight.permute(0, 4, 2, 3, 1).contiguous()
    return _correlate(g, turned, None, (kh - 1 - padding[0], kw - 1 - padding[1]), reverse=True)


def _correlate(x: Tensor, weight: Tensor, bias: Tensor | None, padding: Pair, reverse: bool) -> Tensor:
    clients, outputs, kh, kw, channels = weight.shape
    count, high, wide, _ = x.shape
    out_high, out_wide = high + 2 * padding[0] - kh + 1, wide + 2 * padding[1] - kw + 1
    out = x.new_empty(count, out_high, out_wide, outputs)
    places = count // clients * out_high * out_wide
    blocks, launch = correlate_blocks(places, outputs, channels, kh * kw)
    grid = (triton.cdiv(places, blocks[0]), clients, triton.cdiv(outputs, blocks[1]))
    shape = (high, wide, channels, out_high, out_wide, outputs, *padding, kh, kw)
    with torch.cuda.device_of(x):  # type: ignore[no-untyped-call]
        compiled(correlate)[grid](x, weight, bias, out, places, *shape, reverse, *blocks, precision(), **launch)
    return out


def weight_gradient(lane: Lane, weight: int, bias: int | None, x: Tensor, g: Tensor, padding: Pair) -> None:
    """Store the gradients of weight and bias, or step by them, as the lane asks."""
    w, descent = lane.params[weight], lane.descent
    clients, outputs, kh, kw, channels = w.shape
    size = kh * kw * x.shape[3]
    _, out_high, out_wide, _ = g.shape
    places = g.shape[0] // clients * out_high * out_wide
    blocks, launch = spread_blocks(outputs, size)
    columns, rows = triton.cdiv(size, blocks[2]), triton.cdiv(outputs, blocks[1])
    shares = max(1, min(places // LONG_SUM, MOST_PROGRAMS // (rows * columns)))
    part = triton.cdiv(triton.cdiv(places, shares), blocks[0]) * blocks[0]
    whole = shares == 1 and x.shape[3] == channels
    if whole:
        into, keep = (lane.grads[weight], None) if descent is None else (w, descent.keep_C)
    else:
        into, keep = g.new_empty(clients, shares, *w.shape[1:4], x.shape[3]), None
    # With one column of tiles every g is read once, and the gradient of the bias comes along.
    sums = g.new_empty(clients, shares, outputs) if bias is not None and columns == 1 else None
    steps = whole and descent is not None
    shape = (*x.shape[1:], out_high, out_wide, outputs, *padding, kh, kw)
    with torch.cuda.device_of(x):  # type: ignore[no-untyped-call]
        compiled(spread)[(columns, clients, shares * rows)](
            x, g, into, keep, sums, places, part, shares, *shape, steps, *blocks, precision(), **launch
        )
    if not whole:
        lane.store(weight, into.sum(dim=1)[..., :channels])
    if bias is not None:
        lane.store(bias, g.view(clients, -1, outputs).sum(dim=1) if sums is None else sums.sum(dim=1))


def correlate_blocks(places: int, outputs: int, channels: int, taps: int) -> tuple[Blocks, dict[str, int]]:
    """Places, output channels and K of a tile of ``correlate``, and how to launch it."""
    # Measured on an H200. Whole parts of a tap where channels allow: one scalar offset a round, 16 bytes a copy.
    if channels % 32 == 0:
        block_m, depth = _block(places, 128), 32
    else:
        block_m, depth = _block(places, 256), 16 if channels % 16 == 0 or taps * channels <= 128 else 32
    block_n = _block(outputs, 128 if block_m <= 128 else 64)
    return (block_m, block_n, depth), {"num_warps": 8 if block_m * block_n > 8192 else 4, "num_stages": 3}


def spread_blocks(outputs: int, size: int) -> tuple[Blocks, dict[str, int]]:
    """Places of a round, output channels and K of a tile of ``spread``, and how to launch it."""
    # No more than 32 channels: from 64 on Triton takes Hopper's own tensor-core instructions, which want the summed
    # axis contiguous, and copies number by number to turn both tiles (measured on an H200: more than twice as slow).
    return (16, _block(outputs, 32), _block(size, 128)), {"num_warps": 2, "num_stages": 4}


def _block(size: int, most: int) -> int:
    """A power of two that a tensor core can take: large enough, or the most."""
    return int(min(most, max(16, triton.next_power_of_2(size))))


def precision() -> str:
    """Products follow cuDNN's TF32 setting, as ``F.conv2d`` would."""
    return "tf32" if torch.backends.cudnn.allow_tf32 else "ieee"


@cache
def compiled(kernel: Any) -> Any:
    """The kernel, ready for launch."""
    return triton.jit(kernel)


# The kernels' bodies are Triton, not Python: sizes in capitals are known when they are compiled.
def correlate(
    x_at: tl.tensor,
    w_at: tl.tensor,
    bias_at: tl.tensor,
    out_at: tl.tensor,
    places: tl.tensor,
    HIGH: tl.constexpr,
    WIDE: tl.constexpr,
    CHANNELS: tl.constexpr,
    OUT_HIGH: tl.constexpr,
    OUT_WIDE: tl.constexpr,
    OUTPUTS: tl.constexpr,
    PAD_H: tl.constexpr,
    PAD_W: tl.constexpr,
    KH: tl.constexpr,
    KW: tl.constexpr,
    REVERSE: tl.constexpr,
    BLOCK_M: tl.constexpr,
    BLOCK_N: tl.constexpr,
    BLOCK_K: tl.constexpr,
    PRECISION: tl.constexpr,
) -> None:
    """One tile of one client's output: places by channels."""
    AREA: tl.constexpr = OUT_HIGH * OUT_WIDE
    SIZE: tl.constexpr = KH * KW * CHANNELS
    client = tl.program_id(1).to(tl.int64)
    x_at += client * (places // AREA) * (HIGH * WIDE * CHANNELS)
    w_at += client * (SIZE * OUTPUTS)
    out_at += client * places * OUTPUTS
    m = tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M)
    n = tl.program_id(2) * BLOCK_N + tl.arange(0, BLOCK_N)
    top = m % AREA // OUT_WIDE - PAD_H
    left = m % OUT_WIDE - PAD_W
    corner = ((m // AREA * HIGH + top) * WIDE + left) * CHANNELS
    live = m < places
    total = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
    for start in range(0, SIZE, BLOCK_K):
        k = start + tl.arange(0, BLOCK_K)
        if CHANNELS % BLOCK_K == 0:
            tap = start // CHANNELS  # one tap a round: a scalar
            # Written as a multiple, for the compiler does not see that the remainder is one; it copies 16 bytes then.
            channel = start // BLOCK_K % (CHANNELS // BLOCK_K) * BLOCK_K + tl.arange(0, BLOCK_K)
        else:
            tap = k // CHANNELS
            channel = k % CHANNELS
        down = tap // KW
        right = tap % KW
        windows = x_at + corner[:, None] + ((down * WIDE + right) * CHANNELS + channel)[None, :]
        if CHANNELS % BLOCK_K == 0:
            inside = live
            if PAD_H != 0 or PAD_W != 0:
                y = top + down
                z = left + right
                inside = live & (y >= 0) & (y < HIGH) & (z >= 0) & (z < WIDE)
            a = tl.load(windows, mask=inside[:, None], other=0.0)
        else:
            within = live[:, None] & (k < SIZE)[None, :]
            if PAD_H != 0 or PAD_W != 0:
                y = top[:, None] + down[None, :]
                z = left[:, None] + right[None, :]
                within = within & (y >= 0) & (y < HIGH) & (z >= 0) & (z < WIDE)
            a = tl.load(windows, mask=within, other=0.0)
        if REVERSE:
            tap = KH * KW - 1 - tap
        weights = w_at + (tap * CHANNELS + channel)[:, None] + (n * SIZE)[None, :]
        if SIZE % BLOCK_K == 0 and OUTPUTS % BLOCK_N == 0:
            b = tl.load(weights)
        else:
            b = tl.load(weights, mask=(k < SIZE)[:, None] & (n < OUTPUTS)[None, :], other=0.0)
        total = tl.dot(a, b, total, input_precision=PRECISION)
    if bias_at is not None:
        total += tl.load(bias_at + client * OUTPUTS + n, mask=n < OUTPUTS, other=0.0)[None, :]
    tl.store(out_at + m[:, None] * OUTPUTS + n[None, :], total, mask=live[:, None] & (n < OUTPUTS)[None, :])


def spread(
    x_at: tl.tensor,
    g_at: tl.tensor,
    into_at: tl.tensor,
    keep_at: tl.tensor,
    sums_at: tl.tensor,
    places: tl.tensor,
    part: tl.tensor,
    shares: tl.tensor,
    HIGH: tl.constexpr,
    WIDE: tl.constexpr,
    CHANNELS: tl.constexpr,
    OUT_HIGH: tl.constexpr,
    OUT_WIDE: tl.constexpr,
    OUTPUTS: tl.constexpr,
    PAD_H: tl.constexpr,
    PAD_W: tl.constexpr,
    KH: tl.constexpr,
    KW: tl.constexpr,
    STEPS: tl.constexpr,
    BLOCK_M: tl.constexpr,
    BLOCK_N: tl.constexpr,
    BLOCK_K: tl.constexpr,
    PRECISION: tl.constexpr,
) -> None:
    """One tile of one client's weight gradient, output channels by K, summed over one share of the places."""
    AREA: tl.constexpr = OUT_HIGH * OUT_WIDE
    SIZE: tl.constexpr = KH * KW * CHANNELS
    client = tl.program_id(1).to(tl.int64)
    share = tl.program_id(2) % shares
    x_at += client * (places // AREA) * (HIGH * WIDE * CHANNELS)
    g_at += client * places * OUTPUTS
    n = tl.program_id(2) // shares * BLOCK_N + tl.arange(0, BLOCK_N)
    k = tl.program_id(0) * BLOCK_K + tl.arange(0, BLOCK_K)
    tap = k // CHANNELS
    down = tap // KW
    right = tap % KW
    ahead = (down * WIDE + right) * CHANNELS + k % CHANNELS
    total = tl.zeros((BLOCK_N, BLOCK_K), dtype=tl.float32)
    sums = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
    for start in range(share * part, min(share * part + part, places), BLOCK_M):
        m = start + tl.arange(0, BLOCK_M)
        live = m < places
        g = tl.load(g_at + m[:, None] * OUTPUTS + n[None, :], mask=live[:, None] & (n < OUTPUTS)[None, :], other=0.0)
        top = m % AREA // OUT_WIDE - PAD_H
        left = m % OUT_WIDE - PAD_W
        corner = ((m // AREA * HIGH + top) * WIDE + left) * CHANNELS
        within = live[:, None] & (k < SIZE)[None, :]
        if PAD_H != 0 or PAD_W != 0:
            y = top[:, None] + down[None, :]
            z = left[:, None] + right[None, :]
            within = within & (y >= 0) & (y < HIGH) & (z >= 0) & (z < WIDE)
        windows = tl.load(x_at + corner[:, None] + ahead[None, :], mask=within, other=0.0)
        total = tl.dot(tl.trans(g), windows, total, input_precision=PRECISION)
        if sums_at is not None:
            sums += g
    whole = (n < OUTPUTS)[:, None] & (k < SIZE)[None, :]
    target = into_at + (client * shares + share) * (OUTPUTS * SIZE) + n[:, None] * SIZE + k[None, :]
    if STEPS:
        old = tl.load(target, mask=whole, other=0.0)
        if keep_at is not None:
            old *= tl.load(keep_at + client)
        total = old - total
    tl.store(target, total, mask=whole)
    if sums_at is not None:
        tl.store(sums_at + (client * shares + share) * OUTPUTS + n, tl.sum(sums, axis=0), mask=n < OUTPUTS)
