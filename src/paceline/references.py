"""Things of your own by name: ``package.module:name``, or what an installed package announces.

A package announces things as entry points, in the groups ``paceline.algorithms``, ``paceline.datasets`` and
``paceline.fleets``. Nothing is imported before somebody asks for it by name.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Mapping
from functools import cache
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path
from types import ModuleType
from typing import Any

from paceline.errors import PacelineError, SettingError, nearest
from paceline.reading import shown

LENT: dict[str, dict[str, Any]] = {"algorithm": {}, "dataset": {}, "model": {}}
"""Objects that a program handed over, by name, for each setting that can name code."""


def is_reference(text: str) -> bool:
    """Whether a text has the form ``package.module:name``.

    >>> is_reference("mypackage.nets:make"), is_reference("mlp:200")
    (True, False)
    """
    place, colon, attribute = text.partition(":")
    return bool(colon) and all(part.isidentifier() for part in (*place.split("."), attribute))


def load_reference(reference: str, what: str, error: type[PacelineError] = SettingError) -> Any:
    """The thing that ``package.module:name`` names; ``what`` it is wanted as is told when it is not there.

    The current directory is searched too, so that ``make`` in a file ``mynet.py`` beside the user is ``mynet:make``.
    """
    place, _, attribute = reference.partition(":")
    # Only what ``refuse_untrusted`` knows for one: a file may be called my-net.py, and be imported all the same.
    if not is_reference(reference):
        raise error(f"{reference!r} names no {what}; write 'package.module:name'")
    module = _import(place, reference, error)
    if not hasattr(module, attribute):
        offered = [name for name, value in vars(module).items() if callable(value) and name[0] != "_"]
        raise error(f"{reference!r}: {place} has no {attribute!r}; {nearest(attribute, offered)}")
    return getattr(module, attribute)


@cache
def announced(group: str) -> Mapping[str, EntryPoint]:
    """What installed packages announce in a group, by name."""
    return {entry.name: entry for entry in entry_points(group=f"paceline.{group}")}


def load_announced(entry: EntryPoint, error: type[PacelineError] = SettingError) -> Any:
    """What an entry point stands for."""
    try:
        return entry.load()
    except Exception as problem:  # another package's code may fail in any way; say whose it was
        raise error(
            f"{entry.name!r} is announced as {entry.value}, which cannot be loaded:"
            f" {type(problem).__name__}: {problem}"
        ) from problem


def refuse_untrusted(words: Mapping[str, Any], where: str) -> None:
    """Refuse parsed settings from elsewhere that name code to import. SECURITY.md lists the rules."""
    code = [name for setting in LENT for name in code_named(setting, words.get(setting)) if name not in LENT[setting]]
    executor = words.get("executor")
    if isinstance(executor, Mapping) and executor.get("cluster", "auto") not in (None, "auto"):
        code.append(f"that of the Ray cluster {shown(executor['cluster'])}, which answers with objects of its own")
    if code:
        raise SettingError(
            f"the settings in {where} name code that would be imported and run: {', '.join(code)}; if you trust it,"
            " say --trust (trust=True from Python)"
        )


def code_named(setting: str, value: object) -> list[str]:
    """Return the references to code in the value of a setting: one, or several models joined by ``+``.

    >>> code_named("model", "mlp:200+mine:net"), code_named("fleet", "mine:net")
    (['mine:net'], [])
    """
    parts = value.split("+") if isinstance(value, str) and setting in LENT else ()
    return [part for part in parts if is_reference(part)]


def _import(place: str, reference: str, error: type[PacelineError]) -> ModuleType:
    here = str(Path.cwd())
    if here not in sys.path:
        sys.path.append(here)  # last, so that it can never hide an installed package
    # A file written since the last import (a notebook, a test) must be found.
    importlib.invalidate_caches()
    try:
        return importlib.import_module(place)
    except Exception as problem:  # the user's module may fail in any way; say which module it was
        raise error(
            f"{reference!r}: cannot import {place}: {type(problem).__name__}: {problem}; "
            "is it installed, or in the current directory?"
        ) from problem
