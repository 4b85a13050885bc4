"""Settings are frozen dataclasses, changed by words such as ``fleet.jitter=0.1`` or by TOML files.

A name that is not known is an error, which says the nearest one that is. Every number is within bounds: those that
its field declares (``bounds.bounded``), or those of any number, which must be finite.
"""

from __future__ import annotations

import dataclasses
import json
import math
import re
import tomllib
import types
import typing
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

from paceline.bounds import WHOLE, bounds_of
from paceline.errors import PacelineError, SettingError, nearest
from paceline.reading import parse_json, parse_object, read_text, require_shallow, shown
from paceline.references import refuse_untrusted

D = TypeVar("D")
Tree = dict[str, Any]
_BETWEEN = re.compile(r",(?=[A-Za-z_][\w.]*=)")
"""Separator of two settings of a variant: a comma before a name, because values may contain commas."""
_TWICE = re.compile(r"(=[^,/@]*)@(?=[A-Za-z_][\w.]*=)")


def parse_variant(text: str) -> tuple[str, dict[str, str]]:
    """Return the algorithm that a variant names, and its settings as words.

    >>> parse_variant("fedbuff@buffer=5,partition=exdir:2,5")
    ('fedbuff', {'buffer': '5', 'partition': 'exdir:2,5'})
    """
    name, _, rest = text.partition("@")
    if _TWICE.search(rest):
        said = _TWICE.sub(r"\1,", rest)
        raise SettingError(
            f"{shown(text)} has two @, but a comma joins the settings of a variant; write {name}@{said}"
        )
    words = [word.partition("=") for word in _BETWEEN.split(rest) if word]
    if wrong := next((key for key, equals, _ in words if not equals), None):
        raise SettingError(f"{shown(text)} sets {shown(wrong)} to nothing; write NAME@SETTING=VALUE,SETTING=VALUE")
    return name, {key.strip(): value for key, _, value in words}


def parse_override(text: str) -> Tree:
    """``"fleet.jitter=0.1"`` as a nested dictionary; values are read as TOML, else taken as plain text."""
    path, equals, value = text.partition("=")
    if not equals or not path.strip():
        raise SettingError(f"--set {shown(text)} is not a setting; wanted name=value, such as fleet.times=uniform")
    tree: Any = _value(value.strip(), shown(text))
    for part in reversed(path.strip().split(".")):
        tree = {part: tree}
    require_shallow(tree, f"--set {shown(text)}", SettingError)
    return typing.cast(Tree, tree)


def _value(text: str, where: str) -> Any:
    if text.lower() == "none":
        return None
    try:
        found = parse_toml(f"value = {text}", f"--set {where}")
    except tomllib.TOMLDecodeError:
        return text
    return found["value"] if found.keys() == {"value"} else text


def to_words(tree: Mapping[str, Any], prefix: str = "") -> list[str]:
    """Write a tree as words that ``parse_override`` reads back.

    >>> to_words({"fleet": {"jitter": 0.1}, "model": "mlp:200", "every": None})
    ['fleet.jitter=0.1', 'model=mlp:200', 'every=none']
    """
    words: list[str] = []
    for name, value in tree.items():
        path = f"{prefix}{name}"
        words += to_words(value, f"{path}.") if isinstance(value, Mapping) else [f"{path}={_word(value)}"]
    return words


def _word(value: Any) -> str:
    if value is None:
        return "none"
    plain = isinstance(value, str) and _value(value.strip(), shown(value)) == value
    return str(value) if plain else json.dumps(value, ensure_ascii=False, default=repr)  # which is refused by name


def parse_toml(text: str, where: str, error: type[PacelineError] = SettingError) -> Tree:
    """What a TOML text says; ``TOMLDecodeError`` if it is none, the error given if nobody can have meant it."""
    try:
        found = tomllib.loads(text)
    except tomllib.TOMLDecodeError:
        raise
    except ValueError:  # Python's own limit
        raise error(f"{where} holds a whole number of thousands of digits") from None
    except RecursionError:
        raise error(f"{where}: its brackets are too deep") from None
    require_shallow(found, where, error)
    return found


def read_settings(path: Path, names: Sequence[str], *, trust: bool = False) -> Tree:
    """A TOML file of settings; or what a run of one of these algorithms was made of, from its directory or the
    settings.json in it. Code that either names is accepted only with ``trust``."""
    path = path / "settings.json" if path.is_dir() else path
    try:
        text = read_text(path, SettingError)
        kept = path.suffix == ".json"
        found = parse_json(text, str(path), SettingError) if kept else parse_toml(text, str(path))
    except FileNotFoundError:
        raise SettingError(f"no settings file at {path}") from None
    except tomllib.TOMLDecodeError as problem:
        raise SettingError(f"{path} is not valid TOML: {problem}") from None
    found = _of_a_run(found, path, names) if kept else found
    if not trust:
        refuse_untrusted(found, str(path))
    return found


def read_json(path: Path) -> Tree:
    """A JSON file that holds one object."""
    try:
        return parse_object(read_text(path, SettingError), str(path), SettingError)
    except FileNotFoundError:
        raise SettingError(f"{path} is missing; wanted a JSON file") from None


