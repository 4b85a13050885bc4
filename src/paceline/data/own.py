"""Datasets of your own: arrays at hand, a function that loads them, or a file.

``(train, test)``, each ``(x, y)`` arrays or anything with a length whose items are ``(x, y)`` (a torch ``Dataset``).
Bytes are images, (n, channels, height, width), and are normalised by their own statistics; other numbers are taken
as they are. ``.npz`` files hold x_train, y_train, x_test and y_test; ``.csv`` files have their labels in the column
``label``, or in the last one, and every fifth row is kept for testing.
"""

from __future__ import annotations

import csv
import io
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from paceline.data.archives import LARGEST, read_arrays
from paceline.data.dataset import Dataset, image_dataset, whole
from paceline.errors import DataError, PacelineError
from paceline.reading import State, expanded, plain_number, read_text, state_of
from paceline.references import LENT, announced, is_reference, load_announced, load_reference

FILES = (".npz", ".csv")
PARTS = ("x_train", "y_train", "x_test", "y_test")
TEST_EVERY = 5
"""Of a CSV file, which has one part only, every so many rows are kept for testing."""
LONGEST_WORD = 1000
"""Characters of a label in an array, where every word takes the room of the longest."""
_LENT: dict[str, Dataset] = LENT["dataset"]


def lend_dataset(data: Any, name: str = "") -> str:
    """A name for data that are at hand; see the module's text for what they may be.

    >>> import numpy as np
    >>> x, y = np.random.default_rng(0).normal(size=(50, 4)), np.arange(50) % 2
    >>> lend_dataset(((x[:40], y[:40]), (x[40:], y[40:]))).startswith("given:")
    True
    """
    word = name or f"given:data{len(_LENT)}"
    _LENT[word] = data if isinstance(data, Dataset) else dataset_from(data, word)
    return word


def is_own(word: str) -> bool:
    """Whether a word names data of the user's own rather than one of the datasets that Paceline knows."""
    return word in _LENT or word.endswith(FILES) or word in announced("datasets") or is_reference(word)


def load_own(word: str) -> Dataset:
    """The data that such a word names."""
    return _LENT[word] if word in _LENT else _load_once(word, state_of(word))


@lru_cache(maxsize=8)
def _load_once(word: str, _known_by: State) -> Dataset:
    if word.endswith(".npz"):
        return _read_npz(expanded(word))
    if word.endswith(".csv"):
        return _read_csv(expanded(word))
    if word in announced("datasets"):
        return _called(load_announced(announced("datasets")[word], DataError), word)
    return _called(load_reference(word, "dataset", DataError), word)


def _called(factory: Any, word: str) -> Dataset:
    if not callable(factory):
        raise DataError(f"{word!r} is a {type(factory).__name__}; wanted a function that returns (train, test)")
    try:
        made = factory()
    except PacelineError:
        raise
    except Exception as problem:  # whatever a user's code raises
        raise DataError(f"{word!r} was called and raised {type(problem).__name__}: {problem}") from problem
    return made if isinstance(made, Dataset) else dataset_from(made, word)


def dataset_from(data: Any, name: str) -> Dataset:
    """A checked dataset from ``(train, test)``."""
    if not isinstance(data, tuple | list) or len(data) != 2:
        raise DataError(f"{name} gives {_described(data)}; wanted (train, test), each (x, y) or a torch Dataset")
    (x_train, y_train), (x_test, y_test) = _pair(data[0], f"{name}, train"), _pair(data[1], f"{name}, test")
    classes, (y_train, y_test) = _numbered(name, y_train, y_test)
    x_train, x_test = _samples(x_train, f"{name}, train"), _samples(x_test, f"{name}, test")
    if x_train.dtype == np.uint8:
        return image_dataset(name, (x_train, y_train), (x_test, y_test), classes)
    return Dataset(
        name=name, x_train=x_train, y_train=y_train, x_test=x_test, y_test=y_test, classes=classes,
        mean=(0.0,), std=(1.0,),
    )  # fmt: skip


def _described(thing: object) -> str:
    count = f" of {len(thing)}" if isinstance(thing, tuple | list) else ""
    return f"a {type(thing).__name__}{count}"


def _pair(part: Any, where: str) -> tuple[NDArray[Any], NDArray[Any]]:
    if isinstance(part, tuple | list) and len(part) == 2 and hasattr(part[0], "__len__"):
        return _as_array(part[0], f"{where}, x"), _as_array(part[1], f"{where}, y")
    if isinstance(part, np.ndarray) or not hasattr(part, "__len__") or not hasattr(part, "__getitem__"):
        raise DataError(f"{where}: {_described(part)}; wanted (x, y), or a torch Dataset, which has a length")
    try:
        items = [part[k] for k in range(len(part))]
        return np.stack([np.asarray(x) for x, *_ in items]), np.asarray([np.asarray(item[1]) for item in items])
    except (TypeError, ValueError, IndexError) as problem:
        raise DataError(f"{where}: its items cannot be read as (x, y) of equal shapes: {problem}") from problem


