"""Choosing weights of each layer by rank: the smallest, the largest gradients, or any at random.

Shapes: C clients, P parameters of a model, L masked layers, N weights of one layer. Weights become non-negative
integer keys, of which the smallest are chosen; the largest of their dtype is never chosen. How many goes by client
and layer. As in ``layout``, row k of every result is a function of row k alone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import torch
from torch import Tensor

from paceline.learn.hashing import mix
from paceline.learn.space import Slot
from paceline.learn.sparsity.bisecting import smallest_of_layers
from paceline.learn.sparsity.layout import pieces

DIGIT = 11
"""Bits found in one pass of ``smallest``: the histograms of 100 clients stay in a cache."""
Keys = Callable[[slice], Tensor]
"""Columns of the flat models to keys of these, (C, n)."""


def least(values_CP: Tensor, masks_CP: Tensor, slots: Sequence[Slot], count_CL: Tensor) -> Iterator[Tensor]:
    """Layer by layer (C, N) bool: the ``count_CL`` active weights of least |value|."""
    return _chosen(lambda columns: _bits(values_CP[:, columns]), masks_CP, slots, count_CL, barred=0)


def greatest(values_CP: Tensor, masks_CP: Tensor, slots: Sequence[Slot], count_CL: Tensor) -> Iterator[Tensor]:
    """Layer by layer (C, N) bool: the ``count_CL`` inactive weights of greatest |value|."""
    top = torch.iinfo(_integers(values_CP)).max - 1
    return _chosen(lambda columns: top - _bits(values_CP[:, columns]), masks_CP, slots, count_CL, barred=1)


def anywhere(key_C: Tensor, masks_CP: Tensor, slots: Sequence[Slot], count_CL: Tensor) -> Iterator[Tensor]:
    """Layer by layer (C, N) bool: ``count_CL`` inactive weights, drawn at (key, place in the flat vector)."""
    dtype = _integers(masks_CP)

    def drawn(columns: slice) -> Tensor:
        place_N = torch.arange(columns.start, columns.stop, device=key_C.device)
        # 31 bits are enough: two of a million weights that draw the same number are a tie, broken as any other.
        return (mix(key_C[:, None], place_N) & (2**31 - 1)).to(dtype).clamp_(max=torch.iinfo(dtype).max - 1)

    return _chosen(drawn, masks_CP, slots, count_CL, barred=1)


def _chosen(
    keys: Keys, masks_CP: Tensor, slots: Sequence[Slot], count_CL: Tensor, *, barred: int
) -> Iterator[Tensor]:
    if masks_CP.is_cuda:  # one pass over whole models: launches cost more than the few weights between layers
        yield from smallest_of_layers(_barred(keys, masks_CP, 0, masks_CP.shape[1], barred), slots, count_CL)
    else:
        for slot, count_C in zip(slots, count_CL.unbind(dim=1), strict=True):
            yield smallest(_barred(keys, masks_CP, slot.start, slot.stop, barred), count_C)


def _barred(keys: Keys, masks_CP: Tensor, start: int, stop: int, barred: int) -> Tensor:
    """(C, N) keys of these columns; weights whose mask is ``barred`` are never chosen."""
    dtype = _integers(masks_CP)
    largest = torch.iinfo(dtype).max
    rows = masks_CP.shape[0]
    keys_CN = torch.empty(rows, stop - start, dtype=dtype, device=masks_CP.device)
    for columns in pieces(rows, start, stop, cuda=masks_CP.is_cuda):
        # Arithmetic instead of masked_fill, which is six times as slow: all bits are set where it is barred.
        active = masks_CP[:, columns].to(dtype)
        never = (active.neg_() if barred else active.sub_(1)).bitwise_and_(largest)
        keys_CN[:, columns.start - start : columns.stop - start] = never.bitwise_or_(keys(columns))
    return keys_CN


def _integers(like: Tensor) -> torch.dtype:
    return torch.int64 if like.dtype is torch.float64 else torch.int32


def _bits(values: Tensor) -> Tensor:
    # The bits of non-negative floats are ordered as the floats are; NaN comes last.
    dtype = _integers(values)
    return values.abs().view(dtype).clamp_(max=torch.iinfo(dtype).max - 1)


# -- on a CPU: layer by layer, by histograms ------------------------------------------------------------------------


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
