"""Write a project: everything or nothing, and nothing that is there is touched."""

from __future__ import annotations

import keyword
import re
import shutil
import sys
import tempfile
from dataclasses import dataclass
from importlib.resources import files
from importlib.resources.abc import Traversable
from importlib.util import find_spec
from pathlib import Path

from paceline.algorithms.registry import ALGORITHMS
from paceline.errors import SettingError
from paceline.reading import shown

_NAME = re.compile(r"[a-z][a-z0-9]*([-_][a-z0-9]+)*")
LONGEST = 40
TAKEN = ("test", "tests", "src", "runs", "build", "dist")
"""Names that mean something else in a project."""


@dataclass(frozen=True)
class Project:
    """The names of a project."""

    name: str
    """Of the project, of its algorithm, and the beginning of its other names: ``my-study``."""

    @property
    def package(self) -> str:
        """What is imported: ``my_study``."""
        return self.name.replace("-", "_")

    @property
    def kind(self) -> str:
        """The algorithm's class: ``MyStudy``."""
        return "".join(part.capitalize() for part in self.package.split("_"))


def checked_name(name: str) -> Project:
    """A project of this name, which must be fit for a package and be nobody else's."""
    project = Project(name.replace("_", "-"))
    if not _NAME.fullmatch(name) or len(name) > LONGEST:
        raise SettingError(
            f"{shown(name)} cannot be the name of a project; wanted small letters, digits and single dashes between"
            f" them, a letter first, {LONGEST} at most, such as my-study (--name says another than the directory's)"
        )
    if project.name in ALGORITHMS:
        raise SettingError(f"an algorithm of Paceline is called {project.name}; give the project another --name")
    reserved = keyword.iskeyword(project.package) or keyword.issoftkeyword(project.package)
    if reserved or project.package in TAKEN or project.package in sys.stdlib_module_names:
        raise SettingError(f"{project.package} means something else in Python; give the project another --name")
    if find_spec(project.package) is not None:
        raise SettingError(
            f"a package called {project.package} is installed or lies in this directory, and one would hide the"
            " other; give the project another --name"
        )
    return project


def make_project(directory: Path, project: Project) -> list[str]:
    """Write all files of a project into a directory that is new or empty; their names."""
    _refuse_taken(directory)
    directory = directory.absolute()
    texts = _texts(project)
    try:
        directory.parent.mkdir(parents=True, exist_ok=True)
        draft = Path(tempfile.mkdtemp(prefix=f".{directory.name}-", dir=directory.parent))
    except OSError as problem:
        raise SettingError(f"{directory} cannot be made: {problem.strerror}; name another directory") from None
    try:
        for name, text in texts.items():
            (draft / name).parent.mkdir(exist_ok=True)
            (draft / name).write_text(text, encoding="utf-8")
        draft.chmod(0o755)
        draft.rename(directory)  # in one step; a directory that was filled meanwhile stays as it is
    except BaseException as problem:
        shutil.rmtree(draft, ignore_errors=True)
        if isinstance(problem, OSError):
            raise SettingError(f"{directory} cannot be made: {problem.strerror}; name another directory") from None
        raise
    return list(texts)


def _refuse_taken(directory: Path) -> None:
    if directory.is_symlink():
        raise SettingError(f"{directory} is a symbolic link; name the directory itself, or one that is new")
    if directory.exists() and not directory.is_dir():
        raise SettingError(f"{directory} is a file; name a directory that is new")
    if directory.exists() and any(directory.iterdir()):
        raise SettingError(f"{directory} is not empty, and nothing in it is written over; name a new directory")


def _texts(project: Project) -> dict[str, str]:
    """What is written, by its place in the project."""
    names = {"name": project.name, "package": project.package, "kind": project.kind}
    found: dict[str, str] = {}
    root = files("paceline.cli.project") / "template"
    for place, file in _walk(root, ""):
        target = (
            place.removesuffix(".in").replace("package/", f"{project.package}/").replace("gitignore", ".gitignore")
        )
        found[target] = file.read_text(encoding="utf-8").format(**names)
    return found


def _walk(folder: Traversable, inside: str) -> list[tuple[str, Traversable]]:
    found: list[tuple[str, Traversable]] = []
    for entry in sorted(folder.iterdir(), key=lambda each: each.name):
        place = f"{inside}{entry.name}"
        if entry.is_dir():
            found += _walk(entry, f"{place}/")
        elif place.endswith(".in"):
            found.append((place, entry))
    return found
