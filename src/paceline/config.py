"""Settings are frozen dataclasses, changed by words such as ``fleet.jitter=0.1`` or by TOML files.

A name that is not known is an error, which says the nearest one that is.
"""

from __future__ import annotations

import dataclasses
import json
import math
import tomllib
import types
import typing
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

from paceline.errors import SettingError, nearest
from paceline.references import refuse_untrusted

D = TypeVar("D")
Tree = dict[str, Any]


def parse_override(text: str) -> Tree:
    """``"fleet.jitter=0.1"`` as a nested dictionary; values are read as TOML, else taken as plain text."""
    path, equals, value = text.partition("=")
    if not equals or not path.strip():
        raise SettingError(f"--set {text!r} is not a setting; wanted name=value, such as fleet.times=uniform")
    tree: Any = _value(value.strip())
    for part in reversed(path.strip().split(".")):
        tree = {part: tree}
    return typing.cast(Tree, tree)


def _value(text: str) -> Any:
    if text.lower() == "none":
        return None
    try:
        return tomllib.loads(f"value = {text}")["value"]
    except tomllib.TOMLDecodeError:
        return text


def read_settings(path: Path, names: Sequence[str], *, trust: bool = True) -> Tree:
    """A TOML file of settings; or what a run of one of these algorithms was made of, from its directory or the
    settings.json in it. Code that a run's settings name is only taken over with ``trust``."""
    path = path / "settings.json" if path.is_dir() else path
    try:
        text = path.read_text(encoding="utf-8")
        if path.suffix != ".json":
            return tomllib.loads(text)
        found = _of_a_run(json.loads(text), path, names)
    except FileNotFoundError:
        raise SettingError(f"no settings file at {path}") from None
    except tomllib.TOMLDecodeError as problem:
        raise SettingError(f"{path} is not valid TOML: {problem}") from None
    except (json.JSONDecodeError, RecursionError) as problem:
        raise SettingError(f"{path} is not valid JSON: {problem}") from None
    except (OSError, UnicodeDecodeError) as problem:
        raise SettingError(f"{path} cannot be read as a settings file: {problem}") from None
    if not trust:
        refuse_untrusted(found, str(path))
    return found


def read_json(path: Path) -> Tree:
    """A JSON file that holds one object."""
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, json.JSONDecodeError, RecursionError) as problem:
        raise SettingError(f"{path} cannot be read as JSON: {problem}") from None
    if not isinstance(found, dict):
        raise SettingError(f"{path} must hold a JSON object; it holds a {type(found).__name__}")
    return found


def _of_a_run(kept: Any, path: Path, names: Sequence[str]) -> Tree:
    """What a run was made of, as settings: its algorithm's options go under its name, and versions are left out."""
    if not (isinstance(kept, dict) and isinstance(kept.get("options"), dict) and "algorithm" in kept):
        raise SettingError(f"{path} is not the settings.json of a run; give one, a run's directory, or a TOML file")
    name = str(kept["algorithm"])
    if name not in [asked.partition("@")[0] for asked in names]:
        raise SettingError(
            f"{path} holds a run of {name}, not of {' or '.join(names)}; name {name}, or give settings with --set"
        )
    rest = {key: value for key, value in kept.items() if key not in ("algorithm", "options", "versions")}
    return {**rest, "algorithm" if ":" in name else name: kept["options"]}


def merge(base: Tree, over: Tree) -> Tree:
    """One tree with the entries of both; where both have an entry, that of ``over`` is taken."""
    out = dict(base)
    for key, value in over.items():
        both = isinstance(value, dict) and isinstance(out.get(key), dict)
        out[key] = merge(out[key], value) if both else value
    return out


def apply(settings: D, tree: Mapping[str, Any], where: str = "") -> D:
    """A copy of a settings dataclass with these changes; types are checked, unknown names refused."""
    assert dataclasses.is_dataclass(settings) and not isinstance(settings, type)
    kinds = typing.get_type_hints(type(settings))
    names = {f.name for f in dataclasses.fields(settings) if f.init}
    changes: dict[str, Any] = {}
    for pair in getattr(settings, "ALTERNATIVES", ()):  # to give one of two takes back the default of the other
        if len(given := [name for name in pair if name in tree]) == 1:
            changes |= {name: None for name in pair if name not in given}
    for key, value in tree.items():
        if key not in names:
            raise SettingError(f"unknown setting {where + key!r}; {nearest(key, names, where)}")
        current = getattr(settings, key)
        if dataclasses.is_dataclass(current) and not isinstance(current, type):
            if not isinstance(value, Mapping):
                raise SettingError(f"{where + key} is a group of settings; give {where}{key}.NAME=VALUE")
            changes[key] = apply(current, value, f"{where}{key}.")
        else:
            changes[key] = convert(value, kinds[key], where + key)
    return typing.cast(D, dataclasses.replace(typing.cast(Any, settings), **changes))


