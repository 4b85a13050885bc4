"""HAM10000 (dermatoscopic images from four sites) and DermaMNIST, its 28x28 reduction."""

from __future__ import annotations

import csv
import io
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from paceline.data.archives import read_arrays
from paceline.data.dataset import Dataset, image_dataset, whole
from paceline.data.files import Found, Layout, channels_first, decode_images, sliced
from paceline.errors import DataError
from paceline.reading import read_text
from paceline.seeds import address, uniform_array

LESIONS = ("akiec", "bcc", "bkl", "df", "mel", "nv", "vasc")
SITES = ("rosendahl", "vidir_modern", "vidir_molemax", "vienna_dias")


def held_out(isic: NDArray[np.int64], lesion: NDArray[Any]) -> NDArray[np.bool_]:
    """Which images are for testing: a fifth of the lesions, each with all its images.

    Many lesions were photographed more than once, so a split by image would test on what was trained on. The
    choice hangs on the lesion's smallest image number only, hence is the same for every layout of the files.
    """
    _, which = np.unique(lesion, return_inverse=True)
    first = np.full(which.max() + 1, np.iinfo(np.int64).max)
    np.minimum.at(first, which, isic)
    return uniform_array(address(0, "ham10000", "test"), first[which]) < 0.2


def _assemble(
    sources: list[Any],
    columns: tuple[NDArray[np.int64], NDArray[np.int64], NDArray[Any], NDArray[np.int64] | None],
    options: tuple[float, ...],
    where: str,
) -> Dataset:
    isic, label, lesion, site = columns
    size = int(options[0]) if options else 64
    order = np.argsort(isic, kind="stable")
    images = decode_images([sources[i] for i in order], (size, size), where)
    test = held_out(isic, lesion)[order]
    if not test.any() or test.all():
        raise DataError(f"{where}: {len(isic)} images are too few to set some lesions apart for testing")
    groups = None if site is None else (site[order][~test], site[order][test])
    name = "ham10000" if size == 64 else f"ham10000:{size}"
    y = label[order]
    return image_dataset(name, (images[~test], y[~test]), (images[test], y[test]), 7, groups)


def _read_ham_npz(found: Found, options: tuple[float, ...]) -> Dataset:
    path = found[0][0]
    z = read_arrays(path, ("jpeg", "off", "isic", "y", "lesion", "site"))
    if len({len(z[key]) for key in ("isic", "y", "lesion", "site")} | {len(z["off"]) - 1}) != 1:
        raise DataError(f"{path}: isic, y, lesion, site and off disagree about the number of images")
    sources = sliced(z["jpeg"], z["off"], path)
    isic, y, site = (whole(z[key], f"{path}, {key}") for key in ("isic", "y", "site"))
    columns = (isic, y, z["lesion"], site)
    return _assemble(list(sources), columns, options, str(path))


def _read_ham_folder(found: Found, options: tuple[float, ...]) -> Dataset:
    """The published table and pictures; older tables lack the site, then there are no groups."""
    table = found[0][0]
    pictures = {path.stem: path for path in found[1]}
    text = read_text(table)
    dialect = "excel-tab" if "\t" in text.partition("\n")[0] else "excel"
    rows = list(csv.DictReader(io.StringIO(text, newline=""), dialect=dialect))
    try:
        missing = [row["image_id"] for row in rows if row["image_id"] not in pictures]
        if missing:
            raise DataError(f"{table} names {len(missing)} pictures that are not there, first {missing[0]}.jpg")
        isic = np.array([int(row["image_id"].removeprefix("ISIC_")) for row in rows], np.int64)
        label = np.array([LESIONS.index(row["dx"]) for row in rows], np.int64)
        lesion = np.array([row["lesion_id"] for row in rows])
        known = bool(rows) and "dataset" in rows[0]
        site = np.array([SITES.index(row["dataset"]) for row in rows], np.int64) if known else None
    except (KeyError, ValueError, AttributeError) as error:
        raise DataError(f"{table} is not the HAM10000 table: {type(error).__name__}: {error}") from error
    return _assemble([pictures[row["image_id"]] for row in rows], (isic, label, lesion, site), options, str(table))


def _read_derma(found: Found, _: tuple[float, ...]) -> Dataset:
    """MedMNIST's own train and test parts; its validation part stays unused, so numbers compare."""
    path = found[0][0]
    z = read_arrays(path, ("train_images", "train_labels", "test_images", "test_labels"), ("train_site", "test_site"))
    pairs = [(channels_first(z[f"{p}_images"], path), z[f"{p}_labels"].reshape(-1)) for p in ("train", "test")]
    groups = (z["train_site"], z["test_site"]) if {"train_site", "test_site"} <= set(z) else None
    return image_dataset("dermamnist", pairs[0], pairs[1], 7, groups)


def _derma_folders() -> tuple[str, ...]:
    # medmnist downloads into ~/.medmnist when told nothing else
    return "", "dermamnist", "medmnist", str(Path.home() / ".medmnist")


HAM10000 = (
    Layout(folders=("", "ham10000"), patterns=("ham10000_200x150_jpeg.npz",), read=_read_ham_npz),
    Layout(
        folders=("ham10000", "HAM10000", "skin-cancer-mnist-ham10000"),
        patterns=("HAM10000_metadata*", "**/ISIC_*.jpg"),
        read=_read_ham_folder,
    ),
)

DERMAMNIST = (Layout(folders=_derma_folders(), patterns=("dermamnist.npz",), read=_read_derma),)
