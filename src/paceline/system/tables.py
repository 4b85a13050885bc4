"""CSV files of measurements: every complaint names the file and the row."""

from __future__ import annotations

import csv
import math
from collections.abc import Collection, Iterator
from pathlib import Path

from paceline.errors import DataError, nearest


class Row:
    """One row of a table, with its place in the file (the header is row 1)."""

    __slots__ = ("_cells", "_line", "_path")

    def __init__(self, path: Path, line: int, cells: dict[str, str | None]) -> None:
        self._path = path
        self._line = line
        self._cells = cells

    def __contains__(self, column: str) -> bool:
        return column in self._cells

    @property
    def columns(self) -> list[str]:
        """The names in the header."""
        return [str(name) for name in self._cells]

    def text(self, column: str) -> str:
        """The cell as text, which must not be empty."""
        cell = (self._cells[column] or "").strip()
        if not cell:
            raise self.wrong(f"{column} is empty")
        return cell

    def number(self, column: str, *, positive: bool = False) -> float:
        """The cell as a finite number of at least 0, or above 0."""
        cell = self.text(column)
        try:
            value = float(cell)
        except ValueError:
            raise self.wrong(f"{column} is {cell!r}; wanted a number") from None
        if not math.isfinite(value) or value < 0 or (positive and value == 0):
            raise self.wrong(f"{column} is {cell}; wanted a finite number {'above 0' if positive else '>= 0'}")
        return value

    def wrong(self, complaint: str) -> DataError:
        """An error that names this row."""
        return DataError(f"{self._path}, row {self._line}: {complaint}; correct or delete the row")


def read_table(path: str | Path, columns: Collection[str]) -> Iterator[Row]:
    """The rows of a CSV file that must have these columns and at least one row."""
    file = Path(path).expanduser()
    try:
        with file.open(newline="", encoding="utf-8-sig") as lines:
            reader = csv.DictReader(lines, skipinitialspace=True)
            _check_header(file, reader.fieldnames or (), columns)
            for cells in reader:
                yield Row(file, reader.line_num, cells)
            if reader.line_num < 2:
                raise DataError(f"{file} has a header and no rows; it must hold at least one")
    except FileNotFoundError:
        raise DataError(f"there is no file {file}; give the path of a CSV file") from None
    except (OSError, UnicodeDecodeError, csv.Error) as wrong:
        raise DataError(f"{file} cannot be read as CSV: {wrong}") from wrong


def _check_header(file: Path, header: Collection[str], columns: Collection[str]) -> None:
    for column in columns:
        if column not in header:
            found = ", ".join(header) or "nothing"
            raise DataError(
                f"{file}, row 1: no column {column!r}; the header must name "
                f"{', '.join(columns)} and has {found} ({nearest(column, header)})"
            )
