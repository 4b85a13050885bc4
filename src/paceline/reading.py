"""Files and texts that came from elsewhere: what they are and how much they hold is checked before they are read.

A path may lead to a pipe on which nobody writes, to a device without an end, or to a file that fills the memory; a
text may hold a number of a million digits, brackets ten thousand deep, or half a character. Each of these is an error
that names the file, in the class that the caller's room raises.
"""

from __future__ import annotations

import json
import os
import re
import stat
from pathlib import Path
from typing import Any, BinaryIO

from paceline.errors import DataError, PacelineError

DEEPEST = 32
"""Groups inside of groups in a file; settings have four."""
_SEQUENCE = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|[\]PX^_][^\x07\x1b]*(?:\x07|\x1b\\)?)")
"""Escape sequences of terminals."""
_ARTICLE: dict[type, str] = {int: "a whole number", dict: "a group", list: "a list"}
State = tuple[str | int, ...]
MIB = 1 << 20
ANY = 1 << 60
TEXT = 64 * MIB
"""Bytes of a text file, unless its reader knows better."""


def expanded(path: str | Path) -> Path:
    """A path with ``~`` in its place; one that names nobody's home is left as it is, and will not be found."""
    try:
        return Path(path).expanduser()
    except RuntimeError:
        return Path(path)


def state_of(path: str) -> State:
    """Return a file's path, inode, size and time, which differ if the file was changed or replaced."""
    try:
        file = expanded(path).absolute()
        found = file.stat()
    except (OSError, ValueError):  # reading it says what is wrong
        return ()
    return str(file), found.st_ino, found.st_size, found.st_mtime_ns


def require_file(path: Path, most: int, error: type[PacelineError] = DataError) -> int:
    """The size of a file, which must be a regular one (links are followed) of at most so many bytes.

    A file that is not there raises ``FileNotFoundError``, for the caller to say what was wanted.
    """
    try:
        found = path.stat()
    except FileNotFoundError:
        raise
    except (OSError, ValueError) as problem:  # a name with a zero byte is a ValueError
        raise error(f"{str(path)[:200]!r} cannot be read: {getattr(problem, 'strerror', problem)}") from None
    if not stat.S_ISREG(found.st_mode):
        raise error(f"{path} is {_kind(found.st_mode)}; give the path of a regular file")
    if found.st_size > most:
        raise error(f"{path} has {found.st_size:,} bytes; at most {most:,} are read: give a smaller file")
    return found.st_size


def open_file(path: Path, most: int = ANY, error: type[PacelineError] = DataError) -> BinaryIO:
    """Open a regular file of at most ``most`` bytes for reading. Nothing else is opened, because it could block."""
    require_file(path, most, error)
    # Not blocking: between the check and this line a pipe may have taken the file's place.
    return os.fdopen(os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0)), "rb")


def read_file(path: Path, most: int, error: type[PacelineError] = DataError) -> bytes:
    """What a regular file of at most so many bytes holds; one that grows meanwhile is read no further."""
    try:
        with open_file(path, most, error) as file:
            return file.read(os.fstat(file.fileno()).st_size)
    except FileNotFoundError:
        raise
    except OSError as problem:
        raise error(f"{path} cannot be read: {problem.strerror}") from None


def read_text(path: Path, error: type[PacelineError] = DataError, *, most: int = TEXT) -> str:
    """A text in UTF-8, with or without the mark of it at the beginning."""
    try:
        return read_file(path, most, error).decode("utf-8-sig")
    except UnicodeDecodeError as problem:
        raise error(f"{path} cannot be read as text in UTF-8: {problem}") from None


def parse_json(text: str, where: str, error: type[PacelineError] = DataError) -> Any:
    """What a JSON text says; ``where`` is what errors call it."""
    try:
        found = json.loads(text)
        require_shallow(found, where, error)
        if "\\u" in text:
            json.dumps(found, ensure_ascii=False).encode("utf-8")
    except UnicodeEncodeError:
        raise error(f"{where} is damaged: it holds half a character (a lone surrogate)") from None
    except json.JSONDecodeError as problem:
        raise error(f"{where} is damaged: not valid JSON: {problem}") from None
    except ValueError:  # Python's own limit
        raise error(f"{where} is damaged: it holds a whole number of thousands of digits") from None
    except RecursionError:
        raise error(f"{where} is damaged: its brackets are too deep") from None
    return found


def parse_object(text: str, where: str, error: type[PacelineError] = DataError) -> dict[str, Any]:
    """A JSON text that must be one object."""
    found = parse_json(text, where, error)
    if not isinstance(found, dict):
        raise error(f"{where} must be a JSON object; got a {type(found).__name__}")
    return found


def require_shallow(tree: Any, where: str, error: type[PacelineError] = DataError) -> None:
    """Refuse groups inside of groups, deeper than anybody writes: whoever walks them would run out of stack."""
    level = [tree]
    for _ in range(DEEPEST):
        level = [inside for one in level for inside in _inside(one)]
        if not level:
            return
    raise error(f"{where} is nested more than {DEEPEST} deep; wanted plain settings or figures")


def plain_number(text: str) -> float:
    """A number in plain digits, as programs write them; ``ValueError`` for anything else that Python would take."""
    if not text.isascii() or "_" in text:
        raise ValueError(f"{text[:80]!r} is not a plain number")
    return float(text)


def shown(value: Any, most: int = 80) -> str:
    """A value as an error shows it: short, also where it is long, and whatever it is."""
    try:
        text = repr(value)
    except (ValueError, RecursionError):  # a whole number of thousands of digits; a tree too deep
        return f"{_ARTICLE.get(type(value), 'a value')} too long to show"
    return text if len(text) <= most else f"{text[: most - 20]}… ({len(text):,} characters)"


def cleaned(text: str, most: int = 500) -> str:
    """Return foreign text as one short printable line, without escape sequences or control characters."""
    line = one_line(text[: 8 * most])
    if len(line) <= most and len(text) <= 8 * most:
        return line
    return f"{line[: most - 30]}… ({len(text):,} characters)"


def one_line(text: str) -> str:
    """Return a text on one line, with blanks instead of characters that cannot be printed."""
    return "".join(letter if letter.isprintable() else " " for letter in _SEQUENCE.sub("", text))


def shown_lines(text: str, lines: int = 15) -> str:
    """Return the last lines of another program's output, cleaned."""
    return "\n".join(map(cleaned, text.splitlines()[-lines:]))


def _inside(one: Any) -> list[Any]:
    if isinstance(one, dict):
        return [value for value in one.values() if isinstance(value, dict | list)]
    return [value for value in one if isinstance(value, dict | list)] if isinstance(one, list) else []


def _kind(mode: int) -> str:
    """What it is that is no regular file."""
    kinds = {
        "a directory": stat.S_ISDIR,
        "a pipe": stat.S_ISFIFO,
        "a device": lambda mode: stat.S_ISCHR(mode) or stat.S_ISBLK(mode),
        "a socket": stat.S_ISSOCK,
    }
    return next((name for name, holds in kinds.items() if holds(mode)), "something else than a file")
