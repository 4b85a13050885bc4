"""torch's one generator for all: modules initialise themselves from it, and nobody can hand them another."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

import torch

_ONE = threading.RLock()


@contextmanager
def borrowed_generator(seed: int | None = None) -> Iterator[None]:
    """Whoever draws inside draws from this seed, and afterwards the generator is as it was.

    One thread at a time: a second one would take its seed in the middle of the first one's draws, and both would
    begin with other weights than they are due.
    """
    with _ONE, torch.random.fork_rng(devices=[]):
        if seed is not None:
            torch.manual_seed(seed)
        yield
