"""From what Python users hand over to settings in words, as the command line has them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from os import PathLike, fspath
from typing import Any

from paceline.algorithms.base import Algorithm
from paceline.algorithms.named import lend_algorithm
from paceline.config import Tree, checked, merge, to_tree
from paceline.data.own import lend_dataset
from paceline.errors import SettingError
from paceline.learn.models import lend_model
from paceline.reading import shown
from paceline.runs.until import Until
from paceline.system import FleetSettings

Method = str | Algorithm | type[Algorithm] | Callable[[], Algorithm]
"""An algorithm: a name (``"fedbuff"``, ``"fedbuff@buffer=5"``, ``"package.module:Class"``), instance, class, or a
function that returns one."""
FleetLike = str | PathLike[str] | Mapping[str, Any] | FleetSettings


def method_name(method: Method) -> str:
    """The name under which an algorithm runs."""
    return method if isinstance(method, str) else lend_algorithm(method)


def settings_tree(
    settings: Mapping[str, Any] | None, words: Mapping[str, Any], *, data: Any, model: Any, fleet: FleetLike | None
) -> Tree:
    """All of it as one tree: settings by dotted name, then keywords, then the things at hand."""
    tree: Tree = {}
    for name, value in {**(settings or {}), **words}.items():
        tree = merge(tree, _nested(name, value))
    if data is not None:
        _refuse_both(tree, "dataset", "data")
        tree["dataset"] = data if isinstance(data, str) else lend_dataset(data)
    if model is not None:
        _refuse_both(tree, "model", "model")
        tree["model"] = model if isinstance(model, str) else lend_model(model)
    if fleet is not None:
        tree = merge(tree, {"fleet": fleet_tree(fleet)})
    return tree


def fleet_tree(fleet: FleetLike) -> Tree:
    """A fleet's settings from the path of a file, from a mapping, or from settings that were made before."""
    if isinstance(fleet, FleetSettings):
        return dict(to_tree(fleet))
    if isinstance(fleet, Mapping):
        return dict(fleet)
    if not fspath(fleet):
        raise SettingError(
            f"fleet is {shown(fleet)}; wanted the path of a fleet's file, or a mapping of its settings"
        )
    return {"file": fspath(fleet)}


def until_from(until: str | Sequence[str] | Mapping[str, float] | Until | None) -> Until:
    """When to stop, from ``"accuracy=0.9"``, several of these, ``{"accuracy": 0.9}``, or as it is.

    >>> until_from("accuracy=0.9").accuracy
    0.9
    """
    if isinstance(until, Until):
        # Made by hand, where nobody has looked: NaN would never be reached.
        checked(Until(), to_tree(until), "until.")
        return until
    if isinstance(until, Mapping):
        return Until.parse([f"{word}={value}" for word, value in until.items()])
    return Until.parse([until] if isinstance(until, str) else until or ())


def _nested(name: str, value: Any) -> Tree:
    if isinstance(value, FleetSettings):
        value = to_tree(value)
    tree: Any = dict(value) if isinstance(value, Mapping) else value
    for part in reversed(name.split(".")):
        tree = {part: tree}
    return tree if isinstance(tree, dict) else {}


def _refuse_both(tree: Tree, word: str, argument: str) -> None:
    if word in tree:
        raise SettingError(f"{argument}=... and the setting {word!r} both say what is learned; give one of them")
