"""What documents show: their fenced blocks, the commands in them, and how a test does literally what a reader would.

Above a fence an HTML comment may say what the block is for:

- ``<!-- file: NAME -->``: the reader saves it as NAME;
- ``<!-- not run: REASON -->``: it is not run, because of this;
- ``<!-- run: MARK -->``: it takes long, or needs much, and is run by tests with this mark only.
"""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType

ROOT = Path(__file__).parents[1]
PAGES = sorted((ROOT / "docs").rglob("*.md"))

_FENCE = re.compile(
    r"^(?:<!-- (?P<word>file|not run|run): (?P<said>[^\n]*?) -->\n)?"
    r"(?P<fence>`{3,})(?P<language>[\w-]*)\n(?P<text>.*?)^(?P=fence)$",
    flags=re.M | re.S,
)


@dataclass(frozen=True)
class Block:
    """A fenced block of a page."""

    page: Path
    line: int
    """Of its text's first line."""
    language: str
    text: str
    word: str | None = None
    """What the comment above it says: file, not run, run."""
    said: str = ""

    def commands(self) -> Iterator[tuple[str, list[str]]]:
        """The commands after ``$`` in it, and what it shows each of them to print."""
        for part in re.split(r"^\$ ", self.text, flags=re.M)[1:]:
            command, *shown = part.replace("\\\n", "").splitlines()
            yield command, shown


def blocks(page: Path, *languages: str) -> list[Block]:
    """The fenced blocks of a page, in order; of these languages if any are named."""
    text = page.read_text()
    found = [
        Block(
            page,
            text[: match.start("text")].count("\n") + 1,
            match["language"],
            match["text"],
            match["word"],
            match["said"] or "",
        )
        for match in _FENCE.finditer(text)
    ]
    return [block for block in found if not languages or block.language in languages]


def listed(page: Path) -> list[str]:
    """The commands that a page lists, in blocks without a language, one a line, each with a remark behind a ``#``."""
    lines = [line for block in blocks(page, "") for line in block.text.splitlines()]
    return [re.sub(r"\s{2,}#.*", "", line).rstrip() for line in lines if line.startswith("paceline ")]


def run_python(found: list[Block]) -> None:
    """Run blocks in one name space, in the current directory; an error names the page's line."""
    module = sys.modules["page"] = ModuleType("page")  # dataclasses look it up; like a script, it has no spec
    try:
        for block in found:
            text = "\n" * (block.line - 1) + block.text
            exec(compile(text, str(block.page), "exec"), vars(module))
    finally:
        del sys.modules["page"]


def follow(page: Path, directory: Path, marks: tuple[str, ...] = (), path: Mapping[str, str] | None = None) -> int:
    """Do what a page says, in its order: save its files, run its commands, see that they print what it shows.

    ``path`` is the environment, this Python's programs first unless given. Returns how many commands were run.
    """
    environment = dict(path or programs())
    done = 0
    for block in blocks(page):
        if block.word == "file":
            (directory / block.said).write_text(block.text)
        elif block.language == "console" and (block.word is None or (block.word == "run" and block.said in marks)):
            for command, shown in block.commands():
                _run(command, shown, directory, environment)
                done += 1
    return done


def programs() -> dict[str, str]:
    """An environment in which ``paceline`` is that of this Python."""
    return os.environ | {"PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"}


def programs_with(paceline: list[str], folder: Path, python_path: Path | None = None) -> dict[str, str]:
    """An environment in which ``paceline`` runs these words, by way of a script in a new folder.

    Python finds modules in ``python_path`` first, and nowhere else than where it would without any if that is None.
    """
    folder.mkdir()
    script = folder / "paceline"
    script.write_text(f'#!/bin/sh\nexec {shlex.join(paceline)} "$@"\n')
    script.chmod(0o755)
    environment = {key: value for key, value in os.environ.items() if key != "PYTHONPATH"}
    environment["PATH"] = f"{folder}{os.pathsep}{environment['PATH']}"
    return environment | ({} if python_path is None else {"PYTHONPATH": str(python_path)})


def run(command: str, directory: Path, environment: dict[str, str]) -> str:
    """Type a command, which must end well; what it printed."""
    ended = subprocess.run(
        command,
        shell=True,
        cwd=directory,
        env=environment,
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    assert ended.returncode == 0, f"{command}\n{ended.stdout}{ended.stderr}"
    return ended.stdout + ended.stderr


def _run(command: str, shown: list[str], directory: Path, environment: dict[str, str]) -> None:
    printed = run(command, directory, environment)
    lines = iter([_shape(line) for line in printed.splitlines()])
    for line in shown:
        wanted = _shape(line)
        assert wanted in lines, f"{command}\nprinted no line like\n{line}\nafter those before it, but\n{printed}"


def _shape(line: str) -> str:
    """A line whatever its numbers: another processor may round differently."""
    return " ".join(re.sub(r"\d[\d.,]*", "#", line).split())
