"""What settings name that lies outside of them, files and code of the user's own, with digests that tell changes."""

from __future__ import annotations

import ast
import hashlib
import importlib.util
import re
import sys
from collections.abc import Iterable, Iterator, Mapping
from itertools import combinations
from pathlib import Path
from typing import Any

from paceline.errors import PacelineError
from paceline.reading import expanded
from paceline.references import LENT, announced, is_reference
from paceline.system.listed import read_fleet

_SEPARATOR = re.compile(r"[:,+@=]")
CHUNK = 1 << 20
MOST_WORDS = 40
"""Parts of a setting that are tried as the name of a file; a setting that names one has few."""
INSTALLED = ("site-packages", "dist-packages")
"""Folders in which modules lie beside each other that have nothing to do with each other."""


def named_outside(described: Iterable[Mapping[str, Any]]) -> dict[str, str]:
    """Digests of the files and the code that the settings of runs name, by what they are."""
    texts: set[str] = set()
    names: set[str] = set()
    for words in described:  # those of many runs say the same
        texts.update(_texts(words), _fleet_words(words))
        names.update(str(words.get(setting)) for setting in LENT)
    files = {name for text in texts for name in _files_named_by(text)}
    modules = {place for text in names for place in _modules_named_by(text)}
    return {f"file {name}": _digest(expanded(name)) for name in sorted(files)} | {
        f"code {place}": digest for place in sorted(modules) if (digest := code_digest(place))
    }


def code_digest(place: str) -> str:
    """One digest of all files in which what a module does is written; empty where there are none."""
    files = _sources(place)
    lines = "".join(f"{path.name} {_digest(path)}\n" for path in files)
    return hashlib.sha256(lines.encode()).hexdigest() if files else ""


def _digest(path: Path) -> str:
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while data := file.read(CHUNK):
            digest.update(data)
    return digest.hexdigest()


def _texts(words: Any) -> Iterator[str]:
    if isinstance(words, Mapping):
        for value in words.values():
            yield from _texts(value)
    elif isinstance(words, str):
        yield words


def _fleet_words(described: Mapping[str, Any]) -> Iterator[str]:
    """What a file of devices says of when they are there: it may name further files."""
    fleet = described.get("fleet")
    if isinstance(fleet, Mapping) and fleet.get("file"):
        try:
            listed = read_fleet(str(fleet["file"]))
        except PacelineError:  # whoever builds the fleet says what is wrong with it
            return
        yield listed.path
        yield from listed.availability or ()


# -- files -----------------------------------------------------------------------------------------------------------


def _files_named_by(text: str) -> Iterator[str]:
    """The parts of a setting's text, from one separator to another, that are paths of files.

    All such parts are tried, since a path may hold separators too: a run's directory is called fedbuff@buffer=5.
    """
    bounds = [0, *(place for match in _SEPARATOR.finditer(text) for place in match.span()), len(text)]
    bounds = sorted(set(bounds))[:MOST_WORDS]
    for begin, end in combinations(bounds, 2):
        if _is_file(part := text[begin:end]):
            yield part


def _is_file(name: str) -> bool:
    try:
        return expanded(name).is_file()
    except (OSError, ValueError):  # too long for a name, or with a zero byte in it
        return False


# -- code ------------------------------------------------------------------------------------------------------------


def _modules_named_by(text: str) -> Iterator[str]:
    """Modules of references (``package.module:name``), and of what installed packages announce under a name."""
    for part in text.split("+"):
        word = part.partition("@")[0]
        if is_reference(word):
            yield word.partition(":")[0]
        for group in ("algorithms", "datasets"):
            if (entry := announced(group).get(word)) is not None:
                yield entry.module


def _sources(place: str) -> list[Path]:
    """The files of a module's whole package, or its own and those beside it that it imports."""
    file, folders = _where(place.partition(".")[0])
    if folders:
        return sorted(path for folder in folders for path in folder.rglob("*.py") if path.is_file())
    return _with_those_beside(file) if file is not None and file.is_file() else []


def _where(module: str) -> tuple[Path | None, list[Path]]:
    """The file of a module and, if it is a package, its folders. What was typed into a notebook has no file, and the
    module of a script has no spec."""
    loaded = sys.modules.get(module)
    if loaded is not None:
        origin, folders = getattr(loaded, "__file__", None), getattr(loaded, "__path__", ())
    else:
        spec = importlib.util.find_spec(module)
        origin, folders = (None, ()) if spec is None else (spec.origin, spec.submodule_search_locations or ())
    return Path(origin) if origin else None, [Path(folder) for folder in folders]


def _with_those_beside(first: Path) -> list[Path]:
    """A module, those in the same folder that it imports, those that they import, and so on."""
    found: set[Path] = set()
    waiting = [first]
    while waiting:
        file = waiting.pop()
        if file in found:
            continue
        found.add(file)
        if first.parent.name not in INSTALLED:
            beside = [first.parent / name for name in _imported_by(file)]
            waiting += [path for one in beside for path in (one.with_suffix(".py"), *one.glob("**/*.py"))
                        if path.is_file()]  # fmt: skip
    return sorted(found)


def _imported_by(file: Path) -> set[str]:
    """First parts of the names of all modules that a file imports anywhere; none if it is no Python that we know."""
    try:
        tree = ast.parse(file.read_bytes())
    except (SyntaxError, ValueError, OSError):
        return set()
    names: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names |= {alias.name.partition(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            names.add(node.module.partition(".")[0])
    return names
