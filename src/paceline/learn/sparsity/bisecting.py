"""The smallest keys of every layer on a GPU: all layers at once, bit by bit, without ever waiting for the device.

``choosing.smallest`` is the specification. Its histograms must be waited for, and a GPU idles meanwhile: as many
comparisons of all keys as a key has bits are faster. One Triton kernel makes one of them for all layers of all
clients: with a launch for each layer, a wave of a single ResNet-18 took 40 ms, nearly all of it launching.

Shapes: C clients, P parameters of a model, L masked layers, N weights of one layer.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache

import torch
from torch import Tensor

from paceline.learn.kernels.convolution import compiled, tl, works
from paceline.learn.space import Slot

TILE = 8192
"""Keys of one program."""
Span = tuple[int, int]
Below = Callable[[Tensor], Tensor]
"""Bounds (C, L) to how many keys of each layer are below its own."""


def smallest_of_layers(keys_CP: Tensor, slots: Sequence[Slot], count_CL: Tensor) -> Iterator[Tensor]:
    """Layer by layer (C, N) bool: the ``count_CL`` smallest keys; of equal keys those with the lowest index.

    Keys are non-negative integers; the largest of their dtype is never chosen, so fewer may be.
    """
    spans = tuple((slot.start, slot.stop) for slot in slots)
    below: Below = _by_kernel(keys_CP, spans) if _usable(keys_CP) else _by_layers(keys_CP, spans)
    bound_CL = torch.zeros_like(count_CL, dtype=keys_CP.dtype)
    for bit in reversed(range(torch.iinfo(keys_CP.dtype).bits - 1)):
        higher_CL = bound_CL | (1 << bit)
        bound_CL = torch.where(below(higher_CL) < count_CL, higher_CL, bound_CL)
    wanted_CL = (count_CL - below(bound_CL)).clamp(min=0)  # of those that are equal to the bound
    wanted_CL[bound_CL == torch.iinfo(keys_CP.dtype).max] = 0
    for layer, (start, stop) in enumerate(spans):
        keys_CN, bound_C1, wanted_C1 = keys_CP[:, start:stop], bound_CL[:, layer, None], wanted_CL[:, layer, None]
        tied = keys_CN == bound_C1
        yield (keys_CN < bound_C1) | (tied & (tied.cumsum(dim=1, dtype=torch.int32) <= wanted_C1))


def _by_layers(keys_CP: Tensor, spans: Sequence[Span]) -> Below:
    def below(bound_CL: Tensor) -> Tensor:
        counts = [(keys_CP[:, start:stop] < bound_CL[:, k, None]).sum(dim=1) for k, (start, stop) in enumerate(spans)]
        return torch.stack(counts, dim=1)

    return below


# -- by one kernel --------------------------------------------------------------------------------------------------


def _usable(keys_CP: Tensor) -> bool:
    return keys_CP.is_cuda and works(keys_CP.device)


def _by_kernel(keys_CP: Tensor, spans: tuple[Span, ...]) -> Below:
    tiles = _tiles(spans, keys_CP.device)
    grid = (tiles.shape[1], keys_CP.shape[0])

    def below(bound_CL: Tensor) -> Tensor:
        counts_CL = torch.zeros_like(bound_CL, dtype=torch.int32)
        compiled(count_below)[grid](
            keys_CP, bound_CL, counts_CL, tiles, keys_CP.shape[1], len(spans), tiles.shape[1], TILE, num_warps=8
        )
        return counts_CL

    return below


@lru_cache(maxsize=64)
def _tiles(spans: tuple[Span, ...], device: torch.device) -> Tensor:
    """(3, tiles): the layer of every tile, its first column, and the one behind its last."""
    found = [
        (k, at, min(at + TILE, stop)) for k, (start, stop) in enumerate(spans) for at in range(start, stop, TILE)
    ]
    return torch.tensor(found, dtype=torch.int32, device=device).T.contiguous()


# The kernel's body is Triton, not Python: sizes in capitals are known when it is compiled.
def count_below(
    keys_at: tl.tensor,
    bound_at: tl.tensor,
    counts_at: tl.tensor,
    tiles_at: tl.tensor,
    wide: tl.tensor,
    layers: tl.tensor,
    tiles: tl.tensor,
    BLOCK: tl.constexpr,
) -> None:
    """One tile of one client; whole numbers are added, so the order in which tiles end changes nothing."""
    tile, client = tl.program_id(0), tl.program_id(1).to(tl.int64)
    layer = tl.load(tiles_at + tile)
    place = tl.load(tiles_at + tiles + tile) + tl.arange(0, BLOCK)
    live = place < tl.load(tiles_at + 2 * tiles + tile)
    keys = tl.load(keys_at + client * wide + place, mask=live, other=0)
    below = live & (keys < tl.load(bound_at + client * layers + layer))
    tl.atomic_add(counts_at + client * layers + layer, tl.sum(below.to(tl.int32), axis=0))
