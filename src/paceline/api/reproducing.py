"""A paper's table or figure, computed anew from Python."""

from __future__ import annotations

from os import PathLike
from pathlib import Path

from paceline.papers import registry
from paceline.papers.result import Reproduction


def reproduce(
    name: str,
    *,
    scale: str | None = None,
    seeds: int = 5,
    data: str | None = None,
    out: str | PathLike[str] | None = None,
    quiet: bool = True,
) -> Reproduction:
    """One of those that `paceline reproduce` lists; its rows have the paper's number, ours, and whether they agree.

    >>> reproduce("pfedavg-p").rows[0].name
    'complete: p, Metropolis weights'
    """
    folder = None if out is None else Path(out)
    return registry.reproduce(name, scale=scale, seeds=seeds, out=folder, quiet=quiet, data=data)