def _as_array(values: Any, where: str) -> NDArray[Any]:
    try:
        return np.asarray(values)
    except (TypeError, ValueError, OverflowError, RuntimeError) as problem:  # rows of several lengths, say
        raise DataError(f"{where} cannot be read as an array: {problem}") from None


def _samples(x: NDArray[Any], where: str) -> NDArray[Any]:
    """Bytes as images, everything else as float32."""
    if x.dtype == np.uint8 and x.ndim == 3:
        return x[:, None]
    if x.dtype == np.uint8 and x.ndim == 4:
        return x
    if x.ndim < 2 or x.dtype.kind not in "fiub":
        raise DataError(
            f"{where}: samples are {x.dtype} of shape {x.shape}; wanted numbers of shape (n, features), or images of"
            " shape (n, channels, height, width)"
        )
    return _single(x)


def _single(x: Any) -> NDArray[np.float32]:
    """In single precision; what is too large for it becomes infinite, and is refused as that where it is used."""
    with np.errstate(over="ignore"):
        return np.ascontiguousarray(x, np.float32)


def _numbered(name: str, *parts: NDArray[Any]) -> tuple[int, list[NDArray[np.int64]]]:
    """How many classes there are, and labels as 0, 1, …: whole numbers from 0 as they are, else in sorted order."""
    for part in parts:
        if part.ndim != 1 or part.dtype.kind not in "iufbUS":
            raise DataError(
                f"{name}: labels are {part.dtype} of shape {part.shape}; wanted one whole number or word a sample"
            )
        if part.dtype.kind in "US" and part.dtype.itemsize > LONGEST_WORD * (4 if part.dtype.kind == "U" else 1):
            raise DataError(f"{name}: labels are {part.dtype}; wanted words of at most {LONGEST_WORD:,} characters")
    if all(part.dtype.kind in "iufb" for part in parts):
        numbers = [whole(part, name) for part in parts]
        together = np.concatenate(numbers)
        if len(together) and together.min() >= 0:
            return int(together.max()) + 1, numbers
    labels = np.unique(np.concatenate(parts))
    return len(labels), [np.searchsorted(labels, part).astype(np.int64) for part in parts]


def _read_npz(path: Path) -> Dataset:
    try:
        x_train, y_train, x_test, y_test = read_arrays(path, PARTS).values()
    except FileNotFoundError:
        raise DataError(f"there is no file {path}; give the path of an .npz file") from None
    return dataset_from(((_first(x_train), y_train), (_first(x_test), y_test)), str(path))


def _first(x: NDArray[Any]) -> NDArray[Any]:
    """Images with their channels first: files of images mostly have them last."""
    return np.moveaxis(x, -1, 1) if x.ndim == 4 and x.shape[-1] in (1, 3) and x.shape[1] not in (1, 3) else x


def _read_csv(path: Path) -> Dataset:
    try:
        lines = io.StringIO(read_text(path, most=LARGEST), newline="")
        reader = csv.reader(lines, skipinitialspace=True)
        (_, header), *rows = [(reader.line_num, row) for row in reader if row]
    except FileNotFoundError:
        raise DataError(f"there is no file {path}; give the path of a CSV file") from None
    except (csv.Error, ValueError) as problem:
        raise DataError(f"{path} cannot be read as CSV with a header and rows: {problem}") from problem
    which = header.index("label") if "label" in header else len(header) - 1
    if len(header) < 2 or len(rows) < TEST_EVERY:
        raise DataError(f"{path} has {len(header)} columns and {len(rows)} rows; wanted some features and a label")
    x = _single([_features(path, number, row, header, which) for number, row in rows])
    y = _labels(path, {number: row[which].strip() for number, row in rows})
    test = np.arange(len(rows)) % TEST_EVERY == TEST_EVERY - 1
    return dataset_from(((x[~test], y[~test]), (x[test], y[test])), str(path))


def _features(path: Path, number: int, row: list[str], header: list[str], which: int) -> list[float]:
    if len(row) != len(header):
        raise DataError(f"{path}, row {number} has {len(row)} cells, the header {len(header)}; correct or delete it")
    try:
        return [plain_number(cell) for k, cell in enumerate(row) if k != which]
    except ValueError as problem:
        raise DataError(f"{path}, row {number}: {str(problem)[:200]}; features must be numbers") from None


def _labels(path: Path, rows: dict[int, str]) -> NDArray[Any]:
    """Whole numbers where all cells are numbers, else those of the words."""
    if empty := [number for number, cell in rows.items() if not cell]:
        raise DataError(f"{path}, row {empty[0]}: the label is empty; correct or delete the row")
    cells = [*rows.values()]
    try:
        numbers = np.array([plain_number(cell) for cell in cells])
    except ValueError:
        # Their numbers in sorted order at once: in an array every word takes the room of the longest.
        order = {word: number for number, word in enumerate(sorted(set(cells)))}
        return np.array([order[cell] for cell in cells])
    return whole(numbers, str(path))
