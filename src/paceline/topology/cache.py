"""Optimal weights on disk, so that a large graph is solved once; a file that is damaged is as good as none."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import tempfile
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from paceline.topology.graphs import Graph

Array = NDArray[np.float64]

FORMAT = 1
"""Changes with the files' format or with the method that makes what they hold."""
SMALLEST = 20
"""Nodes below which a graph is solved in the time it takes to look for it."""


def cache_directory() -> Path:
    """Return the folder that ``PACELINE_CACHE`` names, or ~/.cache/paceline."""
    return Path(os.environ.get("PACELINE_CACHE") or "~/.cache/paceline").expanduser()


def cache_file(graph: Graph, key: tuple[str, ...]) -> Path:
    """Where the weights of this graph are kept."""
    content = json.dumps([FORMAT, key, graph.nodes, graph.edges])
    return cache_directory() / "mixing" / f"{hashlib.sha256(content.encode()).hexdigest()[:32]}.json"


def cached(graph: Graph, key: tuple[str, ...]) -> tuple[Array, float] | None:
    """Weights and bound as they were remembered, or None; the caller checks what they are worth."""
    if graph.nodes < SMALLEST:
        return None
    try:
        held = json.loads(cache_file(graph, key).read_text(encoding="utf-8"))
        weights, bound = np.array(held["weights"], np.float64), float(held["bound"])
    except (OSError, ValueError, KeyError, TypeError, RuntimeError):
        return None
    if weights.shape != (len(graph.edges),) or not np.isfinite(weights).all() or not np.isfinite(bound):
        return None
    return weights, bound


def remember(graph: Graph, key: tuple[str, ...], weights: Array, bound: float) -> None:
    """Keep them; a disk that is full or read-only is no reason to fail."""
    if graph.nodes < SMALLEST:
        return
    # RuntimeError: there is no home directory.
    with contextlib.suppress(OSError, RuntimeError):
        path = cache_file(graph, key)
        path.parent.mkdir(parents=True, exist_ok=True)
        # Written aside and moved, so that nobody ever reads half a file.
        handle, name = tempfile.mkstemp(dir=path.parent, suffix=".part")
        try:
            with os.fdopen(handle, "w", encoding="utf-8") as file:
                json.dump({"weights": weights.tolist(), "bound": bound}, file)
            Path(name).replace(path)
        except OSError:
            Path(name).unlink(missing_ok=True)
