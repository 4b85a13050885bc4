"""What another process writes into its log, told as it comes."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from paceline.reading import cleaned


class Follower:
    """Reads a log as it grows, from where it ends now."""

    def __init__(self, path: Path, say: Callable[[str], None]) -> None:
        self._path = path
        self._say = say
        self._read = path.stat().st_size if path.exists() else 0

    def look(self) -> None:
        """Tell what has been written since the last look."""
        try:
            with self._path.open("rb") as file:
                file.seek(self._read)
                data = file.read()
        except FileNotFoundError:
            return
        whole = data[: data.rfind(b"\n") + 1]
        self._read += len(whole)
        for line in whole.decode(errors="replace").splitlines():
            self._say(cleaned(line, 2000))
