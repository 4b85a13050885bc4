"""The embedded default: 1,797 handwritten digits of 8x8 pixels that scikit-learn carries."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from paceline.data.dataset import Dataset, image_dataset
from paceline.seeds import stream


def digits() -> Dataset:
    """Four fifths to train on, one fifth to test on, always the same ones."""
    table = _table()
    # Pixels are 0..16; spread over 0..255 each level keeps a byte of its own.
    images = np.rint(table[:, :-1].reshape(-1, 1, 8, 8) * (255 / 16)).astype(np.uint8)
    labels = table[:, -1].astype(np.int64)
    order = stream(0, "digits").permutation(len(labels))
    cut = len(labels) * 4 // 5
    train, test = order[:cut], order[cut:]
    return image_dataset("digits", (images[train], labels[train]), (images[test], labels[test]), 10)


def _table() -> NDArray[np.uint8]:
    """One row a picture: its 64 pixels and its label.

    The file is read without its package: to import scikit-learn takes a second and 100 MB, and nothing else needs it.
    """
    package = find_spec("sklearn")
    assert package is not None and package.submodule_search_locations, "Paceline requires scikit-learn"
    return np.loadtxt(
        Path(package.submodule_search_locations[0]) / "datasets" / "data" / "digits.csv.gz",
        dtype=np.uint8,
        delimiter=",",
    )
