"""The kernels of group normalisation against torch's own in double precision, and where they are used.

They run on a CUDA device or, with TRITON_INTERPRET=1, in Triton's interpreter (that of Triton 3.6 wants numpy below
2.4).
"""

import os

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from paceline.learn.kernels import normalising
from paceline.learn.kernels.lane import Lane
from paceline.learn.models import build
from paceline.learn.programs import layers
from paceline.learn.programs.layers import Add, GroupNormalisation, Normalised, Rectifier
from paceline.learn.programs.reading import layer_program
from paceline.learn.space import Space

INTERPRETED = os.environ.get("TRITON_INTERPRET") == "1"
DEVICE = "cpu" if INTERPRETED or not torch.cuda.is_available() else "cuda"
runs_kernels = pytest.mark.skipif(
    normalising.triton is None or not (INTERPRETED or torch.cuda.is_available()),
    reason="the kernels need Triton, and a CUDA device or TRITON_INTERPRET=1",
)
# The interpreter's own way with numpy.
pytestmark = pytest.mark.filterwarnings("ignore:Conversion of an array:DeprecationWarning")
# Clients, images of each, channels, groups, sides: groups of one to all channels, areas that are no power of two.
CASES = {
    "resnet's first": (1, 3, 64, 32, (32, 32)),
    "resnet's last": (2, 3, 512, 32, (4, 4)),
    "an odd area": (3, 2, 16, 4, (5, 7)),
    "every channel a group": (2, 2, 6, 6, (3, 3)),
    "one group": (2, 3, 8, 1, (6, 5)),
    "three groups of four": (2, 1, 12, 3, (2, 9)),
    "one place": (4, 2, 32, 2, (1, 1)),
}


def make_case(name):
    clients, images, channels, groups, sides = CASES[name]
    generator = torch.Generator().manual_seed(11)
    x = 3 * torch.randn(clients * images, channels, *sides, generator=generator) + 1
    g = torch.randn(clients * images, channels, *sides, generator=generator)
    params = [1 + torch.randn(clients, channels, generator=generator) / 2 for _ in range(2)]
    params[1] -= 1
    moved = [t.to(DEVICE).contiguous(memory_format=torch.channels_last) for t in (x, g)]
    return *moved, [p.to(DEVICE) for p in params], groups


def by_autograd(x, g, params, groups, eps, rectified):
    """Output, gradient of the input, and of scale and shift, client by client in double precision."""
    clients = params[0].shape[0]
    found = []
    for some, pull, scale, shift in zip(x.chunk(clients), g.chunk(clients), *params, strict=True):
        inputs = [t.detach().cpu().double().requires_grad_() for t in (some, scale, shift)]
        out = F.group_norm(inputs[0], groups, inputs[1], inputs[2], eps)
        out = out.relu() if rectified else out
        found.append([out.detach(), *torch.autograd.grad(out, inputs, pull.cpu().double())])
    out, gx, by_scale, by_shift = zip(*found, strict=True)
    return torch.cat(out), torch.cat(gx), torch.stack(by_scale), torch.stack(by_shift)


def close(ours, true, tolerance=2e-5):
    return (ours.cpu().double() - true).abs().max() <= tolerance * true.abs().max().clamp(min=1)


@pytest.fixture
def kernels_everywhere(monkeypatch):
    """Also in the interpreter, where no tensor is on CUDA."""
    monkeypatch.setattr(normalising, "usable", lambda *_: True)
    monkeypatch.setattr(GroupNormalisation, "forward", forward_by_kernels)


def forward_by_kernels(self, lane, x):
    out, mean, rstd = normalising.normalise(x, *self._affine(lane), self.groups, self.eps, self.rectified)
    return out, Normalised(x, mean, rstd)


@runs_kernels
@pytest.mark.parametrize("rectified", [False, True])
@pytest.mark.parametrize("name", CASES)
def test_a_normalisation_is_torchs(name, rectified, kernels_everywhere):
    x, g, params, groups = make_case(name)
    lane = Lane(params[0].shape[0], params, [torch.empty_like(p) for p in params])
    layer = GroupNormalisation(0, 1, groups, 1e-5, rectified)
    out, saved = layer.forward(lane, x)
    (gx,) = layer.backward(lane, saved, g, True)
    assert isinstance(saved, Normalised)
    assert out.is_contiguous(memory_format=torch.channels_last)
    for ours, true in zip((out, gx, *lane.grads), by_autograd(x, g, params, groups, 1e-5, rectified), strict=True):
        assert close(ours, true)


