"""Where masked weights lie in flat models, and what is done with them row by row: counting, summing, choosing.

Shapes: C clients, P parameters of a model, L masked layers, N weights of one layer. A mask is a 0/1 tensor of the
weights' shape and dtype, with ones on parameters that are never masked. Row k of every result is a function of row
k alone, to the last bit: torch's own sums are not, since their order depends on the number of rows and threads.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import torch
from torch import Tensor, nn
from torch.nn.modules.conv import _ConvNd

from paceline.errors import SettingError
from paceline.learn.noise import mix
from paceline.learn.space import Slot, Space

LANES = 1 << 15
"""Partial sums of one row; a part of the definition of a sum here, so it never depends on the machine."""
PIECE_CPU, PIECE_CUDA = 1 << 20, 1 << 26
"""Numbers that are looked at together: what a cache holds, or what keeps a GPU busy. Changes no result."""
DIGIT = 11
"""Bits found in one pass of ``smallest``: the histograms of 100 clients stay in a cache."""
WHOLE = 1 << 24
"""Up to here float32 counts without error, in any order."""


def maskable(space: Space, leave_out: Sequence[str] = ()) -> tuple[Slot, ...]:
    """The weights of convolutions and linear layers, in the order of the flat vector.

    A layer whose name contains one of the words of ``leave_out`` is never masked (DA-DPFL's code leaves out
    ``shortcut``).
    """
    kinds = (nn.Linear, _ConvNd)
    modules = space.module.named_modules()
    names = {f"{name}.weight".removeprefix(".") for name, module in modules if isinstance(module, kinds)}
    slots = tuple(s for s in space.slots if s.name in names and not any(word in s.name for word in leave_out))
    if not slots:
        raise SettingError(
            f"{space.name} has no layer to make sparse (leaving out {', '.join(leave_out) or 'none'}); "
            "want a convolution or a linear layer: use another model, or leave out less"
        )
    return slots


def sizes(slots: Sequence[Slot]) -> list[int]:
    """Weights of each layer."""
    return [slot.stop - slot.start for slot in slots]


def counts(masks_CP: Tensor, slots: Sequence[Slot]) -> Tensor:
    """(C, L) int64: how many weights of each layer are active."""
    return torch.stack([_ones(masks_CP[:, slot.start : slot.stop]) for slot in slots], dim=1)


def sparsity(counts_CL: Tensor, slots: Sequence[Slot]) -> Tensor:
    """(C,) float64: the share of *zeros* among the weights that can be masked (DA-E2)."""
    total = sum(sizes(slots))
    return (total - counts_CL.sum(dim=-1)).double() / total


def _ones(mask_CN: Tensor) -> Tensor:
    # In the mask's own dtype: converting every number to int64 first is ten times as slow.
    parts = [mask_CN[:, at : at + WHOLE].sum(dim=1).to(torch.int64) for at in range(0, mask_CN.shape[1], WHOLE)]
    return torch.stack(parts).sum(dim=0)


def row_sums(piece: Callable[[slice], Tensor], start: int, stop: int) -> Tensor:
    """(C,) float64: each row's sum of ``piece(columns)``, fresh (C, n) float64 tensors, over columns start to stop.

    Only elementwise additions in a fixed order: column i goes to lane i mod ``LANES``, then lanes are folded in half.
    """
    lanes_CN = piece(slice(start, min(start + LANES, stop)))
    for at in range(start + LANES, stop, LANES):
        more_CN = piece(slice(at, min(at + LANES, stop)))
        lanes_CN[:, : more_CN.shape[1]] += more_CN
    while (width := lanes_CN.shape[1]) > 1:
        half = (width + 1) // 2
        lanes_CN[:, : width - half] += lanes_CN[:, half:]
        lanes_CN = lanes_CN[:, :half]
    return lanes_CN[:, 0].clone()


def pieces(rows: int, start: int, stop: int, *, cuda: bool) -> Iterator[slice]:
    """Columns start to stop in parts of which ``rows`` rows are looked at together."""
    width = max(1, (PIECE_CUDA if cuda else PIECE_CPU) // max(rows, 1))
    for at in range(start, stop, width):
        yield slice(at, min(at + width, stop))


# -- choosing weights ---------------------------------------------------------------------------------------------


class Order:
    """One layer's weights of C clients by rank, as non-negative integer keys; the largest key is never chosen."""

    def __init__(self, like_CP: Tensor, slot: Slot) -> None:
        """Keys for the weights that lie at this slot of tensors such as ``like_CP``."""
        self.slot = slot
        self.dtype = torch.int64 if like_CP.dtype is torch.float64 else torch.int32
        self.never = torch.iinfo(self.dtype).max
        shape = (like_CP.shape[0], slot.stop - slot.start)
        self.keys_CN = torch.empty(shape, dtype=self.dtype, device=like_CP.device)

    def smallest(self, values_CP: Tensor, masks_CP: Tensor, count_C: Tensor) -> Tensor:
        """(C, N) bool: the ``count_C`` active weights of least |value|."""
        return self._choose(lambda columns: self._bits(values_CP[:, columns]), masks_CP, 0, count_C)

    def largest(self, values_CP: Tensor, masks_CP: Tensor, count_C: Tensor) -> Tensor:
        """(C, N) bool: the ``count_C`` inactive weights of greatest |value|."""
        return self._choose(lambda columns: self.never - 1 - self._bits(values_CP[:, columns]), masks_CP, 1, count_C)

    def random(self, key_C: Tensor, masks_CP: Tensor, count_C: Tensor) -> Tensor:
        """(C, N) bool: ``count_C`` inactive weights at random, drawn at (key, place in the flat vector)."""
        return self._choose(lambda columns: self._drawn(key_C, columns), masks_CP, 1, count_C)

    def _choose(self, keys: Callable[[slice], Tensor], masks_CP: Tensor, barred: int, count_C: Tensor) -> Tensor:
        start, rows = self.slot.start, self.keys_CN.shape[0]
        for columns in pieces(rows, start, self.slot.stop, cuda=self.keys_CN.is_cuda):
            # Arithmetic instead of masked_fill, which is six times as slow: all bits are set where it is barred.
            active = masks_CP[:, columns].to(self.dtype)
            never = (active.neg_() if barred else active.sub_(1)).bitwise_and_(self.never)
            self.keys_CN[:, columns.start - start : columns.stop - start] = never.bitwise_or_(keys(columns))
        return smallest(self.keys_CN, count_C)

    def _bits(self, values: Tensor) -> Tensor:
        # The bits of non-negative floats are ordered as the floats are; NaN comes last.
        return values.abs().view(self.dtype).clamp_(max=self.never - 1)

    def _drawn(self, key_C: Tensor, columns: slice) -> Tensor:
        place_N = torch.arange(columns.start, columns.stop, device=key_C.device)
        # 31 bits are enough: two of a million weights that draw the same number are a tie, broken as any other.
        return (mix(key_C[:, None], place_N) & (2**31 - 1)).to(self.dtype).clamp_(max=self.never - 1)


