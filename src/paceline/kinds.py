"""Kinds of arguments: public functions check their arguments against their annotations before any work starts."""

from __future__ import annotations

import dataclasses
import inspect
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache, wraps
from itertools import chain, repeat
from types import SimpleNamespace, UnionType
from typing import Any, TypeVar, Union, cast, get_args, get_origin, get_type_hints

from paceline.errors import SettingError, nearest
from paceline.reading import shown

F = TypeVar("F", bound=Callable[..., Any])
T = TypeVar("T")
_WORDS = {"int": "a whole number", "float": "a number", "bool": "True or False", "str": "text", "NoneType": "None"}
_WORDS |= {"Callable": "a function", "type": "a class", "PathLike": "a path"}
_NUMBERS = {int: "__index__", float: "__float__"}
_WHOLE = (str, bytes, Mapping)
"""Iterable kinds that are not accepted as lists."""
_MET: set[tuple[type, Any]] = set()
"""Pairs of a type and a protocol that it was found to satisfy."""
_LISTS = {Sequence: ("__len__", "__iter__", "__getitem__"), Iterable: ("__iter__",)}


def checked(function: F) -> F:
    """Return the function with arguments checked against its annotations, with the same signature and docstring."""
    code = function.__code__
    names, others = code.co_varnames[: code.co_argcount], code.co_varnames[code.co_argcount :]
    more = others[code.co_kwonlyargcount] if code.co_flags & inspect.CO_VARARGS else ""
    plain: set[tuple[type, ...]] = set()  # types that decide alone: an algorithm calls ``visit`` many thousand times

    @wraps(function)
    def door(*given: Any, **named: Any) -> Any:
        types = tuple(map(type, given))
        if named or types not in plain:
            _require(function, chain(zip(chain(names, repeat(more)), given, strict=False), named.items()))
            if not named and not any(hasattr(one, "__iter__") for one in types):
                plain.add(types)
        return function(*given, **named)

    return function if hasattr(function, "__wrapped__") else cast(F, door)


def made(kind: type[T], words: Mapping[str, Any]) -> T:
    """Return an instance of a dataclass. Unknown names and values of a wrong kind are refused."""
    fields = [each.name for each in dataclasses.fields(kind)]  # type: ignore[arg-type]
    if unknown := [name for name in words if name not in fields]:
        raise SettingError(f"unknown argument {shown(unknown[0])}; {nearest(unknown[0], fields)}")
    _require(kind, words.items())
    return kind(**words)


def _require(called: Callable[..., Any], given: Iterable[tuple[str, Any]]) -> None:
    for name, value in given:
        if not _fits(value, kind := _kind(called, name)):
            hint = f"; give a list: [{shown(value)}]" if isinstance(value, str) and get_origin(kind) in _LISTS else ""
            hint = "; await it" if "<coroutine" in repr(value)[:200] else hint
            raise SettingError(f"{name} is {shown(value)}, but must be {_words(kind)}{hint}")


@cache
def _kind(called: Callable[..., Any], name: str) -> Any:
    """Return the annotation of an argument, or ``Any`` if it has none that can be read at run time."""
    said = SimpleNamespace(__annotations__={name: called.__annotations__.get(name, Any)})
    try:
        return get_type_hints(said, vars(sys.modules[called.__module__]))[name]
    except NameError:
        return Any


@cache
def _parts(kind: Any) -> tuple[Any, tuple[Any, ...]]:
    return get_origin(kind) or kind, get_args(kind)


def _fits(value: Any, kind: Any) -> bool:
    if kind is Any or type(value) is kind or (type(value), kind) in _MET:
        return True
    origin, inside = _parts(kind)
    if origin in (UnionType, Union):
        return any(_fits(value, one) for one in inside)
    if origin in _NUMBERS:  # also those of NumPy and of torch
        number = hasattr(type(value), _NUMBERS[origin]) and not isinstance(value, bool)
        return number and not getattr(value, "ndim", 0)
    if origin in _LISTS:
        many = not isinstance(value, _WHOLE) and all(hasattr(value, name) for name in _LISTS[origin])
        return many and (iter(value) is value or all(_fits(one, inside[0]) for one in value))
    if origin is tuple:
        return isinstance(value, tuple | list) and len(value) == len(inside) and all(map(_fits, value, inside))
    if origin in (dict, Mapping):
        return isinstance(value, Mapping) and all(map(_fits, chain(*value.items()), inside * len(value)))
    if getattr(origin, "_is_protocol", False):
        needed = [name for name, method in vars(origin).items() if name[0] != "_" and callable(method)]
        if isinstance(value, type) or not all(hasattr(value, name) for name in needed):
            return False
        _MET.add((type(value), kind))
        return True
    return not isinstance(origin, type) or isinstance(value, origin)


def _words(kind: Any) -> str:
    origin, inside = _parts(kind)
    if origin in (UnionType, Union):
        *most, last = dict.fromkeys(map(_words, inside))
        return f"{', '.join(most)} or {last}"
    each = _words(inside[-1]) if origin in (*_LISTS, dict, Mapping) and inside[-1] is not Any else ""
    if origin in _LISTS:
        return f"a list (each {each})" if each else "a list"
    if origin in (dict, Mapping):
        return "a mapping from text" + (f" to {each}" if each else "")
    name = origin.__name__
    return _WORDS.get(name) or f"{'an' if name[0] in 'AEIOU' else 'a'} {name}"
