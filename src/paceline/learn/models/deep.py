"""The three deep networks of DA-DPFL: ResNet-18 and VGG-11 with GroupNorm, and its AlexNet variant.

GroupNorm stands where the originals have BatchNorm; the AlexNet variant has no normalisation at all, which
its 23,272,266 parameters (10 classes) confirm: 10 transfers of 4 bytes each are the paper's 887.77 MiB.
"""

from __future__ import annotations

from itertools import pairwise

from torch import Tensor, nn

from paceline.learn.models.shapes import Shape, image

GROUPS = 32


def resnet18(shape: Shape, classes: int) -> nn.Module:
    """The CIFAR form of ResNet-18 (3x3 stem, no first pool): 11,173,962 parameters with 10 classes."""
    channels, _, _ = image("resnet18", shape, 8)
    widths = (64, 64, 128, 256, 512)
    blocks = [
        block
        for stage, (inside, outside) in enumerate(pairwise(widths))
        for block in (ResidualBlock(inside, outside, 2 if stage else 1), ResidualBlock(outside, outside, 1))
    ]
    stem = (nn.Conv2d(channels, 64, 3, padding=1, bias=False), nn.GroupNorm(GROUPS, 64), nn.ReLU())
    head = (nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(512, classes))
    return nn.Sequential(*stem, *blocks, *head)


class ResidualBlock(nn.Module):
    """Two 3x3 convolutions beside a shortcut, which is a 1x1 convolution where the shape changes."""

    def __init__(self, inside: int, outside: int, stride: int) -> None:
        super().__init__()
        self.body = nn.Sequential(
            nn.Conv2d(inside, outside, 3, stride=stride, padding=1, bias=False),
            nn.GroupNorm(GROUPS, outside),
            nn.ReLU(),
            nn.Conv2d(outside, outside, 3, padding=1, bias=False),
            nn.GroupNorm(GROUPS, outside),
        )
        # An empty Sequential is the identity and keeps the name "shortcut", which pruning exempts.
        self.shortcut = nn.Sequential()
        if stride != 1 or inside != outside:
            self.shortcut.append(nn.Conv2d(inside, outside, 1, stride=stride, bias=False))
            self.shortcut.append(nn.GroupNorm(GROUPS, outside))
        self.relu = nn.ReLU()

    def forward(self, x: Tensor) -> Tensor:
        """The block's output for a batch of feature maps."""
        out: Tensor = self.relu(self.body(x) + self.shortcut(x))
        return out


def vgg11(shape: Shape, classes: int) -> nn.Module:
    """VGG-11 with GroupNorm and a single dense layer: 9,277,284 parameters with 100 classes."""
    inside, _, _ = image("vgg11", shape, 32)
    layers: list[nn.Module] = []
    for width in (64, 0, 128, 0, 256, 256, 0, 512, 512, 0, 512, 512, 0):  # 0 is a pool
        if width:
            layers += [nn.Conv2d(inside, width, 3, padding=1), nn.GroupNorm(GROUPS, width), nn.ReLU()]
            inside = width
        else:
            layers.append(nn.MaxPool2d(2))
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(512, classes))


def alexnet(shape: Shape, classes: int) -> nn.Module:
    """DA-DPFL's AlexNet variant: 3x3 convolutions, pooled to 2x2, two dense layers of 4096 with dropout."""
    inside, _, _ = image("alexnet", shape, 32)
    layers: list[nn.Module] = []
    for width, stride, pool in ((64, 2, 2), (192, 1, 2), (384, 1, 1), (256, 1, 1), (256, 1, 2)):
        layers += [nn.Conv2d(inside, width, 3, stride=stride, padding=1), nn.ReLU()]
        layers += [nn.MaxPool2d(pool)] if pool > 1 else []
        inside = width
    dense = [
        *(nn.Dropout(0.5), nn.Linear(inside * 4, 4096), nn.ReLU()),
        *(nn.Dropout(0.5), nn.Linear(4096, 4096), nn.ReLU()),
        nn.Linear(4096, classes),
    ]
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(2), nn.Flatten(), *dense)
