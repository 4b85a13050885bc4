"""A user's own network by reference."""

import sys

import pytest

from paceline.errors import ModelError
from paceline.learn.models import build, load_user_model

SOURCE = """
from torch import nn

def good(shape, classes):
    return nn.Sequential(nn.Flatten(), nn.Linear(shape[0], classes))

def batchnorm(shape, classes):
    return nn.Sequential(nn.Linear(shape[0], classes), nn.BatchNorm1d(classes))

def wide(shape, classes):
    return nn.Linear(shape[0], classes + 1)

def narrow(shape, classes):
    return nn.Linear(shape[0] + 1, classes)

def pair(shape, classes):
    class Pair(nn.Linear):
        def forward(self, x):
            return super().forward(x), x
    return Pair(shape[0], classes)

def one_argument(shape):
    return nn.Linear(1, 1)

def no_arguments():
    return nn.Sequential(nn.Flatten(), nn.Linear(6, 3))

def nothing(shape, classes):
    return None

number = 3
"""


@pytest.fixture
def module(tmp_path, monkeypatch):
    name = f"users_networks_{tmp_path.name.replace('-', '_')}"
    (tmp_path / f"{name}.py").write_text(SOURCE)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    yield name
    sys.modules.pop(name, None)


def test_a_file_in_the_current_directory_works(module):
    model = build(f"{module}:good", (6,), 3)
    assert sum(p.numel() for p in model.parameters()) == 7 * 3
    assert model.training


def test_a_dotted_module_works():
    assert load_user_model("paceline.learn.models.small:logistic")((4,), 2)[1].in_features == 4


@pytest.mark.parametrize(
    ("factory", "complaint"),
    [
        ("batchnorm", "BatchNorm1d.*to_groupnorm"),
        ("wide", r"shape \(2, 4\) for 2 samples; want raw scores of shape \(2, 3\)"),
        ("narrow", r"fails on a batch of shape \(2, 6\)"),
        ("pair", "gives a tuple"),
        ("one_argument", r"called as factory\(\(6,\), 3\)"),
        ("nothing", "returned a NoneType; want an nn.Module"),
        ("number", "is a int, but must be a function"),
        ("goood", "did you mean 'good'"),
    ],
)
def test_what_is_wrong_is_said(module, factory, complaint):
    with pytest.raises(ModelError, match=complaint):
        build(f"{module}:{factory}", (6,), 3)


@pytest.mark.parametrize("reference", ["", "module", ":factory", "module:", "module:a b"])
def test_malformed_references_are_refused(reference):
    with pytest.raises(ModelError, match=r"package\.module:name"):
        load_user_model(reference)


def test_a_factory_without_arguments_is_called_without(module):
    assert build(f"{module}:no_arguments", (6,), 3)[1].out_features == 3


def test_channels_that_come_last_are_named(module):
    with pytest.raises(ModelError, match=r"sample has shape \(28, 28, 1\): channels come last; give x.transpose"):
        build(f"{module}:narrow", (28, 28, 1), 3)


def test_a_missing_or_broken_module_is_named(module, tmp_path):
    with pytest.raises(ModelError, match=r"cannot import no_such_package\.networks"):
        load_user_model("no_such_package.networks:make")
    (tmp_path / "broken_networks.py").write_text("1 / 0")
    with pytest.raises(ModelError, match="broken_networks: ZeroDivisionError"):
        load_user_model("broken_networks:make")
