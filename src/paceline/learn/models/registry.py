"""A network from its name, the shape of one sample and the number of classes."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise

from torch import nn

from paceline.errors import ModelError, nearest
from paceline.learn.models import deep, small
from paceline.learn.models.check import check_trainable
from paceline.learn.models.shapes import Shape, check_sample
from paceline.learn.models.user import load_user_model, probe
from paceline.reading import shown

WIDEST, DEEPEST, WEIGHTS = 65_536, 32, 50_000_000
"""Of hidden layers: every client of a wave has all of them in memory."""
Factory = Callable[[Shape, int], nn.Module]

MODELS: dict[str, Factory] = {
    "logistic": small.logistic,
    "mlp": small.mlp,
    "lenet": small.lenet,
    "cnn-psfl": small.cnn_psfl,
    "cnn-ham": small.cnn_ham,
    "cnn1-pfedavg": small.cnn1_pfedavg,
    "cnn2-pfedavg": small.cnn2_pfedavg,
    "resnet18": deep.resnet18,
    "vgg11": deep.vgg11,
    "alexnet": deep.alexnet,
}
"""Every network by name; ``mlp`` also takes its hidden sizes, as in ``mlp:200`` or ``mlp:512,256``."""


def build(name: str, shape: Shape, classes: int) -> nn.Module:
    """The network of this name for samples of this shape; ``package.module:factory`` is a user's own."""
    check_sample(shape, classes)
    base, colon, rest = name.partition(":")
    if base == "mlp" and colon:
        return small.mlp(shape, classes, _hidden(name, rest))
    if name in MODELS:
        return MODELS[name](shape, classes)
    if base in MODELS and colon:
        raise ModelError(f"model {name!r}: {base} takes no sizes, only mlp does; write {base!r}")
    if colon and rest.isidentifier():
        return _build_users(name, shape, classes)
    raise ModelError(
        f"model {shown(name)} is not known; {nearest(name, MODELS)} "
        "A network of your own is written 'package.module:factory'."
    )


def default_for(shape: Shape, classes: int) -> str:
    """A small network that learns this kind of data in minutes."""
    check_sample(shape, classes)
    if len(shape) != 3:
        return "logistic"
    channels, height, width = shape
    if min(height, width) < 28:
        return "mlp:64"
    return "lenet" if channels == 3 else "mlp:200"


def _hidden(name: str, text: str) -> list[int]:
    try:
        sizes = [int(part) for part in text.split(",")]
    except ValueError:
        sizes = []
    if not sizes or min(sizes) < 1:
        raise ModelError(f"model {shown(name)}: hidden sizes are whole and positive, as in 'mlp:512,256'")
    if len(sizes) > DEEPEST or max(sizes) > WIDEST or sum(a * b for a, b in pairwise(sizes)) > WEIGHTS:
        raise ModelError(
            f"model {shown(name)}: wanted at most {DEEPEST} hidden layers of at most {WIDEST:,} each, and {WEIGHTS:,}"
            " weights between them"
        )
    return sizes


def _build_users(name: str, shape: Shape, classes: int) -> nn.Module:
    model = load_user_model(name)(shape, classes)
    check_trainable(model)  # before the probe, which a lazy or empty network would fail less clearly
    probe(model, name, shape, classes)
    check_trainable(model, shape)
    return model