def smallest(keys_CN: Tensor, count_C: Tensor) -> Tensor:
    """(C, N) bool: the ``count_C`` smallest keys of each row; of equal keys those with the lowest index.

    Keys are non-negative integers; the largest of their dtype is never chosen, so fewer may be. The threshold is
    found digit by digit from histograms: exact, linear in N, and with a count of its own for each row.
    """
    never = torch.iinfo(keys_CN.dtype).max
    bound_C, ties_C, need_C = _threshold(keys_CN, count_C)
    need_C = torch.where(bound_C == never, 0, need_C)
    torn_C = ties_C > need_C
    # Where all keys equal to the bound are wanted, the bound moves up by one instead.
    chosen_CN: Tensor = keys_CN < (bound_C + (~torn_C).to(keys_CN.dtype))[:, None]
    rows = (torn_C & (need_C > 0)).nonzero()[:, 0]
    if len(rows):
        tied = keys_CN[rows] == bound_C[rows, None]
        chosen_CN[rows] |= tied & (tied.cumsum(dim=1, dtype=torch.int32) <= need_C[rows, None])
    return chosen_CN


def _threshold(keys_CN: Tensor, count_C: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Each row's ``count_C``-th smallest key, how many keys are equal to it, and how many of these are wanted."""
    bits = torch.iinfo(keys_CN.dtype).bits - 1
    prefix_C = torch.zeros(keys_CN.shape[0], dtype=keys_CN.dtype, device=keys_CN.device)
    need_C = count_C.to(torch.int64).clamp(max=keys_CN.shape[1])
    found_C = torch.zeros_like(need_C)
    for shift in reversed(range(0, bits, DIGIT)):
        table_CB = _histogram(keys_CN, prefix_C, shift, first=shift + DIGIT >= bits)
        upto_CB = table_CB.cumsum(dim=1)
        digit_C1 = torch.searchsorted(upto_CB, need_C[:, None]).clamp_(max=table_CB.shape[1] - 1)
        found_C = table_CB.gather(1, digit_C1)[:, 0]
        need_C = need_C - (upto_CB.gather(1, digit_C1)[:, 0] - found_C)
        prefix_C = (prefix_C << DIGIT) | digit_C1[:, 0].to(prefix_C.dtype)
    return prefix_C, found_C, need_C


def _histogram(keys_CN: Tensor, prefix_C: Tensor, shift: int, *, first: bool) -> Tensor:
    """(C, 2^DIGIT): how often each digit at ``shift`` comes among the keys that begin with the prefix."""
    rows, width = keys_CN.shape
    digits = 1 << DIGIT
    table = torch.zeros(rows * digits, dtype=torch.int64, device=keys_CN.device)
    begin_C1 = torch.arange(rows, dtype=keys_CN.dtype, device=keys_CN.device)[:, None] * digits
    for columns in pieces(rows, 0, width, cuda=keys_CN.is_cuda):
        place = keys_CN[:, columns] >> shift
        if first:
            place += begin_C1
        else:
            row, column = ((place >> DIGIT) == prefix_C[:, None]).nonzero(as_tuple=True)
            place = (place[row, column] & (digits - 1)) + begin_C1[row, 0]
        table += torch.bincount(place.reshape(-1), minlength=rows * digits)
    return table.view(rows, digits)
