"""Datasets by name: load one, list what is here, verify what is here."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from paceline.data.dataset import Dataset
from paceline.data.files import Found, Layout, data_root, md5
from paceline.data.loaders.mnist import idx_digest
from paceline.data.own import is_own, load_own
from paceline.data.specs import SPECS, Spec
from paceline.errors import DataError, PacelineError, SettingError, nearest
from paceline.reading import plain_number, shown
from paceline.references import announced

OPTIONS = {"size": 512, "clients": 10_000, "alpha": 1000, "beta": 1000}
"""The greatest of the numbers that may follow a name: pixels a side, clients, and how far these differ."""


@dataclass(frozen=True, kw_only=True)
class Entry:
    """What the catalogue of datasets says of one of them."""

    name: str
    present: bool
    files: tuple[Path, ...]
    """The files it would be read from; empty for what needs none or is not here."""
    licence: str
    how_to_get: str
    shape: tuple[int, ...]
    classes: int


@dataclass(frozen=True)
class Check:
    """One thing that was verified about a dataset, and what came of it."""

    what: str
    ok: bool
    detail: str


@dataclass(frozen=True)
class Report:
    """All that was verified about one dataset."""

    name: str
    checks: tuple[Check, ...]

    @property
    def ok(self) -> bool:
        """Whether every check passed."""
        return all(check.ok for check in self.checks)


def load(name: str, root: Path | None = None) -> Dataset:
    """The dataset of this name, read from the data root ($PACELINE_DATA, else the user's cache).

    Some names take numbers: ``ham10000:28`` (side in pixels), ``synthetic:0.5,0.5`` (α, β).
    """
    spec, options = parse_name(name)
    if spec.make is not None:
        return spec.make(*options)
    layout, found = _locate(spec, data_root(root))
    try:
        return layout.read(found, options)
    except PacelineError:
        raise
    except Exception as problem:  # a damaged file can fail in any way
        raise DataError(
            f"{spec.name}: {found[0][0].parent} cannot be read: {type(problem).__name__}: {problem}; fetch it again"
        ) from problem


def catalogue(root: Path | None = None) -> list[Entry]:
    """Every dataset Paceline knows, and whether it is here."""
    return [_entry(spec, data_root(root)) for spec in SPECS.values()]


def verify(name: str, root: Path | None = None) -> Report:
    """Read a dataset and compare it with what its publisher says: digests, counts, shape, labels."""
    spec, _ = parse_name(name)
    here = _find(spec, data_root(root))
    digests = [] if here is None else list(_digest_checks(spec, here[1]))
    try:
        dataset = load(name, root)
    except DataError as error:
        return Report(name, (*digests, Check("readable", False, str(error))))
    readable = Check("readable", True, f"as {dataset.name}")
    return Report(name, (*digests, readable, *_content_checks(spec, dataset, ":" in name)))


def parse_name(text: str) -> tuple[Spec, tuple[float, ...]]:
    """Split ``name:1,2`` into the dataset and its numbers; data of the user's own are loaded to be described."""
    name, _, rest = text.partition(":")
    if name not in SPECS and is_own(text):
        return _own_spec(load_own(text)), ()
    if name not in SPECS:
        raise SettingError(
            f"no dataset is called {shown(name)}; {nearest(name, (*SPECS, *announced('datasets')))} Data of your own"
            " are written package.module:function, or file.npz, or file.csv"
        )
    spec = SPECS[name]
    words = rest.split(",") if rest else []
    try:
        options = tuple(plain_number(word.strip()) for word in words)
    except ValueError:
        raise SettingError(f"dataset {shown(text)}: what follows the colon must be numbers") from None
    if len(options) > len(spec.options):
        takes = f"takes only {', '.join(spec.options)}" if spec.options else "takes no numbers"
        raise SettingError(f"dataset {shown(text)}: {name} {takes}")
    _check_options(text, dict(zip(spec.options, options, strict=False)))
    return spec, options


def _own_spec(dataset: Dataset) -> Spec:
    return Spec(
        name=dataset.name,
        shape=dataset.shape,
        classes=dataset.classes,
        licence="your own",
        how_to_get="your own",
        counts=(len(dataset.y_train), len(dataset.y_test)),
        make=lambda: dataset,
    )


def _check_options(text: str, named: dict[str, float]) -> None:
    for key, value in named.items():
        most = OPTIONS[key]
        whole = key in ("size", "clients")
        if not int(whole) <= value <= most or (whole and value != int(value)):
            wanted = "a whole number of at least 1" if whole else "a number of at least 0"
            raise SettingError(f"dataset {shown(text)}: {key} is {value:g}, wanted {wanted}, at most {most:,}")


def _find(spec: Spec, root: Path) -> tuple[Layout, Found] | None:
    for layout in spec.layouts:
        if (found := layout.find(root)) is not None:
            return layout, found
    return None


def _locate(spec: Spec, root: Path) -> tuple[Layout, Found]:
    if (here := _find(spec, root)) is not None:
        return here
    tried = "\n  ".join(line for layout in spec.layouts for line in layout.tried(root))
    raise DataError(
        f"{spec.name} is not here. Looked for any one of\n  {tried}\n"
        f"To get it ({spec.licence}): {spec.how_to_get}.\n"
        f"The data root is {root}; set PACELINE_DATA to look elsewhere."
    )


def _entry(spec: Spec, root: Path) -> Entry:
    here = _find(spec, root)
    return Entry(
        name=spec.name,
        present=spec.make is not None or here is not None,
        files=() if here is None else tuple(path for paths in here[1] for path in paths),
        licence=spec.licence,
        how_to_get=spec.how_to_get,
        shape=spec.shape,
        classes=spec.classes,
    )


def _digest_checks(spec: Spec, found: Found) -> Iterator[Check]:
    for path in (path for paths in found for path in paths):
        if path.name in spec.digests:
            came, wanted = md5(path), spec.digests[path.name]
            detail = "as published" if came == wanted else f"MD5 {came}, published {wanted}"
            yield Check(f"digest of {path.name}", came == wanted, detail)


def _content_checks(spec: Spec, dataset: Dataset, reshaped: bool) -> Iterator[Check]:
    yield Check("shape", reshaped or dataset.shape == spec.shape, f"{dataset.shape}")
    yield Check("classes", dataset.classes == spec.classes, f"{dataset.classes}")
    counts = len(dataset.y_train), len(dataset.y_test)
    wanted = "" if spec.counts is None else f", published {spec.counts[0]} + {spec.counts[1]}"
    yield Check("counts", spec.counts in (None, counts), f"{counts[0]} + {counts[1]}{wanted}")
    seen = len(np.unique(dataset.y_train))
    yield Check("labels", seen == spec.classes, f"{seen} of {spec.classes} classes occur in training")
    if spec.idx_digests:
        parts = (dataset.x_train[:, 0], dataset.y_train, dataset.x_test[:, 0], dataset.y_test)
        same = tuple(idx_digest(part) for part in parts) == spec.idx_digests
        yield Check("content", same, "every byte as published" if same else "differs from the published bytes")
