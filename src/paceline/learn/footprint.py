"""How many bytes learning takes, by rules: of a model, of a visit's draws, of a training step, of a test pass.

The rules say how much and never how long, and never look at what a process takes just now: a repeated run cuts its
work into the same parts.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
from torch import nn

from paceline.learn.flops import pass_one_sample
from paceline.learn.recipe import LocalSGD
from paceline.learn.space import Space

DRAWN = 64
"""Bytes that are drawn for each sample that a visit sees: its place in the client's list and its row (8 each, twice
while they are drawn), its key and its rank in the order of its epoch (8 each, and a copy), whether it is there, and
its weight.
"""
SAVED = 3
"""Copies of every layer's output in a step: what forward saves, and the two gradients on either side of a layer."""
PASSED = 3
"""Copies of the largest output in a pass without gradients: what goes into a layer, what comes out, one between."""
UNFOLDED = 32
"""FLOPs of a convolution for each number of its unfolded input: 2 for each of 16 channels, a small network."""


def itemsize(space: Space) -> int:
    """Return the bytes of one number of a model."""
    return torch.empty(0, dtype=space.dtype).element_size()


def model_bytes(space: Space) -> int:
    """One model as a flat vector."""
    return space.size * itemsize(space)


class Need(NamedTuple):
    """What decides how many bytes a visit takes."""

    space: Space
    recipe: LocalSGD
    longest: int
    """Samples of the client with most of them: what is drawn for visits that run together is padded to its."""
    batch: int
    """Samples that go through the network at a time."""
    extras: int = 0
    """Masks, corrections and anchors that come with a visit."""

    @property
    def draws(self) -> int:
        """What is drawn for one visit of a wave: which samples come at which step."""
        return DRAWN * max(self.recipe.steps_for(self.longest) * self.recipe.batch, self.longest)

    @property
    def step(self) -> int:
        """One client in training: weights, gradients and what else its recipe keeps of that size; a batch's layers.

        The vector that comes in and the one that goes out are there twice for a moment.
        """
        recipe, space = self.recipe, self.space
        vectors = 4 + self.extras + bool(recipe.momentum) + 2 * bool(recipe.prox) + 2 * bool(recipe.sam)
        numbers = SAVED * sum(outputs(space)) + _unfolded(space)
        return vectors * model_bytes(space) + self.batch * numbers * itemsize(space)


def sample_bytes(space: Space) -> int:
    """One sample that goes through a network without gradients."""
    return (PASSED * max(outputs(space)) + _unfolded(space)) * itemsize(space)


def outputs(space: Space) -> list[int]:
    """The numbers of one sample, and of what each layer makes of it, in the order of the network."""
    found: list[int] | None = space.derived.get("outputs")
    if found is None:
        found = space.derived["outputs"] = _watched(space)
    return found


def _watched(space: Space) -> list[int]:
    found = [space.features()]

    def watch(_module: nn.Module, _inputs: Any, out: Any) -> None:
        found.append(out.numel() if isinstance(out, torch.Tensor) else 0)

    leaves = [module for module in space.module.modules() if not any(module.children())]
    hooks = [module.register_forward_hook(watch) for module in leaves]
    try:
        pass_one_sample(space.module, space.shape)
    finally:
        for hook in hooks:
            hook.remove()
    return found


def _unfolded(space: Space) -> int:
    """Numbers of the windows that a convolution multiplies where nothing reads them in place: not in single precision
    on a CPU, and on CUDA only without kernels, but nobody promises that there."""
    convolves = any(isinstance(module, nn.modules.conv._ConvNd) for module in space.module.modules())
    in_place = space.dtype == torch.float32 and next(space.module.parameters()).device.type == "cpu"
    if not convolves or in_place or not space.flops > 0:
        return 0
    return int(space.flops / UNFOLDED)
