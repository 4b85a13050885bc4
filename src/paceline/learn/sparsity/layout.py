"""Where masked weights lie in flat models, and what is done with them row by row: counting and summing.

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
from paceline.learn.space import Slot, Space

LANES = 1 << 15
"""Partial sums of one row; a part of the definition of a sum here, so it never depends on the machine."""
PIECE_CPU, PIECE_CUDA = 1 << 20, 1 << 26
"""Numbers that are looked at together: what a cache holds, or what keeps a GPU busy. Changes no result."""
WHOLE = 1 << 24
"""Up to here float32 counts without error, in any order."""


def maskable(space: Space, leave_out: Sequence[str] = ()) -> tuple[Slot, ...]:
    """The weights of convolutions and linear layers, in the order of the flat vector.

    A layer whose name contains one of the words of ``leave_out`` is never masked (DA-DPFL's code leaves out
    ``shortcut``, DA-E11); a word that no layer's name contains is refused.
    """
    kinds = (nn.Linear, _ConvNd)
    modules = space.module.named_modules()
    names = {f"{name}.weight".removeprefix(".") for name, module in modules if isinstance(module, kinds)}
    if unknown := [word for word in leave_out if not any(word in name for name in names)]:
        raise SettingError(
            f"no layer of {space.name} has {' or '.join(map(repr, unknown))} in its name, so it cannot stay dense; "
            f"wanted a part of a name among {', '.join(sorted(name.removesuffix('.weight') for name in names))}"
        )
    slots = tuple(s for s in space.slots if s.name in names and not any(word in s.name for word in leave_out))
    if not slots:
        raise SettingError(
            f"{space.name} has no layer to make sparse (leaving out {', '.join(leave_out) or 'none'}); "
            "want a convolution or a linear layer: use another model, or leave out less"
        )
    return slots


def layer_words(text: str) -> tuple[str, ...]:
    """The words of a setting that says which layers stay dense: ``none``, or parts of names joined by ``+``.

    >>> layer_words("none"), layer_words("shortcut"), layer_words("shortcut+fc")
    ((), ('shortcut',), ('shortcut', 'fc'))
    """
    if text == "none":
        return ()
    words = tuple(word.strip() for word in text.split("+"))
    if not all(words):
        raise SettingError(
            f"dense is {text!r}; wanted none, or parts of layers' names joined by +, as in shortcut+fc"
        )
    return words


def sizes(slots: Sequence[Slot]) -> list[int]:
    """Return how many weights each layer has."""
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


def row_sums(piece: Callable[[slice], Tensor], like_CP: Tensor, start: int, stop: int) -> Tensor:
    """(C,) float64: each row's sum of ``piece(columns)``, (C, n) float64 tensors, over columns start to stop.

    Only elementwise additions in a fixed order: column i goes to lane i mod ``LANES``, then lanes are folded in half
    (lanes beyond the last column are 0). How many columns are looked at together changes nothing.
    """
    rows = like_CP.shape[0]
    width = min(LANES, 1 << max(0, stop - start - 1).bit_length())
    lanes_CN = torch.zeros(rows, width, dtype=torch.float64, device=like_CP.device)
    for columns in pieces(rows, start, stop, cuda=like_CP.is_cuda, multiple=LANES):
        for more_CN in torch.split(piece(columns), LANES, dim=1):
            lanes_CN[:, : more_CN.shape[1]] += more_CN
    while (width := width // 2) > 0:
        lanes_CN = lanes_CN[:, :width].add_(lanes_CN[:, width:])
    return lanes_CN[:, 0].clone()


def pieces(rows: int, start: int, stop: int, *, cuda: bool, multiple: int = 1) -> Iterator[slice]:
    """Columns start to stop in parts of which ``rows`` rows are looked at together."""
    width = max(1, (PIECE_CUDA if cuda else PIECE_CPU) // max(rows, 1) // multiple) * multiple
    for at in range(start, stop, width):
        yield slice(at, min(at + width, stop))
