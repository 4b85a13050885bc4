"""The mean of sparse models under one's own mask (DA-6, Eq. 7 of DA-DPFL).

Shapes: C clients, K models to choose from, J models that one client averages, P parameters.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from paceline.learn.sparsity.layout import pieces


def masked_mean(models: Sequence[Tensor], masks: Sequence[Tensor], own_P: Tensor) -> Tensor:
    """(P,): (Σ ω_j⊙m_j ⊘ Σ m_j)⊙m of one client, itself among the J models; where nobody has a weight it is 0.

    Parameters that are never masked have ones in every mask, so theirs is the plain mean. ``own_P`` may be newer than
    the client's mask among ``masks`` (DA-12). Summed in the given order.
    """
    mean_P = torch.empty_like(own_P)
    for columns in pieces(1, 0, own_P.shape[0], cuda=own_P.is_cuda):
        total, count = torch.zeros_like(own_P[columns]), torch.zeros_like(own_P[columns])
        for model, mask in zip(models, masks, strict=True):
            total.addcmul_(model[columns], mask[columns])
            count += mask[columns]
        mean_P[columns] = total.div_(count.clamp_(min=1)).mul_(own_P[columns])
    return mean_P


def masked_means(models_KP: Tensor, masks_KP: Tensor, index_CJ: Tensor, own_CP: Tensor) -> Tensor:
    """(C, P): ``masked_mean`` for C clients at once, with the same bits.

    Client c averages the rows ``index_CJ[c]`` in this order; -1 after the first fills the rows of clients with
    fewer neighbours.
    """
    there_CJ = index_CJ >= 0
    assert bool(there_CJ[:, 0].all()), "a client averages one model at least"
    row_CJ = torch.where(there_CJ, index_CJ, index_CJ[:, :1])  # any row that the client reads anyway
    here_CJ = there_CJ.to(own_CP.dtype)
    mean_CP = torch.empty_like(own_CP)
    for columns in pieces(own_CP.shape[0], 0, own_CP.shape[1], cuda=own_CP.is_cuda):
        own = own_CP[:, columns]
        total, count = torch.zeros_like(own), torch.zeros_like(own)
        for j in range(index_CJ.shape[1]):
            mask = masks_KP[:, columns].index_select(0, row_CJ[:, j]).mul_(here_CJ[:, j, None])
            total.addcmul_(models_KP[:, columns].index_select(0, row_CJ[:, j]), mask)
            count += mask
        mean_CP[:, columns] = total.div_(count.clamp_(min=1)).mul_(own)
    return mean_CP
