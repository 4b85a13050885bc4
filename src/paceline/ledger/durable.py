"""Files that outlive the machine, not only the process: the system is told to write them to the disk now.

What a process has written is safe from its own death at once, but from a power cut only some seconds later, and of a
file that was replaced there may then be nothing at all. So whatever a run cannot be resumed without is flushed, and
so is all that it leaves behind before its checkpoints go.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import IO, Any


def to_disk(path: Path) -> None:
    """Have the system write this file, or this folder's list of files, to the disk now."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def flush(file: IO[Any], *, durably: bool) -> None:
    """Give what was written into an open file to the system, and have it written to the disk if that is wanted."""
    file.flush()
    if durably:
        os.fsync(file.fileno())


def all_to_disk(folders: Iterable[Path]) -> None:
    """Have the system write all files that are in these folders, and in folders of theirs."""
    for top in folders:
        for folder, _, names in os.walk(top):
            for path in (Path(folder) / name for name in names):
                # Others may have things of their own here: an editor's link to nowhere, a pipe, a file that goes.
                with suppress(FileNotFoundError, PermissionError):
                    if stat.S_ISREG(path.lstat().st_mode):
                        to_disk(path)
            to_disk(Path(folder))


def replace_durably(path: Path, text: str) -> None:
    """Write a file whole or not at all, also when the power goes."""
    draft = path.with_suffix(".part")
    draft.write_text(text, encoding="utf-8")
    to_disk(draft)
    draft.replace(path)
    to_disk(path.parent)
