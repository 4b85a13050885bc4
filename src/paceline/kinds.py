"""Kinds of arguments: a public function refuses what its annotations do not allow, before any work starts."""

from __future__ import annotations

import dataclasses
import types
from collections.abc import Callable, Mapping, Sequence
from functools import cache, wraps
from inspect import Parameter, signature
from itertools import chain, repeat
from typing import Any, Literal, TypeVar, Union, cast, get_args, get_origin, get_type_hints

from paceline.errors import SettingError, nearest
from paceline.reading import shown

F = TypeVar("F", bound=Callable[..., Any])
T = TypeVar("T")
_WORDS = {
    int: "a whole number", float: "a number", bool: "True or False", str: "text", types.NoneType: "None",
    Callable: "a function", type: "a class",
}  # fmt: skip
_LISTS = ("Sequence", "Iterable", "Collection", "list")


def checked(function: F) -> F:
    """Return the function with its arguments checked against its annotations; its signature and text stay.

    >>> @checked
    ... def double(number: int) -> int:
    ...     return 2 * number
    >>> double("2")
    Traceback (most recent call last):
    paceline.errors.SettingError: number is '2', but must be a whole number
    """
    if hasattr(function, "__wrapped__"):
        return function

    @wraps(function)
    def door(*given: Any, **named: Any) -> Any:
        _require(function, given, named)
        return function(*given, **named)

    return cast(F, door)


def made(kind: type[T], words: Mapping[str, Any], *named: type) -> T:
    """Return a dataclass of these words; unknown names and values of a wrong kind are refused.

    ``named`` are classes in its annotations that its module imports for type checkers only.
    """
    fields = [each.name for each in dataclasses.fields(kind) if each.init]  # type: ignore[arg-type]
    for name in words:
        if name not in fields:
            raise SettingError(f"unknown argument {shown(name)}; {nearest(name, fields)}")
    _require(kind, (), words, named)
    return kind(**words)


def _require(
    called: Callable[..., Any], given: Sequence[Any], named: Mapping[str, Any], classes: tuple[type, ...] = ()
) -> None:
    order, rest, kinds = _known(called, classes)
    for name, value in chain(zip(chain(order, repeat(rest)), given, strict=False), named.items()):
        fits, kind = kinds.get(name, (_anything, Any))
        if not fits(value):
            hint = f"; give a list: [{shown(value)}]" if isinstance(value, str) and _is_list(kind) else ""
            raise SettingError(f"{name} is {shown(value)}, but must be {_words(kind)}{hint}")


@cache
def _known(
    called: Callable[..., Any], classes: tuple[type, ...]
) -> tuple[list[str], str, dict[str, tuple[Callable[[Any], bool], Any]]]:
    """The names of positional arguments, that of any number more, and what each argument must be."""
    each = signature(called).parameters.values()
    hints = get_type_hints(called, localns={one.__name__: one for one in classes})
    named = [one for one in each if one.kind is not Parameter.VAR_KEYWORD and one.name in hints]
    order = [one.name for one in each if one.kind in (Parameter.POSITIONAL_ONLY, Parameter.POSITIONAL_OR_KEYWORD)]
    rest = next((one.name for one in each if one.kind is Parameter.VAR_POSITIONAL), "")
    return order, rest, {one.name: (_test(hints[one.name]), hints[one.name]) for one in named}


def _anything(value: Any) -> bool:
    return True


def _test(kind: Any) -> Callable[[Any], bool]:
    """Return the function that says whether a value fits an annotation."""
    origin, inside = get_origin(kind), [_test(one) for one in get_args(kind)] if _has_parts(kind) else []
    if origin in (types.UnionType, Union):
        return lambda value: any(fits(value) for fits in inside)
    if origin is Literal:
        return lambda value: value in get_args(kind)
    if origin is tuple:
        return lambda value: (
            isinstance(value, tuple | list)
            and len(value) == len(inside)
            and all(fits(one) for fits, one in zip(inside, value, strict=True))
        )
    if origin is not None and _is_list(kind):
        return lambda value: _is_many(value, origin) and (iter(value) is value or all(map(inside[0], value)))
    if origin in (dict, Mapping):
        key, entry = inside
        return lambda value: isinstance(value, Mapping) and all(key(k) and entry(v) for k, v in value.items())
    return _plain(origin or kind)


def _plain(kind: Any) -> Callable[[Any], bool]:
    if kind in (int, float):
        method = "__index__" if kind is int else "__float__"
        return lambda value: (
            hasattr(type(value), method) and not isinstance(value, bool) and getattr(value, "ndim", 0) == 0
        )
    if getattr(kind, "_is_protocol", False):
        methods = [name for name, method in vars(kind).items() if name[0] != "_" and callable(method)]
        return lambda value: not isinstance(value, type) and all(hasattr(value, name) for name in methods)
    if kind is Any or not isinstance(kind, type):
        return _anything
    return lambda value: isinstance(value, kind)


def _has_parts(kind: Any) -> bool:
    return get_origin(kind) not in (Literal, Callable, type)


def _is_list(kind: Any) -> bool:
    return getattr(get_origin(kind), "__name__", "") in _LISTS


def _is_many(value: Any, origin: Any) -> bool:
    """Whether it can be gone through, as often as its kind says; text is one thing."""
    needed = {"Iterable": ("__iter__",), "Collection": ("__len__", "__iter__")}.get(
        origin.__name__, ("__len__", "__iter__", "__getitem__")
    )
    return not isinstance(value, str | bytes | Mapping) and all(hasattr(type(value), name) for name in needed)


def _words(kind: Any) -> str:
    origin, inside = get_origin(kind), get_args(kind)
    if origin in (types.UnionType, Union):
        *most, last = dict.fromkeys(map(_words, inside))
        return f"{', '.join(most)} or {last}" if most else last
    if origin is Literal:
        return f"one of {', '.join(map(str, inside))}"
    if origin is not None and _is_list(kind):
        return "a list" + ("" if inside[0] is Any else f" (each {_words(inside[0])})")
    if origin in (dict, Mapping):
        return "a mapping from text" + ("" if inside[1] is Any else f" to {_words(inside[1])}")
    kind = origin or kind
    name = getattr(kind, "__name__", str(kind))
    return _WORDS.get(kind) or {"PathLike": "a path"}.get(name) or f"{'an' if name[0] in 'AEIOU' else 'a'} {name}"
