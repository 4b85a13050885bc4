"""The paper that figures are drawn on: column widths, type of 8 points, fonts inside the file."""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from paceline.errors import SettingError

WIDTHS = {"column": 3.5, "text": 7.16}
"""Inches of a column and of the whole text on the pages of most proceedings."""
NARROWEST, WIDEST = 1.5, 20.0
FORMATS = (".pdf", ".svg", ".png")
INK, SOFT, RULE = "#1c2430", "#5d6878", "#dfe4ea"
"""Of text, of what stands behind, and of grids, as on the page."""
FAIL = "#c3362b"
STYLE: Any = {
    "font.family": "DejaVu Sans",  # comes with matplotlib: the same letters on every machine
    "font.size": 8,
    "axes.labelsize": 8,
    "axes.titlesize": 8,
    "xtick.labelsize": 8,
    "ytick.labelsize": 8,
    "legend.fontsize": 8,
    "figure.titlesize": 8,
    "lines.linewidth": 1.2,
    "lines.dash_joinstyle": "round",
    "axes.linewidth": 0.6,
    "axes.edgecolor": SOFT,
    "axes.labelcolor": INK,
    "text.color": INK,
    "xtick.color": SOFT,
    "ytick.color": SOFT,
    "xtick.labelcolor": INK,
    "ytick.labelcolor": INK,
    "xtick.major.width": 0.6,
    "ytick.major.width": 0.6,
    "xtick.major.size": 2.5,
    "ytick.major.size": 2.5,
    "xtick.minor.size": 1.5,
    "ytick.minor.size": 1.5,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "axes.axisbelow": True,
    "grid.color": RULE,
    "grid.linewidth": 0.5,
    "hatch.linewidth": 0.4,
    "legend.frameon": False,
    "legend.handlelength": 1.8,
    "figure.dpi": 150,
    "savefig.dpi": 300,
    "pdf.fonttype": 42,  # TrueType, embedded: what publishers ask for
    "svg.fonttype": "path",  # letters as outlines: no reader lacks a font
    "svg.hashsalt": "paceline",
    "text.parse_math": False,  # names are text, whatever signs are in them
    "text.usetex": False,
}


@dataclass(frozen=True, kw_only=True)
class Options:
    """What may be said of a figure; each kind takes what it needs."""

    width: float = WIDTHS["column"]
    """Inches."""
    log: str = ""
    """The axes that are logarithmic: x, y or xy."""
    targets: tuple[float, ...] = ()
    """Accuracies to which the time is measured; by default the runs' target and two below it."""
    over: str = "time"
    """What accuracy is drawn over: time, round, bytes or joules."""
    cost: str = "bytes"
    """What stands against time in a Pareto figure: bytes or joules."""
    window: tuple[float, float] | None = None
    """The stretch of virtual time of a Gantt chart; by default the first rounds."""
    sites: int | None = None
    """How many devices each Gantt chart shows; by default fewer where there are several charts."""


def parse_width(text: str) -> float:
    """Inches: of a column, of the text, or as many as are said.

    >>> parse_width("column"), parse_width("5.5")
    (3.5, 5.5)
    """
    if text in WIDTHS:
        return WIDTHS[text]
    try:
        inches = float(text)
    except ValueError:
        inches = math.nan
    if not NARROWEST <= inches <= WIDEST:
        raise SettingError(
            f"--width {text}: wanted column ({WIDTHS['column']} in), text ({WIDTHS['text']} in), or inches from"
            f" {NARROWEST} to {WIDEST:g}"
        )
    return inches


@contextmanager
def drawing() -> Iterator[None]:
    """Inside of it everything is drawn and saved in this style, and outside nothing has changed."""
    from matplotlib import rc_context

    with rc_context(STYLE):
        yield


def check_out(out: Path, endings: tuple[str, ...]) -> None:
    """Refuse a file that could not be written, before anything is drawn."""
    if out.suffix.lower() not in endings:
        raise SettingError(f"--out {out}: wanted a name that ends in {', '.join(endings)}")
    try:
        out.parent.mkdir(parents=True, exist_ok=True)
        made = not out.exists()
        with out.open("ab"):
            pass
        if made:
            out.unlink()
    except OSError as problem:
        raise SettingError(f"--out {out} cannot be written: {problem.strerror}") from None


def save(figure: Any, out: Path) -> Path:
    """Write a figure in the format that its name ends in; undated, so that the same runs give the same file."""
    dated = {".pdf": {"CreationDate": None}, ".svg": {"Date": None}, ".png": {}}
    figure.savefig(out, metadata=dated[out.suffix.lower()])
    return out
