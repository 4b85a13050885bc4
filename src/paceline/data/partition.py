"""Partitions by name: the text form of every scheme, as it stands in settings."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from paceline.data.labelskew import Dirichlet, ExDir, Pathological
from paceline.data.schemes import Dominant, Iid, Natural, PowerLaw, Scheme
from paceline.data.shares import Partition, Skew
from paceline.errors import SettingError, nearest

__all__ = [
    "Partition",
    "Skew",
    "Scheme",
    "Iid",
    "Dirichlet",
    "ExDir",
    "Pathological",
    "Dominant",
    "Natural",
    "PowerLaw",
    "parse_partition",
]


@dataclass(frozen=True)
class _Form:
    """How a scheme is written: numbers in order, then flags and key=number pairs in any order."""

    make: Callable[..., Scheme]
    example: str
    numbers: tuple[tuple[str, type], ...] = ()
    required: int = 0
    flags: tuple[str, ...] = ()
    keys: tuple[str, ...] = ()


_FORMS: Mapping[str, _Form] = {
    "iid": _Form(Iid, "iid"),
    "dirichlet": _Form(
        Dirichlet, "dirichlet:0.3 or dirichlet:0.3,equal", (("alpha", float),), 1, ("equal",), ("minimum",)
    ),
    "exdir": _Form(ExDir, "exdir:2,10", (("classes", int), ("alpha", float)), 2, (), ("minimum",)),
    "pathological": _Form(Pathological, "pathological:2 or pathological:2,equal", (("classes", int),), 1, ("equal",)),
    "dominant": _Form(Dominant, "dominant:0.3", (("share", float),), 1),
    "natural": _Form(Natural, "natural or natural:choose", flags=("choose",)),
    "powerlaw": _Form(
        PowerLaw, "powerlaw:1.5 or powerlaw:1.5,2", (("exponent", float), ("classes", int)), required=1
    ),
}


def parse_partition(text: str) -> Scheme:
    """The scheme that a text like ``iid``, ``dirichlet:0.2`` or ``exdir:2,10`` names."""
    name, _, rest = text.strip().partition(":")
    if name not in _FORMS:
        raise SettingError(f"no partition is called {name!r}; {nearest(name, _FORMS)}")
    form = _FORMS[name]
    settings: dict[str, Any] = {}
    numbers: list[str] = []
    for word in (word.strip() for word in rest.split(",") if rest):
        key, equals, value = word.partition("=")
        if word in form.flags:
            settings[word] = True
        elif equals and key in form.keys:
            settings[key] = _number(text, value, int, form)
        else:
            numbers.append(word)
    if not form.required <= len(numbers) <= len(form.numbers):
        raise SettingError(f"partition {text!r} has {len(numbers)} numbers; write it like {form.example}")
    for (key, kind), word in zip(form.numbers, numbers, strict=False):
        settings[key] = _number(text, word, kind, form)
    return form.make(**settings)


def _number(text: str, word: str, kind: type, form: _Form) -> Any:
    try:
        return kind(word)
    except ValueError:
        wanted = "a whole number" if kind is int else "a number"
        raise SettingError(f"partition {text!r}: {word!r} is not {wanted}; write it like {form.example}") from None
