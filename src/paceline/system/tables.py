"""CSV files of measurements: every complaint names the file and the row."""

from __future__ import annotations

import csv
import io
from collections import Counter
from collections.abc import Collection, Iterator
from pathlib import Path

from paceline.errors import DataError, nearest
from paceline.reading import MIB, expanded, plain_number, read_text, shown
from paceline.system.cost import MOST, is_figure, wanted

LARGEST = 512 * MIB
"""Bytes of a table: ten million devices, or months of a link, recorded every second."""


class Row:
    """One row of a table, with its place in the file (the header is row 1)."""

    __slots__ = ("_cells", "_columns", "_line", "_path")

    def __init__(self, path: Path, line: int, columns: dict[str, int], cells: list[str]) -> None:
        self._path = path
        self._line = line
        self._columns = columns
        self._cells = cells

    def __contains__(self, column: str) -> bool:
        return column in self._columns

    @property
    def columns(self) -> list[str]:
        """The names in the header."""
        return list(self._columns)

    def text(self, column: str) -> str:
        """The cell as text, which must not be empty."""
        cell = self._cell(column)
        if not cell:
            raise self.wrong(f"{column} is empty")
        return cell

    def blank(self, column: str) -> bool:
        """Whether nothing stands in a cell."""
        return not self._cell(column)

    def _cell(self, column: str) -> str:
        place = self._columns[column]
        return self._cells[place].strip() if place < len(self._cells) else ""

    def number(self, column: str, *, positive: bool = False, most: float = MOST) -> float:
        """The cell as a number of at least 0, or above 0, that can be added up with others like it."""
        cell = self.text(column)
        try:
            value = plain_number(cell)
        except ValueError:
            raise self.wrong(f"{column} is {shown(cell)}; wanted a number") from None
        if not is_figure(value, most) and (positive or value != 0):
            raise self.wrong(f"{column} is {value:g}; wanted {wanted(most, zero=not positive)}")
        return value

    def wrong(self, complaint: str) -> DataError:
        """An error that names this row."""
        return DataError(f"{self._path}, row {self._line}: {complaint}; correct or delete the row")


def read_table(path: str | Path, columns: Collection[str]) -> Iterator[Row]:
    """The rows of a CSV file that must have these columns and at least one row."""
    file = expanded(path)
    empty = True
    try:
        # Not a dictionary a row: a long header and short rows would fill the memory.
        reader = csv.reader(io.StringIO(read_text(file, most=LARGEST), newline=""), skipinitialspace=True)
        header = next(reader, [])
        _check_header(file, header, columns)
        places = {column: place for place, column in enumerate(header)}
        for cells in filter(None, reader):
            empty = False
            yield _row(file, reader.line_num, places, cells)
    except FileNotFoundError:
        raise DataError(f"there is no file {file}; give the path of a CSV file") from None
    except csv.Error as wrong:
        raise DataError(f"{file} cannot be read as CSV: {wrong}") from wrong
    if empty:
        raise DataError(f"{file} has a header and no rows; it must hold at least one")


def _row(file: Path, line: int, columns: dict[str, int], cells: list[str]) -> Row:
    row = Row(file, line, columns, cells)
    if len(cells) > len(columns):
        raise row.wrong(f"it has more cells than the header, such as {shown(cells[len(columns)])}")
    if any("\0" in cell for cell in cells):
        raise row.wrong("it holds a zero byte, so it is no text")
    return row


def _check_header(file: Path, header: Collection[str], columns: Collection[str]) -> None:
    twice = next((column for column, count in Counter(header).items() if count > 1), None)
    if twice is not None:
        raise DataError(f"{file}, row 1: the column {shown(twice)} is there twice; leave one out")
    for column in columns:
        if column not in header:
            found = ", ".join(header)[:200] or "nothing"
            raise DataError(
                f"{file}, row 1: no column {column!r}; the header must name "
                f"{', '.join(columns)} and has {found} ({nearest(column, [name[:40] for name in list(header)[:20]])})"
            )
