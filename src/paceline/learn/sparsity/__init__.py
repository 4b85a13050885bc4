"""Sparse models as pure functions over batches of clients: a hundred clients' masks are one tensor.

Models are (C, P) tensors in the order of ``Space.slots``, masks 0/1 tensors of the same shape and dtype. The maths is
that of DA-DPFL (labels DA-... refer to its specification).
"""

from paceline.learn.sparsity.averaging import masked_mean, masked_means
from paceline.learn.sparsity.erk import erk, layer_counts, random_masks
from paceline.learn.sparsity.growth import cosine_fraction, random_growth, rigl
from paceline.learn.sparsity.layout import counts, layer_words, maskable, sparsity
from paceline.learn.sparsity.pruning import (
    Sap,
    agreed,
    detection,
    first_pruning,
    pq_index,
    prune,
    pruning_rounds,
    pruning_times,
    votes,
)
from paceline.learn.sparsity.wire import mask_bytes, sparse_flops, wire_bytes

__all__ = [
    "maskable",
    "layer_words",
    "counts",
    "sparsity",
    "erk",
    "layer_counts",
    "random_masks",
    "masked_mean",
    "masked_means",
    "cosine_fraction",
    "rigl",
    "random_growth",
    "Sap",
    "pq_index",
    "prune",
    "detection",
    "votes",
    "agreed",
    "first_pruning",
    "pruning_times",
    "pruning_rounds",
    "wire_bytes",
    "mask_bytes",
    "sparse_flops",
]
