"""The small networks: logistic regression, MLP, LeNet and the CNNs of PSFL and P-FedAvg.

All are a plain ``nn.Sequential`` of standard layers without normalisation, so any trainer can batch them.
Their initialisation is torch's own.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from math import prod

from torch import nn

from paceline.learn.models.shapes import Shape, image


def logistic(shape: Shape, classes: int) -> nn.Module:
    """Build multinomial logistic regression: one linear layer."""
    return nn.Sequential(nn.Flatten(), nn.Linear(prod(shape), classes))


def mlp(shape: Shape, classes: int, hidden: Sequence[int] = (512,)) -> nn.Module:
    """A multilayer perceptron; the default is the 784-512-10 of P-FedAvg."""
    return nn.Sequential(nn.Flatten(), *_dense((prod(shape), *hidden, classes)))


def lenet(shape: Shape, classes: int) -> nn.Module:
    """The classic LeNet with ReLU and max-pooling: 62,006 parameters on 3x32x32 with 10 classes."""
    channels, height, width = image("lenet", shape, 28)
    # LeNet was drawn for 32x32; 28x28 digits get the missing border as padding.
    padding = 2 if min(height, width) < 32 else 0
    sides = [_after(_after(side + 2 * padding)) for side in (height, width)]
    return nn.Sequential(
        *_stage(channels, 6, 5, padding),
        *_stage(6, 16, 5, 0),
        nn.Flatten(),
        *_dense((16 * prod(sides), 120, 84, classes)),
    )


def cnn_psfl(shape: Shape, classes: int) -> nn.Module:
    """The CIFAR network of PSFL's reference code: 797,962 parameters on 3x32x32 with 10 classes."""
    channels, height, width = image("cnn-psfl", shape, 16)
    pixels = prod(_after(_after(side)) for side in (height, width))
    return nn.Sequential(
        *_stage(channels, 64, 5, 0),
        *_stage(64, 64, 5, 0),
        nn.Flatten(),
        *_dense((64 * pixels, 384, 192, classes)),
    )


def cnn_ham(shape: Shape, classes: int) -> nn.Module:
    """PSFL's network for HAM10000: three 3x3 convolutions with pooling, two dense layers with dropout.

    The paper gives neither channels nor widths; 16-32-64 and 128 with dropout 0.5 are our choice.
    """
    channels, height, width = image("cnn-ham", shape, 8)
    return nn.Sequential(
        *_stage(channels, 16, 3, 1),
        *_stage(16, 32, 3, 1),
        *_stage(32, 64, 3, 1),
        nn.Flatten(),
        nn.Dropout(0.5),
        nn.Linear(64 * (height // 8) * (width // 8), 128),
        nn.ReLU(),
        nn.Dropout(0.5),
        nn.Linear(128, classes),
    )


def cnn1_pfedavg(shape: Shape, classes: int) -> nn.Module:
    """P-FedAvg's CNN1: 6,603,710 parameters on FEMNIST (1x28x28, 62 classes)."""
    return _pfedavg("cnn1-pfedavg", shape, classes, hidden=2048)


def cnn2_pfedavg(shape: Shape, classes: int) -> nn.Module:
    """P-FedAvg's CNN2: 2,156,490 parameters on CIFAR-10 (3x32x32, 10 classes)."""
    return _pfedavg("cnn2-pfedavg", shape, classes, hidden=512)


def _pfedavg(name: str, shape: Shape, classes: int, hidden: int) -> nn.Module:
    channels, height, width = image(name, shape, 4)
    return nn.Sequential(
        *_stage(channels, 32, 5, 2),
        *_stage(32, 64, 5, 2),
        nn.Flatten(),
        *_dense((64 * (height // 4) * (width // 4), hidden, classes)),
    )


def _stage(inside: int, outside: int, kernel: int, padding: int) -> tuple[nn.Module, ...]:
    return nn.Conv2d(inside, outside, kernel, padding=padding), nn.ReLU(), nn.MaxPool2d(2)


def _after(side: int) -> int:
    """The side of an image after a 5x5 convolution without padding and a 2x2 pool."""
    return (side - 4) // 2


def _dense(sizes: Sequence[int]) -> list[nn.Module]:
    layers: list[nn.Module] = []
    for inside, outside in pairwise(sizes):
        layers += [nn.Linear(inside, outside), nn.ReLU()]
    return layers[:-1]