def _of_a_run(kept: Any, path: Path, names: Sequence[str]) -> Tree:
    """What a run was made of, as settings: its algorithm's options go under its name, and versions are left out."""
    if not (
        isinstance(kept, dict) and isinstance(kept.get("options"), dict) and isinstance(kept.get("algorithm"), str)
    ):
        raise SettingError(f"{path} is not the settings.json of a run; give one, a run's directory, or a TOML file")
    name = kept["algorithm"]
    said = shown(name).strip("'")
    if name not in [asked.partition("@")[0] for asked in names]:
        raise SettingError(
            f"{path} holds a run of {said}, not of {' or '.join(names)}; name {said}, or give settings with --set"
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
    """A copy of a settings dataclass with these changes; types and bounds are checked, unknown names refused."""
    return _replaced(settings, checked(settings, completed(settings, tree), where))


def completed(settings: Any, tree: Mapping[str, Any]) -> Tree:
    """The same changes where to give one of two alternatives takes back the other, whatever was said of it before."""
    found = dict(tree)
    for pair in getattr(settings, "ALTERNATIVES", ()):
        given = [name for name in pair if tree.get(name) is not None]
        if len(given) == 1:
            found = dict.fromkeys(pair) | found
    for key, value in tree.items():
        if isinstance(value, Mapping) and _is_group(group := getattr(settings, key, None)):
            found[key] = completed(group, value)
    return found


def checked(settings: Any, tree: Mapping[str, Any], where: str = "") -> Tree:
    """The same changes with every value as its field has it; wrong names, types and numbers are refused.

    Each is looked at by itself. Whether all of them go together, the dataclass says when it is made.
    """
    assert _is_group(settings)
    kinds = typing.get_type_hints(type(settings))
    fields = {each.name: each for each in dataclasses.fields(settings) if each.init}
    found: Tree = {}
    for key, value in tree.items():
        name = f"{where}{key}"
        if key not in fields:
            raise SettingError(f"unknown setting {shown(name)}; {nearest(str(key), fields, where)}")
        current = getattr(settings, key)
        if not _is_group(current):
            found[key] = convert(value, kinds[key], name)
            bounds_of(fields[key]).check(name, found[key])
        elif isinstance(value, Mapping):
            found[key] = checked(current, value, f"{name}.")
        else:
            raise SettingError(f"{name} is a group of settings; give {name}.NAME=VALUE")
    return found


def _replaced(settings: D, changes: Tree) -> D:
    group = typing.cast(Any, settings)
    inside = {key: _replaced(now, changes[key]) for key in changes if _is_group(now := getattr(group, key))}
    return typing.cast(D, dataclasses.replace(group, **{**changes, **inside}))


def _is_group(value: Any) -> bool:
    return dataclasses.is_dataclass(value) and not isinstance(value, type)


def convert(value: Any, kind: Any, name: str) -> Any:
    """The value as this type, or an error that says what came and what was wanted."""
    origin, options = typing.get_origin(kind), typing.get_args(kind)
    if origin in (types.UnionType, typing.Union):
        if value is None and type(None) in options:
            return None
        return convert(value, next(k for k in options if k is not type(None)), name)
    if value is None and (kind is str or origin is typing.Literal):
        value = "none"  # the word, where nothing cannot be meant
    if origin is typing.Literal:
        if any(value == option and type(value) is type(option) for option in options):
            return value
        raise SettingError(f"{name} is {shown(value)}; {nearest(shown(value), map(str, options))}")
    if origin is list:
        if not isinstance(value, list):
            raise SettingError(f"{name} is {shown(value)}; wanted a list")
        return [convert(one, options[0], name) for one in value]
    if kind is float and isinstance(value, int) and not isinstance(value, bool):
        return float(value) if abs(value) < 2**1023 else math.inf if value > 0 else -math.inf
    if kind is int and isinstance(value, float) and value.is_integer():
        return int(value)
    if kind is str and not isinstance(value, str):
        return _text(value, name)
    if isinstance(value, kind) and not (kind is int and isinstance(value, bool)):
        return value
    raise SettingError(f"{name} is {shown(value)}; wanted {_words(kind)}")


def _text(value: Any, name: str) -> str:
    """A number or a truth value as text; what a file may hold besides is no text."""
    if isinstance(value, dict | list) or (isinstance(value, int) and abs(value) >= WHOLE):
        raise SettingError(f"{name} is {shown(value)}; wanted text")
    return str(value)


def _words(kind: Any) -> str:
    names = {int: "a whole number", float: "a number", bool: "true or false", str: "text"}
    return names.get(kind, getattr(kind, "__name__", str(kind)))


def to_tree(settings: Any) -> Any:
    """A settings dataclass as plain dictionaries, for JSON."""
    if dataclasses.is_dataclass(settings) and not isinstance(settings, type):
        return {f.name: to_tree(getattr(settings, f.name)) for f in dataclasses.fields(settings) if f.init}
    return settings
