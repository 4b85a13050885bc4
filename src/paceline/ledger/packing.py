"""Tensors as few bytes that give the same bits back: masks as bits, sparse models without zeros, the rest as is."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
import torch
from torch import Tensor

Form = Literal["dense", "bits", "sparse"]
LOOKED_AT = 4096
"""Entries of a tensor that are looked at before all of them are."""
WORTH = 0.25
"""Share of zeros from which leaving them out pays."""
_WHOLE = {torch.float32: torch.int32, torch.float64: torch.int64}
_ONE = {dtype: int(torch.ones((), dtype=dtype).view(whole)) for dtype, whole in _WHOLE.items()}


@dataclass(frozen=True, slots=True)
class Packed:
    """A tensor in one of three forms."""

    form: Form
    shape: tuple[int, ...]
    dtype: str
    parts: tuple[Tensor, ...]
    """The tensor; or the bits of where it is not zero; or these, the signs of the zeros, and what is not zero."""


def pack(value: Tensor) -> Packed:
    """A tensor, on the CPU, in the smallest form that gives back its bits, the signs of its zeros too."""
    flat = value.detach().cpu().contiguous().flatten()
    dtype = str(value.dtype).removeprefix("torch.")
    form = _form(flat)
    if form == "dense":
        return Packed(form, tuple(value.shape), dtype, (flat.clone() if _is_view(flat) else flat,))
    there = flat != 0
    parts = (_bits(there),) if form == "bits" else (_bits(there), _bits(torch.signbit(flat[~there])), flat[there])
    return Packed(form, tuple(value.shape), dtype, parts)


def unpack(packed: Packed) -> Tensor:
    """Make the tensor again from its packed parts."""
    if packed.form == "dense":
        return packed.parts[0].reshape(packed.shape)
    dtype = getattr(torch, packed.dtype, None)
    size = int(np.prod(packed.shape))
    if dtype not in _WHOLE or packed.parts[0].numel() != -(-size // 8):
        raise ValueError(f"a packed tensor does not fit its shape {packed.shape} and type {packed.dtype}")
    there = _from_bits(packed.parts[0], size)
    flat = torch.zeros(size, dtype=dtype)
    if packed.form == "bits":
        flat[there] = 1.0
    else:
        _, signs, values = packed.parts
        flat[there] = values
        flat[~there] = torch.where(_from_bits(signs, size - len(values)), -0.0, 0.0).to(dtype)
    return flat.reshape(packed.shape)


def _bits(flags: Tensor) -> Tensor:
    return torch.from_numpy(np.packbits(flags.numpy()))


def _from_bits(bits: Tensor, size: int) -> Tensor:
    return torch.from_numpy(np.unpackbits(bits.numpy(), count=size).astype(bool))


def _form(flat: Tensor) -> Form:
    if flat.dtype not in _WHOLE or not flat.numel():
        return "dense"
    whole, one = flat.view(_WHOLE[flat.dtype]), _ONE[flat.dtype]
    some = whole[:: max(1, len(whole) // LOOKED_AT)]
    if bool(((some == 0) | (some == one)).all()) and bool(((whole == 0) | (whole == one)).all()):
        return "bits"
    return "sparse" if float((flat[:: max(1, len(flat) // LOOKED_AT)] == 0).float().mean()) > WORTH else "dense"


def _is_view(flat: Tensor) -> bool:
    """Whether it is a part of something larger, which would be written along with it."""
    return flat.untyped_storage().nbytes() != flat.numel() * flat.element_size()
