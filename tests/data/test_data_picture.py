"""The picture of a partition."""

from __future__ import annotations

import numpy as np
import pytest

from paceline.data.partition import parse_partition
from paceline.data.picture import _order, draw_partition
from paceline.seeds import stream


@pytest.mark.parametrize(("clients", "classes", "text"), [(20, 10, "dirichlet:0.5"), (120, 30, "powerlaw:0.7")])
def test_draws_a_picture_with_one_colour_per_class(tmp_path, clients, classes, text):
    from PIL import Image

    labels = np.arange(6000) % classes
    part = parse_partition(text).split(labels, clients, stream(0, "picture"))
    path = tmp_path / "partition.png"
    draw_partition(part, labels, classes, path, "A title")
    with Image.open(path) as image:
        assert image.size == (1500, 780)
        colours = {colour for count, colour in image.convert("RGB").getcolors(1 << 20) if count > 300}
    assert len(colours) >= classes


def test_many_clients_stand_beside_their_like_and_few_keep_their_number():
    counts = np.tile(np.eye(3, dtype=np.int64) * 5 + 1, (30, 1))
    assert (np.diff(counts[_order(counts)].argmax(axis=1)) >= 0).all()
    assert (_order(counts[:30]) == np.arange(30)).all()
