"""The networks: their parameter counts, their output shapes, and what they refuse."""

import pytest
import torch

from paceline.errors import ModelError
from paceline.learn.models import MODELS, build, default_for


def parameters(model):
    return sum(p.numel() for p in model.parameters())


def scores(model, shape):
    with torch.no_grad():
        return model.eval()(torch.zeros(2, *shape))


@pytest.mark.parametrize(
    ("name", "shape", "classes", "count"),
    [
        # Counts by docs/papers: P-FedAvg's Table IV, PSFL's reference code, and DA-T2.
        ("mlp", (1, 28, 28), 10, 407_050),
        ("cnn1-pfedavg", (1, 28, 28), 62, 6_603_710),
        ("cnn2-pfedavg", (3, 32, 32), 10, 2_156_490),
        ("cnn-psfl", (3, 32, 32), 10, 797_962),
        ("resnet18", (3, 32, 32), 10, 11_173_962),
        ("vgg11", (3, 32, 32), 100, 9_277_284),
        # LeNet-5 on CIFAR: (75+1)*6 + (150+1)*16 + 400*120+120 + 120*84+84 + 84*10+10
        ("lenet", (3, 32, 32), 10, 62_006),
        ("lenet", (1, 28, 28), 10, 62_006 - 2 * 25 * 6),
        ("logistic", (60,), 10, 61 * 10),
        ("mlp:200", (1, 28, 28), 10, 785 * 200 + 201 * 10),
        ("mlp:512,256", (784,), 10, 785 * 512 + 513 * 256 + 257 * 10),
    ],
)
def test_parameter_counts(name, shape, classes, count):
    model = build(name, shape, classes)
    assert parameters(model) == count
    assert scores(model, shape).shape == (2, classes)


@pytest.mark.parametrize(("classes", "mebibytes"), [(10, 887.77), (7, 887.30)])
def test_alexnet_gives_the_papers_traffic(classes, mebibytes):
    """DA-DPFL Table II: ten transfers of four-byte parameters, in MiB."""
    model = build("alexnet", (3, 64, 64), classes)
    assert round(10 * 4 * parameters(model) / 2**20, 2) == mebibytes


def test_cnn_ham_is_three_convolutions_and_two_dense_layers_with_dropout():
    kinds = [type(module).__name__ for module in build("cnn-ham", (3, 64, 64), 7).modules()]
    found = {kind: kinds.count(kind) for kind in ("Conv2d", "MaxPool2d", "Linear", "Dropout")}
    assert found == {"Conv2d": 3, "MaxPool2d": 3, "Linear": 2, "Dropout": 2}


@pytest.mark.parametrize("name", MODELS)
def test_every_network_traces_and_the_trace_computes_the_same(name):
    torch.manual_seed(0)
    shape = (3, 32, 32)
    model = build(name, shape, 10).eval()
    x = torch.randn(2, *shape)
    with torch.no_grad():
        assert torch.equal(torch.fx.symbolic_trace(model)(x), model(x))


@pytest.mark.parametrize("name", MODELS)
def test_every_network_takes_images_that_are_not_square(name):
    shape = (3, 48, 35)
    assert scores(build(name, shape, 4), shape).shape == (2, 4)


@pytest.mark.parametrize(
    ("name", "least"),
    [
        ("lenet", 28),
        ("cnn-psfl", 16),
        ("cnn-ham", 8),
        ("cnn1-pfedavg", 4),
        ("cnn2-pfedavg", 4),
        ("resnet18", 8),
        ("vgg11", 32),
        ("alexnet", 32),
    ],
)
def test_the_smallest_image_works_and_a_smaller_one_is_refused(name, least):
    shape = (1, least, least)
    assert scores(build(name, shape, 3), shape).shape == (2, 3)
    with pytest.raises(ModelError, match=rf"{name} wants images of at least {least}x{least}"):
        build(name, (1, least - 1, least), 3)
    with pytest.raises(ModelError, match=r"shape \(40, 40, 3\): channels come last; give x.transpose\(0, 3, 1, 2\)"):
        build(name, (40, 40, 3), 3)


@pytest.mark.parametrize("name", sorted(MODELS.keys() - {"logistic", "mlp"}))
def test_image_networks_refuse_vectors(name):
    with pytest.raises(ModelError, match=rf"{name} wants images .* shape \(60,\).*logistic"):
        build(name, (60,), 10)


@pytest.mark.parametrize(
    ("name", "complaint"),
    [
        ("resnet", "did you mean 'resnet18'"),
        ("lenet:200", "only mlp does"),
        ("mlp:", "whole and positive"),
        ("mlp:0", "whole and positive"),
        ("mlp:ten", "whole and positive"),
    ],
)
def test_unknown_names_are_explained(name, complaint):
    with pytest.raises(ModelError, match=complaint):
        build(name, (1, 32, 32), 10)


@pytest.mark.parametrize(
    ("most", "more"), [("65536", "65537"), ("1," * 31 + "1", "1," * 32 + "1"), ("5000,10000", "5000,10001")]
)
def test_hidden_layers_have_a_greatest_size(most, more):
    with torch.device("meta"):
        assert parameters(build(f"mlp:{most}", (1,), 2)) > 0
        with pytest.raises(
            ModelError, match="wanted at most 32 hidden layers of at most 65,536 each, and 50,000,000"
        ):
            build(f"mlp:{more}", (1,), 2)


@pytest.mark.parametrize(("shape", "classes"), [((), 10), ((3, 0, 32), 10), ((60,), 1)])
def test_impossible_samples_are_refused(shape, classes):
    with pytest.raises(ModelError, match="want"):
        build("logistic", shape, classes)


@pytest.mark.parametrize(
    ("shape", "name"),
    [
        ((60,), "logistic"),
        ((1, 8, 8), "mlp:64"),
        ((1, 28, 28), "mlp:200"),
        ((3, 32, 32), "lenet"),
        ((3, 20, 20), "mlp:64"),
    ],
)
def test_the_default_suits_the_shape(shape, name):
    assert default_for(shape, 10) == name
    assert scores(build(name, shape, 10), shape).shape == (2, 10)
