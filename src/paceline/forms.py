"""Settings that are written as words, such as ``duty:3600,0.5`` or ``exdir:2,10``.

Each such setting has one table of forms (``Forms``). The table reads a word, explains what is wrong with one that it
cannot read, and writes the help. A form is written as in a manual page: capitals stand for values, brackets enclose
what may be left out, and everything else stands for itself. ``dropout:P[,forever]`` is read into the call
``make(p=0.1, forever=True)``.

What a value may be is said by its kind. Bounds that follow from what a thing is (a mean time is above 0) are checked
by the thing itself, so that they hold from Python too.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, Generic, TypeVar

from paceline.bounds import Bounds
from paceline.errors import SettingError, nearest
from paceline.reading import shown

T = TypeVar("T")
_FLAG = re.compile(r"\[([:,])([a-z]+)\]")
_PARTS = re.compile(r"[A-Z_]+|\[|\]|[^A-Z_\[\]]+")


@dataclass(frozen=True)
class Kind:
    """What can stand for a value: in words, how it is read (``ValueError`` if it cannot be), and its characters."""

    wanted: str
    read: Callable[[str], Any]
    pattern: str = "[^,]*"


def bounded(kind: Kind, wanted: str, holds: Callable[[Any], bool]) -> Kind:
    """Of this kind, the values for which something holds."""

    def read(text: str) -> Any:
        value = kind.read(text)
        if not holds(value):
            raise ValueError(text)
        return value

    return replace(kind, wanted=wanted, read=read)


def _ascii(read: Callable[[str], T]) -> Callable[[str], T]:
    """The same for plain digits alone: Python would take those of any script."""

    def plain(text: str) -> T:
        if not text.isascii():
            raise ValueError(text)
        return read(text)

    return plain


NUMBER = Kind("a number", _ascii(float))
FINITE = bounded(NUMBER, "a finite number", Bounds().hold)
ABOVE_ZERO = bounded(NUMBER, "a finite number above 0", Bounds(above=0).hold)
AT_LEAST_ZERO = bounded(NUMBER, "a finite number of at least 0", Bounds(least=0).hold)
SHARE = bounded(NUMBER, "a number from 0 to 1", Bounds(least=0, most=1).hold)
WHOLE = bounded(Kind("a whole number", _ascii(int)), "a whole number", Bounds().hold)
DIGITS = replace(WHOLE, pattern="[0-9]+")
COUNT = bounded(DIGITS, "a whole number of at least 1", Bounds(least=1).hold)
NUMERAL = r"\s*[+-]?(?:[0-9][0-9_]*\.?[0-9_]*|\.[0-9][0-9_]*)(?:[eE][+-]?[0-9]+)?\s*"
"""The characters of a number, where something else may stand in its place."""
FILE = Kind("the path of a file", str, ".+?")


@dataclass(frozen=True)
class Form(Generic[T]):
    """One way to write a setting."""

    written: str
    make: Callable[..., T]
    """Is called with the values by name, in small letters; those that were left out are not given."""
    help: str
    """One sentence, without its full stop, that says what this form means."""
    example: str
    kinds: Mapping[str, Kind] = field(default_factory=dict)
    """By name in capitals; what is not listed is a number."""
    needs: tuple[str, ...] = ()
    """What ``make`` is told besides, of the things that whoever reads the word knows, such as the seed."""

    @cached_property
    def name(self) -> str:
        """The first word, which names the form."""
        return re.split(r"[:\[]", self.written)[0]

    @cached_property
    def pattern(self) -> re.Pattern[str]:
        """What the written form is as a regular expression."""
        written = _FLAG.sub(lambda found: f"[{found[1]}{found[2].upper()}__FLAG]", self.written)
        return re.compile("".join(map(self._piece, _PARTS.findall(written))), re.DOTALL)

    def _piece(self, part: str) -> str:
        if part in "[]":
            return "(?:" if part == "[" else ")?"
        if part.endswith("__FLAG"):
            word = part.removesuffix("__FLAG").lower()
            return f"(?P<{word}>{word})"
        return f"(?P<{part}>{self._kind(part).pattern})" if part[0].isupper() else re.escape(part)

    def _kind(self, name: str) -> Kind:
        return self.kinds.get(name, NUMBER)

    def values(self, found: re.Match[str]) -> dict[str, Any]:
        """What was given, by the names that ``make`` knows."""
        given = {name: text for name, text in found.groupdict().items() if text is not None}
        return {name.lower(): True if name.islower() else self._value(name, text) for name, text in given.items()}

    def _value(self, name: str, text: str) -> Any:
        kind = self._kind(name)
        try:
            return kind.read(text)
        except SettingError:  # a value that is a word of another table, which has explained it
            raise
        except ValueError:
            raise SettingError(f"{self.wanted}; {name} is {shown(text)}, which is not {kind.wanted}") from None

    @property
    def wanted(self) -> str:
        """How it is written, and an example where that is something else."""
        return f"wanted {self.written}" + (f", as in {self.example}" if self.example != self.written else "")


FORMS = "forms"
"""The key under which a field of settings keeps its table."""


class Forms(Generic[T]):
    """All the ways to write one setting."""

    def __init__(self, setting: str, *forms: Form[T]) -> None:
        self.setting = setting
        self.forms = forms
        self.names = tuple(dict.fromkeys(form.name for form in forms))

    def __iter__(self) -> Iterator[Form[T]]:
        return iter(self.forms)

    def parse(self, text: str, setting: str | None = None, **known: Any) -> T:
        """What a word stands for; ``setting`` is what errors call it, ``known`` what forms may need besides."""
        for form in self.forms:
            if (found := form.pattern.fullmatch(text)) is None:
                continue
            try:
                values = form.values(found)
            except SettingError as problem:
                raise SettingError(f"{setting or self.setting} is {shown(text)}; {problem}") from None
            return form.make(**values, **{need: known[need] for need in form.needs})
        raise SettingError(self._complaint(text, setting or self.setting))

    def _complaint(self, text: str, setting: str) -> str:
        name = text.partition(":")[0]
        meant = [form for form in self.forms if form.name == name]
        if not meant:
            return f"{setting} is {shown(text)}; {nearest(name, self.names)}"
        if [form.written for form in meant] == [name]:
            return f"{setting} is {shown(text)}; {name!r} takes nothing after it"
        return f"{setting} is {shown(text)}; {meant[0].wanted}" + "".join(
            f", or {form.written}" for form in meant[1:]
        )

    def example(self, name: str) -> str:
        """How a form of this name may look."""
        return next(form.example for form in self.forms if form.name == name)

    def help(self) -> list[str]:
        """One line for each form: how it is written, what it means, an example."""
        return [
            f"{form.written}: {form.help}" + (f" ({form.example})" if form.example != form.written else "")
            for form in self.forms
        ]


def joined(text: str) -> list[str]:
    """Split a text at ``+`` into its words, but not within a number such as 1e+3."""
    return re.split(r"\+(?=[a-z])", text)


def written(default: str, forms: Forms[Any]) -> Any:
    """A field of a settings dataclass that is written in one of these forms."""
    return field(default=default, metadata={FORMS: forms})