@runs_kernels
def test_without_scale_and_shift(kernels_everywhere):
    x, g, params, groups = make_case("an odd area")
    ones = [torch.ones_like(params[0]), torch.zeros_like(params[1])]
    layer = GroupNormalisation(None, None, groups, 1e-5)
    out, saved = layer.forward(Lane(3, [], []), x)
    (gx,) = layer.backward(Lane(3, [], []), saved, g, True)
    true_out, true_gx, *_ = by_autograd(x, g, ones, groups, 1e-5, False)
    assert close(out, true_out)
    assert close(gx, true_gx)


@runs_kernels
def test_who_shares_the_cohort_changes_no_bit(kernels_everywhere):
    x, g, params, groups = make_case("an odd area")
    layer = GroupNormalisation(0, 1, groups, 1e-5, rectified=True)

    def run(some, which):
        lane = Lane(len(which), [p[which] for p in params], [torch.empty_like(p[which]) for p in params])
        out, saved = layer.forward(lane, x[some])
        return out, layer.backward(lane, saved, g[some], True)[0], *lane.grads

    together = run(slice(0, 6), [0, 1, 2])
    alone = run(slice(2, 4), [1])
    for one, all_ in zip(alone[:2], together[:2], strict=True):
        assert torch.equal(one, all_[2:4])
    for one, all_ in zip(alone[2:], together[2:], strict=True):
        assert torch.equal(one[0], all_[1])


@runs_kernels
def test_what_is_not_a_number_is_not_hidden(kernels_everywhere):
    x, _, params, groups = make_case("one group")
    x[0, 0, 0, 0] = float("nan")
    out, _ = GroupNormalisation(0, 1, groups, 1e-5, rectified=True).forward(Lane(2, params, []), x)
    assert out[0].isnan().all()
    assert not out[1:].isnan().any()


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs CUDA")
def test_addition_with_a_rectifier():
    x, y = (torch.randn(5, 7, 3, 9, device="cuda").contiguous(memory_format=torch.channels_last) for _ in range(2))
    assert torch.equal(normalising.add_rectified(x, y), (x + y).relu())
    assert normalising.add_rectified(x, y.contiguous()) is None


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs CUDA")
def test_what_the_kernels_leave_to_torch():
    image = torch.zeros(2, 12, 8, 8, device="cuda")
    assert normalising.usable(image, 3)
    assert not normalising.usable(image, 4)  # groups of three
    assert not normalising.usable(image.double(), 3)
    assert not normalising.usable(torch.zeros(2, 12, device="cuda"), 3)
    assert not normalising.usable(torch.zeros(1, 8, 256, 256, device="cuda"), 1)
    assert not normalising.usable(image.cpu(), 3)


def rectifiers(module, shape):
    nodes = layer_program(Space("m", lambda: module, shape)).nodes
    merged = [node.layer for node in nodes if getattr(node.layer, "rectified", False)]
    return merged, [node.layer for node in nodes if isinstance(node.layer, Rectifier)]


def test_resnets_rectifiers_are_all_part_of_what_they_follow():
    merged, left = rectifiers(build("resnet18", (3, 32, 32), 10), (3, 32, 32))
    assert [type(layer) for layer in merged].count(GroupNormalisation) == 9  # the stem's, and one in each block
    assert [type(layer) for layer in merged].count(Add) == 8
    assert not left


def test_a_value_that_others_read_keeps_its_own_rectifier():
    class Both(nn.Module):
        def __init__(self):
            super().__init__()
            self.norm = nn.GroupNorm(2, 4)
            self.head = nn.Linear(64, 3)

        def forward(self, x):
            plain = self.norm(x)
            return self.head(torch.flatten(torch.relu(plain) + plain, 1))

    merged, left = rectifiers(Both(), (4, 4, 4))
    assert not merged
    assert len(left) == 1


def test_layers_run_without_kernels_on_a_cpu():
    x, g, params, groups = (t.cpu() if torch.is_tensor(t) else t for t in make_case("an odd area"))
    params = [p.cpu().double() for p in params]
    lane = Lane(3, params, [torch.empty_like(p) for p in params])
    layer = layers.GroupNormalisation(0, 1, groups, 1e-5, rectified=True)
    out, saved = layer.forward(lane, x.double())
    (gx,) = layer.backward(lane, saved, g.double(), True)
    for ours, true in zip((out, gx, *lane.grads), by_autograd(x, g, params, groups, 1e-5, True), strict=True):
        assert close(ours, true, 1e-12)
