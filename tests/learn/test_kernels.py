"""The Triton kernels against torch's own convolution, client by client.

They run on a CUDA device or, with TRITON_INTERPRET=1, in Triton's interpreter (that of Triton 3.6 wants numpy below
2.4).
"""

import os

import pytest
import torch
from torch.nn import functional as F

from paceline.errors import SlowerWay
from paceline.learn import notices
from paceline.learn.kernels import convolution as kernels
from paceline.learn.kernels.lane import Descent, Lane
from paceline.learn.programs.convolution import Convolution

INTERPRETED = os.environ.get("TRITON_INTERPRET") == "1"
DEVICE = "cpu" if INTERPRETED or not torch.cuda.is_available() else "cuda"
runs_kernels = pytest.mark.skipif(
    kernels.triton is None or not (INTERPRETED or torch.cuda.is_available()),
    reason="the kernels need Triton, and a CUDA device or TRITON_INTERPRET=1",
)
# The interpreter's own way with numpy.
pytestmark = pytest.mark.filterwarnings("ignore:Conversion of an array:DeprecationWarning")
# Clients, batch, side, input channels, output channels, kernel, padding: ragged tiles in every direction.
CASES = {
    "few channels": (3, 3, (8, 7), 3, 5, (5, 5), (0, 0)),
    "whole taps, padded": (2, 2, (6, 6), 32, 20, (3, 3), (1, 1)),
    "half taps, many outputs": (2, 2, (5, 5), 16, 130, (3, 1), (1, 0)),
    "single tap, wide padding": (2, 2, (4, 5), 1, 16, (1, 1), (2, 1)),
    "padded channels, one sum": (2, 2, (5, 5), 7, 33, (3, 3), (0, 1)),
    "odd channels": (2, 2, (6, 5), 21, 17, (3, 3), (2, 0)),
    "a shared sum": (2, 4, (40, 32), 3, 8, (5, 5), (2, 2)),
}


@pytest.fixture(autouse=True)
def exact_products():
    before = torch.backends.cudnn.allow_tf32
    torch.backends.cudnn.allow_tf32 = False
    yield
    torch.backends.cudnn.allow_tf32 = before


@pytest.fixture
def kernels_everywhere(monkeypatch):
    monkeypatch.setattr(kernels, "usable", lambda *_: True)


def make_case(name, dtype=torch.float32):
    clients, batch, (high, wide), inputs, outputs, kernel, padding = CASES[name]
    generator = torch.Generator().manual_seed(3)

    def normal(*size):
        return torch.randn(*size, generator=generator).to(DEVICE, dtype)

    x = normal(clients * batch, inputs, high, wide)
    params = [normal(clients, outputs, *kernel, inputs), normal(clients, outputs)]
    out_high, out_wide = high + 2 * padding[0] - kernel[0] + 1, wide + 2 * padding[1] - kernel[1] + 1
    g = normal(clients * batch, outputs, out_high, out_wide)
    return x, params, g, padding


def expected(x, params, g, padding):
    """Torch's convolution and autograd, one client after the other, in float64."""
    clients = len(params[0])
    found = []
    for x_c, w_c, b_c, g_c in zip(x.double().chunk(clients), *params, g.double().chunk(clients), strict=True):
        leaves = [x_c.clone(), w_c.double().permute(0, 3, 1, 2), b_c.double()]
        leaves = [leaf.detach().requires_grad_() for leaf in leaves]
        out = F.conv2d(*leaves, padding=padding)
        gx, gw, gb = torch.autograd.grad(out, leaves, g_c)
        found.append((out.detach(), gx, gw.permute(0, 2, 3, 1), gb))
    out, gx, gw, gb = zip(*found, strict=True)
    return torch.cat(out), torch.cat(gx), torch.stack(gw), torch.stack(gb)


def close(ours, theirs):
    return float((ours.double() - theirs).abs().max() / theirs.abs().max()) < 2e-6


def run(x, params, g, padding, *, descent=None, bias=True, wanted=True):
    params = [p.clone() for p in params]
    lane = Lane(len(params[0]), params, [torch.empty_like(p) for p in params], None, descent)
    layer = Convolution(0, 1 if bias else None, (1, 1), padding, (1, 1), 1)
    out, saved = layer.forward(lane, x)
    (gx,) = layer.backward(lane, saved, g, wanted)
    return out, gx, lane


@runs_kernels
@pytest.mark.parametrize("name", CASES)
def test_gradients_are_torchs(name, kernels_everywhere):
    case = make_case(name)
    out, gx, lane = run(*case)
    for ours, theirs in zip((out, gx, *lane.grads), expected(*case), strict=True):
        assert ours.shape == theirs.shape
        assert close(ours, theirs)


