"""A picture of a partition: how much each client has, and of what."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from paceline.data.shares import Partition

_ORDER_ABOVE = 60
"""With more clients than this, single bars cannot be told apart, and like stands beside like instead."""


def draw_partition(partition: Partition, labels: NDArray[Any], classes: int, path: Path, title: str) -> None:
    """Draw client sizes above and class shares below; the format follows the file name (.png, .svg, .pdf)."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    counts = partition.label_counts(labels, classes)
    order = _order(counts)
    counts = counts[order]
    figure = Figure(figsize=(10, 5.2), dpi=150, layout="constrained")
    FigureCanvasAgg(figure)
    upper, lower = figure.subplots(2, 1, sharex=True, height_ratios=(1, 2.6))
    _draw_sizes(upper, counts.sum(axis=1))
    _draw_shares(figure, lower, counts)
    figure.suptitle(title, x=0.01, ha="left", fontsize=13, fontweight="bold")
    upper.set_title(str(partition.skew(labels, classes)), loc="left", fontsize=9, color="0.35")
    if len(counts) > _ORDER_ABOVE:
        lower.set_xlabel(f"{len(counts)} clients, ordered by their two most frequent classes")
        lower.set_xticks([])  # a place in this order is no client's number
    else:
        lower.set_xlabel("client")
    figure.align_ylabels()
    figure.savefig(path)


def _order(counts: NDArray[np.int64]) -> NDArray[np.int64]:
    if len(counts) <= _ORDER_ABOVE:
        return np.arange(len(counts))
    ranked = np.argsort(-counts, axis=1, kind="stable")[:, :2]
    share = counts.max(axis=1) / np.maximum(counts.sum(axis=1), 1)
    return np.lexsort((-share, ranked[:, -1], ranked[:, 0]))


def _draw_sizes(axes: Any, sizes: NDArray[np.int64]) -> None:
    edges = np.arange(len(sizes) + 1) - 0.5
    wild = sizes.max() > 20 * max(np.median(sizes), 1)  # a few giants would flatten all others
    axes.stairs(sizes, edges, baseline=0.5 if wild else 0, fill=True, color="0.55", linewidth=0)
    axes.axhline(sizes.mean(), color="0.15", linewidth=0.8, linestyle=(0, (4, 3)))
    axes.set_ylabel("samples (log)" if wild else "samples")
    axes.set_yscale("log" if wild else "linear")
    axes.set_ylim(max(sizes.min(), 1) * 0.6 if wild else 0, sizes.max() * (1.5 if wild else 1.08))
    _plain(axes)


def _draw_shares(figure: Any, axes: Any, counts: NDArray[np.int64]) -> None:
    """Stack one step curve per class; a bar per client and class would be a hundred thousand of them."""
    clients, classes = counts.shape
    top = np.cumsum(counts, axis=1) / np.maximum(counts.sum(axis=1, keepdims=True), 1)
    edges = np.arange(clients + 1) - 0.5
    colours = _colours(classes)
    base = np.zeros(clients)
    for c in range(classes):
        axes.stairs(top[:, c], edges, baseline=base, fill=True, color=colours[c], linewidth=0, label=str(c))
        base = top[:, c]
    if clients <= _ORDER_ABOVE:
        axes.vlines(edges[1:-1], 0, 1, color="white", linewidth=1)
    axes.set(xlim=(edges[0], edges[-1]), ylim=(0, 1), ylabel="share of classes")
    _plain(axes)
    _legend(figure, axes, colours)


def _colours(classes: int) -> NDArray[np.float64]:
    from matplotlib import colormaps

    if classes <= 20:
        table = colormaps["tab10" if classes <= 10 else "tab20"]
        return np.array([table(c) for c in range(classes)])
    return np.array([colormaps["turbo"](c / (classes - 1)) for c in range(classes)])


def _legend(figure: Any, axes: Any, colours: NDArray[np.float64]) -> None:
    from matplotlib.cm import ScalarMappable
    from matplotlib.colors import BoundaryNorm, ListedColormap
    from matplotlib.ticker import MaxNLocator

    classes = len(colours)
    norm = BoundaryNorm(np.arange(classes + 1) - 0.5, classes)
    scale = ScalarMappable(norm, ListedColormap(colours))
    bar = figure.colorbar(scale, ax=axes, pad=0.01, aspect=24, drawedges=classes <= 20)
    bar.set_label("class")
    bar.set_ticks(range(classes) if classes <= 20 else MaxNLocator(10, integer=True).tick_values(0, classes - 1))
    bar.ax.set_ylim(-0.5, classes - 0.5)
    bar.minorticks_off()
    bar.outline.set_visible(False)
    bar.dividers.set(color="white", linewidth=1)


def _plain(axes: Any) -> None:
    from matplotlib.ticker import MaxNLocator

    axes.spines[["top", "right"]].set_visible(False)
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    axes.margins(x=0)
