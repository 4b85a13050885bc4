"""A data set of a user's own: three clouds of points."""

import numpy as np


def load():
    rng = np.random.default_rng(7)
    y = np.arange(400) % 3
    x = rng.normal(size=(400, 6)) + 2.0 * np.eye(3, 6)[y]
    return (x[:300], y[:300]), (x[300:], y[300:])
