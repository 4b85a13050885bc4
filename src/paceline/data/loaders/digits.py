"""The embedded default: 1,797 handwritten digits of 8x8 pixels that scikit-learn carries."""

from __future__ import annotations

import numpy as np

from paceline.data.dataset import Dataset, image_dataset
from paceline.seeds import stream


def digits() -> Dataset:
    """Four fifths to train on, one fifth to test on, always the same ones."""
    from sklearn.datasets import load_digits

    bunch = load_digits()
    # Pixels are 0..16; spread over 0..255 each level keeps a byte of its own.
    images = np.rint(bunch.images * (255 / 16)).astype(np.uint8)[:, None]
    labels = bunch.target.astype(np.int64)
    order = stream(0, "digits").permutation(len(labels))
    cut = len(labels) * 4 // 5
    train, test = order[:cut], order[cut:]
    return image_dataset("digits", (images[train], labels[train]), (images[test], labels[test]), 10)
