"""The form of a plan: choices and bounded numbers. No field is parsed as settings or taken as a path."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from paceline.algorithms.registry import ALGORITHMS
from paceline.data.specs import SPECS
from paceline.errors import SettingError
from paceline.forms import FILE, Forms
from paceline.reading import shown
from paceline.system.availability import AVAILABILITIES
from paceline.system.compute import TIMES
from paceline.system.links import LINKS
from paceline.worlds.absence import ABSENCES

MOST_ALGORITHMS = 6


@dataclass(frozen=True)
class Asked:
    """A plan that may be made."""

    algorithms: tuple[str, ...]
    settings: tuple[str, ...]
    """Settings, as ``--set`` takes them."""


@dataclass(frozen=True)
class Number:
    """A field for a whole number of at least 1."""

    label: str
    setting: str
    usual: str
    most: int


@dataclass(frozen=True)
class Choice:
    """A field for one of several values."""

    label: str
    setting: str
    usual: str
    words: tuple[str, ...]


def _examples(forms: Forms[Any]) -> tuple[str, ...]:
    """Return an example of every form that does not name a file."""
    return tuple(form.example for form in forms if all(kind.wanted != FILE.wanted for kind in form.kinds.values()))


FIELDS: dict[str, Number | Choice] = {
    "clients": Number("Devices", "clients", "50", 10_000),
    "rounds": Number("Rounds", "rounds", "20", 2_000),
    "times": Choice("How long devices train", "fleet.times", "discrete:0.5,1,2,4,5", _examples(TIMES)),
    "links": Choice("How models travel", "fleet.links", "rate:5,20", _examples(LINKS)),
    "availability": Choice("Who is there when", "fleet.availability", "always", _examples(AVAILABILITIES)),
    "absence": Choice("Devices that are away", "absence", "own", ("own", *_examples(ABSENCES))),
    "dataset": Choice("Data, for its size", "dataset", "mnist", tuple(SPECS)),
}


def read_asked(form: Mapping[str, list[str]]) -> Asked:
    """What a form asks for; ``SettingError`` says what must not, or cannot, be asked."""
    for name in form.keys() - {*FIELDS, "algorithm", "secret"}:
        raise SettingError(f"{shown(name)} is not a field of this form; see `paceline compare --dry-run` for all")
    algorithms = tuple(dict.fromkeys(form.get("algorithm", ())))
    for name in algorithms:
        if name not in ALGORITHMS:
            raise SettingError(f"{shown(name)} is none of the algorithms of a plan; wanted {', '.join(ALGORITHMS)}")
    if not 1 <= len(algorithms) <= MOST_ALGORITHMS:
        raise SettingError(f"{len(algorithms)} algorithms are chosen, but a plan takes 1 to {MOST_ALGORITHMS}")
    said = {field.setting: _checked(field, form.get(name, [field.usual])) for name, field in FIELDS.items()}
    return Asked(algorithms, tuple(f"{setting}={text}" for setting, text in said.items()))


def _checked(field: Number | Choice, texts: list[str]) -> str:
    text = " ".join(texts)
    if isinstance(field, Choice):
        if text not in field.words:
            raise SettingError(f"{field.setting} is {shown(text)}, but a plan takes one of {', '.join(field.words)}")
    elif not (text.isascii() and text.isdecimal() and len(text) < 10 and 1 <= int(text) <= field.most):
        raise SettingError(
            f"{field.setting} is {shown(text)}, but a plan of this page takes 1 to {field.most:,};"
            " `paceline compare --dry-run` takes more"
        )
    return text