def convert(value: Any, kind: Any, name: str) -> Any:
    """The value as this type, or an error that says what came and what was wanted."""
    origin, options = typing.get_origin(kind), typing.get_args(kind)
    if origin in (types.UnionType, typing.Union):
        return None if value is None else convert(value, next(k for k in options if k is not type(None)), name)
    if value is None and (kind is str or origin is typing.Literal):
        value = "none"  # the word, where nothing cannot be meant
    if origin is typing.Literal:
        if any(value == option and type(value) is type(option) for option in options):
            return value
        raise SettingError(f"{name} is {value!r}; {nearest(str(value), map(str, options))}")
    if kind is float and isinstance(value, int) and not isinstance(value, bool):
        return float(value)
    if kind is int and isinstance(value, float) and value.is_integer():
        return int(value)
    if kind is str and not isinstance(value, str):
        return str(value)
    if isinstance(value, kind) and not (kind is int and isinstance(value, bool)):
        return value
    raise SettingError(f"{name} is {value!r}; wanted {_words(kind)}")


def _words(kind: Any) -> str:
    names = {int: "a whole number", float: "a number", bool: "true or false", str: "text"}
    return names.get(kind, getattr(kind, "__name__", str(kind)))


def to_tree(settings: Any) -> Any:
    """A settings dataclass as plain dictionaries, for JSON."""
    if dataclasses.is_dataclass(settings) and not isinstance(settings, type):
        return {f.name: to_tree(getattr(settings, f.name)) for f in dataclasses.fields(settings) if f.init}
    return settings


# -- bounds of numbers ----------------------------------------------------------------------------------------------


class Bounds(NamedTuple):
    """Between which numbers a setting must lie; a bound that is None does not bind."""

    least: float | None = None
    above: float | None = None
    most: float | None = None
    below: float | None = None
    none: str = ""
    """What ``none`` means, where the setting may be none: "for all", say."""

    def hold(self, value: float) -> bool:
        """Whether a number lies within; one that is not a number never does."""
        low = (self.least is None or value >= self.least) and (self.above is None or value > self.above)
        return low and (self.most is None or value <= self.most) and (self.below is None or value < self.below)

    @property
    def words(self) -> str:
        """What is wanted: "1 or more", "above 0 and at most 1", "2 to 16"."""
        text = self._range()
        return f"{text}, or none {self.none}" if self.none else text

    def _range(self) -> str:
        least, above, most, below = map(_shown, (self.least, self.above, self.most, self.below))
        if least and most:
            return f"{least} to {most}"
        if above and not (most or below):
            return f"a number greater than {above}"
        low = f"{least} or more" if least else f"above {above}" if above else ""
        high = f"at most {most}" if most else f"below {below}" if below else ""
        return (", and " if least else " and ").join(part for part in (low, high) if part)


def bounded(
    default: float | None,
    *,
    least: float | None = None,
    above: float | None = None,
    most: float | None = None,
    below: float | None = None,
    none: str = "",
) -> Any:
    """A dataclass field for a number with these bounds, which ``check_bounds`` reads.

    >>> from dataclasses import dataclass
    >>> @dataclass(frozen=True)
    ... class Mine:
    ...     rounds: int = bounded(100, least=1)
    >>> check_bounds(Mine(rounds=0))
    Traceback (most recent call last):
    paceline.errors.SettingError: rounds is 0; it must be 1 or more
    """
    return dataclasses.field(default=default, metadata={"bounds": Bounds(least, above, most, below, none)})


def check_bounds(settings: Any, where: str = "") -> None:
    """Refuse a number that its field does not allow, here or in a group of settings inside; see ``bounded``.

    A setting that is none is no number, and never refused here. ``where`` goes before the name in the message.
    """
    for each in dataclasses.fields(settings):
        value, bounds = getattr(settings, each.name), each.metadata.get("bounds")
        if dataclasses.is_dataclass(value) and not isinstance(value, type):
            check_bounds(value, f"{where}{each.name}.")
        elif bounds is not None and value is not None and not bounds.hold(value):
            raise SettingError(f"{where}{each.name} is {value}; it must be {bounds.words}")


def _shown(bound: float | None) -> str:
    """A bound as it is written; that a number must be finite goes without saying."""
    return "" if bound is None or math.isinf(bound) else f"{bound:g}"
