"""Learning that is not done again, while a schedule is replayed: placeholders for values, results as they were."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import torch

from paceline.learn.graph import Model
from paceline.learn.promises import Promise

PLACEHOLDER = torch.empty(0)
"""In the place of a value that nobody will read before it is given back."""


def pretend(models: Iterable[Model], promises: Sequence[Promise[Any]], results: Sequence[Any]) -> None:
    """Settle what an executor would have computed: values by placeholders, promises by their results.

    A promise whose result is None had none: its run failed before.
    """
    stack = [model for model in models if model.value is None]
    stack += [model for promise in promises for model in promise.models if model.value is None]
    while stack:
        model = stack.pop()
        if model.value is None:
            stack += [parent for parent in model.parents if parent.value is None]
            model.settle(PLACEHOLDER)
            model.figure = PLACEHOLDER
    for promise, result in zip(promises, results, strict=True):
        if result is not None:
            promise.settle(result)
