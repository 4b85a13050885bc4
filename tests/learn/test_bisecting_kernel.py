"""The kernel that counts keys below bounds, against counting layer by layer.

It runs on a CUDA device or, with TRITON_INTERPRET=1, in Triton's interpreter (that of Triton 3.6 wants numpy below
2.4).
"""

import os

import pytest
import torch

from paceline.learn.kernels import convolution as kernels
from paceline.learn.space import Slot
from paceline.learn.sparsity import bisecting, choosing

INTERPRETED = os.environ.get("TRITON_INTERPRET") == "1"
DEVICE = "cpu" if INTERPRETED or not torch.cuda.is_available() else "cuda"
pytestmark = [
    pytest.mark.skipif(
        kernels.triton is None or not (INTERPRETED or torch.cuda.is_available()),
        reason="the kernel needs Triton, and a CUDA device or TRITON_INTERPRET=1",
    ),
    # The interpreter's own way with numpy.
    pytest.mark.filterwarnings("ignore:Conversion of an array:DeprecationWarning"),
]
# Layers of one weight, of exactly a tile, of more than two; with gaps between them.
SPANS = ((0, 1), (3, 3 + bisecting.TILE), (9000, 9000 + 2 * bisecting.TILE + 5), (30000, 30007))


def make_keys(dtype, most=None):
    most = most or torch.iinfo(dtype).max
    generator = torch.Generator().manual_seed(5)
    return torch.randint(0, most, (3, 30010), dtype=dtype, generator=generator).to(DEVICE)


@pytest.mark.parametrize("dtype", [torch.int32, torch.int64])
def test_counts_are_those_of_layer_by_layer(dtype):
    keys = make_keys(dtype)
    generator = torch.Generator().manual_seed(6)
    bounds = torch.randint(0, torch.iinfo(dtype).max, (3, len(SPANS)), dtype=dtype, generator=generator).to(DEVICE)
    have, want = (way(keys, SPANS)(bounds) for way in (bisecting._by_kernel, bisecting._by_layers))
    assert have.tolist() == want.tolist()
    assert want.sum() > 0


@pytest.mark.parametrize("most", [7, None])
def test_the_choice_is_that_of_histograms(most, monkeypatch):
    keys = make_keys(torch.int32, most)  # of seven different keys nearly all are tied
    slots = [Slot(f"{start}", (stop - start,), start, stop) for start, stop in SPANS]
    counts = torch.tensor([[1, 5000, 0, 3], [0, 1, 16389, 7], [1, bisecting.TILE, 12000, 1]]).to(DEVICE)
    monkeypatch.setattr(bisecting, "_usable", lambda _: True)
    for slot, count, chosen in zip(
        slots, counts.unbind(1), bisecting.smallest_of_layers(keys, slots, counts), strict=True
    ):
        assert torch.equal(chosen, choosing.smallest(keys[:, slot.start : slot.stop], count))
