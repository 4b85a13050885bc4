"""Updates that are clipped and hidden in noise, one row a client: the same bits whoever shares the matrix.

Sums are taken by halving, element by element, because the order in which a library reduces a row may depend on how
many rows there are, on threads and on the device.
"""

from __future__ import annotations

import torch
from torch import Tensor

from paceline.learn.hashing import fine_uniform, mix

PIECE = 1 << 15
"""Coordinates that are added up together; fixed, for the order of a sum follows from it."""
DRAWN, DRAWN_CUDA = 1 << 16, 1 << 24
"""Most numbers that are drawn together: as many as stay in a cache, or fill a GPU."""


def protected(start_RP: Tensor, trained_RP: Tensor, *key_R1: Tensor, clip: float, deviation: float) -> Tensor:
    """Each row's start with its update, clipped to a length of ``clip``, and Gaussian noise drawn at its key.

    An update that is no longer than that is left as it is, to the bit. One that is not finite has no length, and NaN
    with noise is NaN: it counts as no update. Without noise no key is needed.
    """
    update_RP = trained_RP - start_RP
    length_R1 = lengths(update_RP)[:, None]
    factor_R1 = (clip / length_R1).to(trained_RP.dtype)
    shortened_RP = torch.where(length_R1.isfinite(), start_RP + update_RP * factor_R1, start_RP)
    found_RP = torch.where(length_R1 <= clip, trained_RP, shortened_RP)
    if deviation:
        columns = max(1, (DRAWN_CUDA if found_RP.is_cuda else DRAWN) // len(found_RP))
        for at in range(0, found_RP.shape[1], columns):
            piece_RC = found_RP[:, at : at + columns]
            piece_RC += (deviation * normal(key_R1[0], at, at + piece_RC.shape[1])).to(piece_RC.dtype)
    return found_RP


def lengths(x_RP: Tensor) -> Tensor:
    """(R,) the Euclidean length of every row, in double precision."""
    squares_R = torch.zeros(len(x_RP), dtype=torch.float64, device=x_RP.device)
    for at in range(0, x_RP.shape[1], PIECE):
        squares_R += _sums(x_RP[:, at : at + PIECE].double().square())
    return squares_R.sqrt_()


def normal(key_R1: Tensor, first: int, last: int) -> Tensor:
    """(R, last - first) standard normal numbers at the places from ``first`` on of the stream of each row's key."""
    place_C = torch.arange(first, last, device=key_R1.device)
    found: Tensor = torch.special.ndtri(fine_uniform(mix(key_R1, place_C)))
    return found


def _sums(x_RC: Tensor) -> Tensor:
    """The sum of every row; what is given is overwritten."""
    width = x_RC.shape[1]
    while width > 1:
        half = (width + 1) // 2
        x_RC[:, : width - half] += x_RC[:, half:width]
        width = half
    return x_RC[:, 0]
