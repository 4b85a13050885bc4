"""Which of many runs are meant: words that they contain, and settings that they have."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

from paceline.ui.listing import Listed

_WORD = re.compile(r'(?:[^\s"]|"[^"]*"?)+')
_ASKED = re.compile(r"([\w.@-]+)(!=|<=|>=|=|<|>)(.*)", re.DOTALL)
_ORDERS: dict[str, Callable[[float, float], bool]] = {
    "<": lambda one, other: one < other,
    ">": lambda one, other: one > other,
    "<=": lambda one, other: one <= other,
    ">=": lambda one, other: one >= other,
}
SORTS: dict[str, str] = {
    "newest": "newest first",
    "accuracy": "best accuracy first",
    "target": "soonest at its target first",
    "name": "by name",
}


def chosen(runs: Sequence[Listed], asked: str) -> list[Listed]:
    """The runs for which every word of what is asked holds.

    A word is looked for in the name, the algorithm, the status and the settings. ``clients=100``, ``local.lr<0.1``,
    ``status!=done`` ask for a setting or a figure, by the end of its dotted name.
    """
    words = [word.replace('"', "") for word in _WORD.findall(asked[:500])]
    return [run for run in runs if all(_holds(run, word) for word in words)]


def ordered(runs: Sequence[Listed], sort: str) -> list[Listed]:
    """The runs in this order; those without such a figure last."""
    if sort == "accuracy":
        return sorted(runs, key=lambda run: -(run.figures.get("accuracy") or -1.0))
    if sort == "target":
        return sorted(runs, key=lambda run: run.reached if run.reached is not None else float("inf"))
    return sorted(runs, key=lambda run: run.name) if sort == "name" else list(runs)


def _holds(run: Listed, word: str) -> bool:
    asked = _ASKED.fullmatch(word)
    if asked is None:
        return word.lower() in _text(run)
    name, order, wanted = asked.groups()
    values = _values(run, name)
    if order == "!=":
        return all(not _same(value, wanted) for value in values)
    if order == "=":
        return any(_same(value, wanted) for value in values)
    return any(_in_order(value, order, wanted) for value in values)


def _text(run: Listed) -> str:
    settings = " ".join(f"{key}={value}" for key, value in run.settings.items())
    return f"{run.name} {run.algorithm} {run.status} seed={run.seed} {run.problem} {settings}".lower()


def _values(run: Listed, name: str) -> list[str]:
    own = {"status": run.status, "name": run.name, "folder": run.folder}
    figures = {key: str(value) for key, value in run.figures.items() if value is not None}
    known = {**run.settings, **figures, **own}
    return [value for key, value in known.items() if key == name or key.endswith(f".{name}")]


def _same(value: str, wanted: str) -> bool:
    try:
        return float(value) == float(wanted)
    except ValueError:
        return value.lower() == wanted.lower()


def _in_order(value: str, order: str, wanted: str) -> bool:
    try:
        return _ORDERS[order](float(value), float(wanted))
    except ValueError:
        return False