@runs_kernels
@pytest.mark.parametrize("decays", [False, True])
@pytest.mark.parametrize(
    "name", ["few channels", "a shared sum", "half taps, many outputs", "padded channels, one sum"]
)
def test_descent_steps_at_once(name, decays, kernels_everywhere):
    x, params, g, padding = make_case(name)
    keep_C = torch.linspace(0.5, 0.9, len(params[0]), device=DEVICE)
    _, gx, lane = run(x, params, g, padding, descent=Descent(keep_C if decays else None))
    _, gx_wanted, gw, gb = expected(x, params, g, padding)
    keep_C = keep_C if decays else torch.ones_like(keep_C)
    assert close(gx, gx_wanted)  # from the weights before the step
    assert close(lane.params[0], params[0] * keep_C.view(-1, 1, 1, 1, 1) - gw)
    assert close(lane.params[1], params[1] * keep_C.view(-1, 1) - gb)


@runs_kernels
def test_without_bias_and_input_gradient(kernels_everywhere):
    x, params, g, padding = make_case("few channels")
    out, gx, lane = run(x, params, g, padding, bias=False, wanted=False)
    wanted = expected(x, [params[0], torch.zeros_like(params[1])], g, padding)
    assert gx is None
    assert close(out, wanted[0])
    assert close(lane.grads[0], wanted[2])


@runs_kernels
def test_same_bits_in_any_cohort(kernels_everywhere):
    """Repeated, and with other clients beside it, a client computes the same bits."""
    x, params, g, padding = make_case("few channels")
    out, gx, lane = run(x, params, g, padding)
    again, gx_again, lane_again = run(x, params, g, padding)
    assert torch.equal(out, again) and torch.equal(gx, gx_again)
    assert all(torch.equal(a, b) for a, b in zip(lane.grads, lane_again.grads, strict=True))
    part, gx_part, lane_part = run(x[:6], [p[:2] for p in params], g[:6], padding)
    assert torch.equal(part, out[:6]) and torch.equal(gx_part, gx[:6])
    assert all(torch.equal(a, b[:2]) for a, b in zip(lane_part.grads, lane.grads, strict=True))


def test_unfolding_agrees_too(monkeypatch):
    """The path for everything else; no kernel takes part, so this runs everywhere."""
    monkeypatch.setattr(kernels, "usable", lambda *_: False)
    case = make_case("whole taps, padded")
    out, gx, lane = run(*case)
    for ours, theirs in zip((out, gx, *lane.grads), expected(*case), strict=True):
        assert close(ours, theirs)


def test_what_the_kernels_leave_alone(monkeypatch):
    """Each condition by itself; the device is pretended, for there may be none."""

    class OnCuda(torch.Tensor):
        is_cuda = True

    monkeypatch.setattr(kernels, "works", lambda device: True)
    x, weight = torch.zeros(4, 3, 8, 8).as_subclass(OnCuda), torch.zeros(2, 5, 3, 3, 3)
    plain = ((1, 1), (1, 1), (1, 1), 1)
    assert kernels.usable(x, weight, *plain)
    assert not kernels.usable(torch.zeros(4, 3, 8, 8), weight, *plain)
    assert not kernels.usable(x.double(), weight.double(), *plain)
    assert not kernels.usable(x, weight, (1, 1), (2, 1), (1, 1), 1)
    assert not kernels.usable(x, weight, (1, 1), (1, 1), (1, 2), 1)
    assert not kernels.usable(x, weight, (1, 1), (1, 1), (1, 1), 3)
    assert not kernels.usable(x, weight.transpose(2, 3).contiguous().transpose(2, 3), *plain)
    assert not kernels.usable(x, weight, (20000, 20000), (1, 1), (1, 1), 1)  # offsets of more than 32 bits
    monkeypatch.setattr(kernels, "works", lambda device: False)
    assert not kernels.usable(x, weight, *plain)


def test_a_machine_that_cannot_compile(monkeypatch):
    def broken(*_):
        raise RuntimeError("no C compiler")

    monkeypatch.setattr(notices, "_told", set())
    monkeypatch.setattr(kernels, "triton", object())
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda device: (9, 0))
    monkeypatch.setattr(kernels, "convolve", broken)
    with pytest.warns(SlowerWay, match="no C compiler"):
        assert not kernels.works.__wrapped__(torch.device("cpu"))
    monkeypatch.setattr(kernels, "convolve", lambda *_: None)
    assert kernels.works.__wrapped__(torch.device("cpu"))
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda device: (7, 5))
    assert not kernels.works.__wrapped__(torch.device("cpu"))
    monkeypatch.setattr(kernels, "triton", None)
    assert not kernels.works.__wrapped__(torch.device("cpu"))
