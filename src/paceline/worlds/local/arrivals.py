"""The bytes that came to servers, in one file: what a run that is gone on with cannot compute again by itself."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import BinaryIO

from paceline.errors import DataError
from paceline.ledger.durable import flush
from paceline.reading import open_file


class Arrivals:
    """A file to which is added, and of which every part can be read again."""

    def __init__(self, path: Path, budget: float, *, durable: bool = False) -> None:
        self.path = path
        self._durable = durable
        """Whether all is on the disk before the journal says that it came."""
        self.complete = True
        """Whether all that came is there: no more is kept when the budget is spent."""
        self._budget = budget
        self._file: BinaryIO | None = None

    def add(self, blobs: Sequence[bytes]) -> tuple[tuple[int, int], ...]:
        """Keep these; where each begins, and its length."""
        if self._file is None:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            self._file = self.path.open("ab")
        begin, size = self._file.tell(), sum(map(len, blobs))
        if not self.complete or begin + size > self._budget:
            self.complete = False
            return ()
        found = []
        for data in blobs:
            found.append((begin, len(data)))
            begin += len(data)
            self._file.write(data)
        flush(self._file, durably=self._durable)
        return tuple(found)

    def read(self, begin: int, size: int) -> bytes:
        """Read what was kept at this place of the file."""
        try:
            with open_file(self.path) as file:
                file.seek(begin)
                data = file.read(size)
        except OSError as problem:
            raise DataError(f"{self.path} cannot be read: {problem.strerror}") from None
        if len(data) != size:
            raise DataError(f"{self.path} is damaged: it ends before what came at byte {begin}")
        return data

    def cut(self, size: int) -> None:
        """Take off what was written after the last entry of the journal."""
        if self.path.exists() and self.path.stat().st_size > size:
            os.truncate(self.path, size)

    def close(self) -> None:
        """Close the file; nothing can be kept there any more."""
        if self._file is not None:
            self._file.close()
            self._file = None
