"""Operations of networks: by hand for small layers, by the papers for whole networks."""

import pytest
import torch
from torch import nn

from paceline.errors import CostError
from paceline.learn.flops import COUNTERS, forward_flops, training_flops
from paceline.learn.models import build


@pytest.mark.parametrize(
    ("name", "shape", "classes", "samples", "tera"),
    [
        # DA-DPFL, derived targets of Table II: five epochs over the samples of one client.
        ("resnet18", (3, 32, 32), 10, 500, 8.33),
        ("vgg11", (3, 32, 32), 100, 500, 2.29),
        ("alexnet", (3, 64, 64), 10, 650, 3.67),
    ],
)
def test_the_training_cost_of_da_dpfls_networks(name, shape, classes, samples, tera):
    cost = training_flops(build(name, shape, classes), shape, 5 * samples)
    assert round(cost / 1e12, 2) == tera


@pytest.mark.parametrize(
    ("layer", "shape", "expected"),
    [
        (nn.Linear(7, 3), (7,), 3 * (2 * 7 + 1)),
        (nn.Linear(7, 3, bias=False), (5, 7), 5 * 3 * 2 * 7),
        (nn.Conv2d(3, 4, 3), (3, 8, 8), 4 * 36 * (2 * 27 + 1)),
        (nn.Conv2d(4, 8, 3, groups=2, stride=2, padding=1, bias=False), (4, 8, 8), 8 * 16 * 2 * 18),
        (nn.Conv1d(2, 3, 4), (2, 10), 3 * 7 * (2 * 8 + 1)),
        # Each of 2*3*3 inputs reaches 5 channels through a 2x2 kernel; the output is 5x6x6.
        (nn.ConvTranspose2d(2, 5, 2, stride=2), (2, 3, 3), 18 * 2 * 20 + 180),
    ],
)
def test_a_layer_counted_by_hand(layer, shape, expected):
    assert forward_flops(nn.Sequential(layer), shape) == {"0": expected}


def test_a_layer_called_twice_counts_twice():
    shared = nn.Linear(4, 4, bias=False)
    assert forward_flops(nn.Sequential(shared, nn.ReLU(), shared), (4,)) == {"0": 2 * 2 * 16}


def test_density_scales_its_own_layer_only():
    model = build("mlp:3", (4,), 2)
    dense = training_flops(model, (4,), 10)
    sparse = training_flops(model, (4,), 10, {"1": 0.25})
    first = 3 * 10 * 3 * (2 * 4 + 1)
    assert dense - sparse == pytest.approx(0.75 * first)
    assert training_flops(model, (4,), 10, {"1.weight": 0.25}) == sparse


@pytest.mark.parametrize(
    ("density", "complaint"),
    [({"first": 0.5}, "'first', which is no layer"), ({"1": 1.5}, "density of '1' is 1.5")],
)
def test_impossible_densities_are_refused(density, complaint):
    with pytest.raises(CostError, match=complaint):
        training_flops(build("mlp:3", (4,), 2), (4,), 10, density)


def test_an_unknown_layer_is_named_and_can_be_taught(monkeypatch):
    model = nn.Sequential(nn.Linear(4, 4), nn.GRU(4, 4))
    with pytest.raises(CostError, match=r"1 .GRU.*COUNTERS\[GRU\]"):
        forward_flops(model, (4,))
    monkeypatch.setitem(COUNTERS, nn.GRU, lambda layer, inside, out: 17.0)
    assert forward_flops(model, (4,))["1"] == 17.0


def test_parameters_used_behind_the_modules_back_are_an_error():
    class Sly(nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = nn.Linear(4, 4)

        def forward(self, x):
            return x @ self.layer.weight

    with pytest.raises(CostError, match="layer: forward uses the parameters without calling"):
        forward_flops(Sly(), (4,))


def test_counting_leaves_no_trace():
    model = nn.Sequential(nn.Conv2d(1, 2, 3), nn.BatchNorm2d(2), nn.Dropout(0.5), nn.Flatten(), nn.Linear(72, 2))
    before = {name: value.clone() for name, value in model.state_dict().items()}
    state = torch.get_rng_state()
    assert forward_flops(model, (1, 8, 8))["1"] == 0
    assert all(torch.equal(before[name], value) for name, value in model.state_dict().items())
    assert torch.equal(torch.get_rng_state(), state)
    assert model.training
    assert not any(module._forward_hooks for module in model.modules())
