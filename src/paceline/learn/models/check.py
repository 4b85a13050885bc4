"""What a network must not have to be averaged between clients and batched over them, and the way out."""

from __future__ import annotations

import copy
from collections.abc import Iterator

import torch
from torch import nn
from torch.nn.modules.batchnorm import _BatchNorm
from torch.nn.modules.instancenorm import _InstanceNorm
from torch.nn.parameter import is_lazy
from torch.nn.utils import parametrize

from paceline.errors import ModelError
from paceline.learn.models.shapes import Shape
from paceline.learn.randomness import borrowed_generator

_LEAST_PER_GROUP = 8


def check_trainable(model: nn.Module, shape: Shape | None = None) -> None:
    """Refuse a network that cannot be trained here, naming every offender and what to do about it.

    With the shape of one sample a forward pass is tried as well, to find buffers that it changes.
    """
    offences = list(_offences(model))
    if not offences and shape is not None:
        offences = [_buffer_offence(name) for name in _changed_buffers(model, shape)]
    if offences:
        raise ModelError("this network cannot be trained here:\n  " + "\n  ".join(offences))


def to_groupnorm(model: nn.Module, groups: int = 32) -> nn.Module:
    """A copy of the network in which every BatchNorm is a GroupNorm with the same scale and shift.

    The number of groups is lowered to a divisor of the channels. Where there may be no pixels to take the
    mean over (BatchNorm1d), a group keeps at least 8 channels: a group of one value always has norm 0.

    >>> to_groupnorm(nn.Sequential(nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8)))[1].num_groups
    8
    """
    if groups < 1:
        raise ModelError(f"groups is {groups}; want at least 1")
    replaced: dict[nn.Module, nn.Module] = {}  # a module used twice stays one module
    return _replace(copy.deepcopy(model), groups, replaced)


def _offences(model: nn.Module) -> Iterator[str]:
    for name, module in model.named_modules():
        place = f"{name or 'the network itself'} ({type(module).__name__})"
        if any(is_lazy(parameter) for parameter in module.parameters(recurse=False)):
            yield f"{place}: its shape is not known yet; send one batch through it first"
        elif isinstance(module, _BatchNorm):
            yield (
                f"{place}: its statistics are not parameters, so they are not averaged, and a batch "
                "of several clients would mix them; use paceline.learn.models.to_groupnorm(model)"
            )
        elif isinstance(module, _InstanceNorm) and module.track_running_stats:
            yield f"{place}: running statistics are not averaged; set track_running_stats=False"
        if parametrize.is_parametrized(module):
            yield f"{place}: its weights are computed from others; call remove_parametrizations first"
    frozen = [name for name, parameter in model.named_parameters() if not parameter.requires_grad]
    if len(frozen) == len([*model.parameters()]):
        yield "it has no parameter that asks for a gradient; there is nothing to train"
    elif frozen:
        yield (
            f"parameters {', '.join(frozen)}: requires_grad is False, but every parameter is trained and sent here; "
            "call requires_grad_(True) on them, or leave that part out of the network"
        )


def _changed_buffers(model: nn.Module, shape: Shape) -> list[str]:
    # A copy takes the step: a check must leave no trace in the network it checks, or in the random state.
    trial = copy.deepcopy(model).train()
    before = {name: (id(buffer), buffer._version) for name, buffer in trial.named_buffers()}
    if not before:
        return []
    with borrowed_generator(), torch.no_grad():
        trial(torch.zeros(2, *shape))
    after = {name: (id(buffer), buffer._version) for name, buffer in trial.named_buffers()}
    return [name for name in {**before, **after} if before.get(name) != after.get(name)]


def _buffer_offence(name: str) -> str:
    return f"buffer {name}: forward changes it, but only parameters travel between clients; make it constant"


def _replace(module: nn.Module, groups: int, replaced: dict[nn.Module, nn.Module]) -> nn.Module:
    if module in replaced:
        return replaced[module]
    replaced[module] = module
    if isinstance(module, _BatchNorm):
        replaced[module] = _groupnorm(module, groups)
        return replaced[module]
    for name, child in module._modules.items():  # named_children would skip the second use of a module
        if child is not None:
            setattr(module, name, _replace(child, groups, replaced))
    return module


def _groupnorm(norm: _BatchNorm, groups: int) -> nn.GroupNorm:
    channels = norm.num_features
    flat = isinstance(norm, nn.BatchNorm1d)
    if channels < (2 if flat else 1):
        raise ModelError(f"a {type(norm).__name__} of {channels} channels has no GroupNorm; remove it first")
    most = min(groups, max(1, channels // _LEAST_PER_GROUP)) if flat else groups
    fitting = max(n for n in range(1, min(most, channels) + 1) if channels % n == 0)
    new = nn.GroupNorm(fitting, channels, eps=norm.eps, affine=norm.affine)
    if norm.affine:
        new.weight, new.bias = norm.weight, norm.bias
    return new.train(norm.training)
