"""How many floating-point operations a network costs, by module.

The convention is that of the papers: a multiply and an add are two operations, a bias is one per output,
and training costs three forward passes. Normalisation, activation, pooling and dropout are not counted
(about 0.1 % of a ResNet-18), nor is arithmetic outside modules.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm
from torch.nn.modules.conv import _ConvNd, _ConvTransposeNd

from paceline.errors import CostError, nearest

TRAINING_PASSES = 3
"""A backward pass costs two forward ones: a gradient for the inputs and one for the weights."""

Counter = Callable[[Any, Tensor, Tensor], float]


def _linear(layer: nn.Linear, _: Tensor, out: Tensor) -> float:
    return out.numel() * (2 * layer.in_features + (layer.bias is not None))


def _conv(layer: _ConvNd, _: Tensor, out: Tensor) -> float:
    return out.numel() * (2 * layer.weight[0].numel() + (layer.bias is not None))


def _conv_transpose(layer: _ConvTransposeNd, inside: Tensor, out: Tensor) -> float:
    return inside.numel() * 2 * layer.weight[0].numel() + out.numel() * (layer.bias is not None)


def _uncounted(_layer: nn.Module, _inside: Tensor, _out: Tensor) -> float:
    return 0.0


COUNTERS: dict[type[nn.Module], Counter] = {
    nn.Linear: _linear,
    _ConvTransposeNd: _conv_transpose,
    _ConvNd: _conv,
    nn.GroupNorm: _uncounted,
    nn.LayerNorm: _uncounted,
    nn.InstanceNorm2d: _uncounted,
    _BatchNorm: _uncounted,
    nn.PReLU: _uncounted,
}
"""Operations of one call, by layer type (the first match counts); add an entry for a layer of your own."""


def forward_flops(model: nn.Module, shape: tuple[int, ...]) -> dict[str, float]:
    """The operations of one sample's forward pass, by the name of the module that holds the parameters."""
    layers = {name: module for name, module in model.named_modules() if module._parameters}
    counters = {name: _counter(name, module) for name, module in layers.items()}
    flops = dict.fromkeys(layers, 0.0)
    called: set[str] = set()

    def watch(name: str) -> Callable[[nn.Module, tuple[Any, ...], Any], None]:
        def hook(module: nn.Module, inputs: tuple[Any, ...], out: Any) -> None:
            flops[name] += counters[name](module, inputs[0], out)
            called.add(name)

        return hook

    hooks = [module.register_forward_hook(watch(name)) for name, module in layers.items()]
    try:
        pass_one_sample(model, shape)
    finally:
        for hook in hooks:
            hook.remove()
    if silent := sorted(layers.keys() - called):
        raise CostError(
            f"cannot count the operations of {', '.join(silent)}: forward uses the parameters without "
            "calling the module; call the module itself, or remove it if it is not used"
        )
    return flops


def training_flops(
    model: nn.Module, shape: tuple[int, ...], samples: float, density: Mapping[str, float] | None = None
) -> float:
    """The operations of training on this many samples (epochs times data size).

    ``density`` is the share of non-zero weights by module name or by the name of its weight; what it does not
    name is dense.
    """
    flops = forward_flops(model, shape)
    scale = {key.removesuffix(".weight"): value for key, value in (density or {}).items()}
    for name, value in scale.items():
        if name not in flops:
            raise CostError(f"density names {name!r}, which is no layer here; {nearest(name, flops)}")
        if not 0 <= value <= 1:
            raise CostError(f"density of {name!r} is {value}; want a share between 0 and 1")
    return TRAINING_PASSES * samples * sum(scale.get(name, 1.0) * value for name, value in flops.items())


def _counter(name: str, module: nn.Module) -> Counter:
    for kind, counter in COUNTERS.items():
        if isinstance(module, kind):
            return counter
    raise CostError(
        f"no rule to count the operations of {name or 'the network itself'} ({type(module).__name__}); "
        f"add one: paceline.learn.flops.COUNTERS[{type(module).__name__}] = lambda layer, inside, out: ..."
    )


def pass_one_sample(model: nn.Module, shape: tuple[int, ...]) -> None:
    """Send a sample of zeros through a network, for hooks to watch; nothing of the network changes."""
    where = next(model.parameters(), torch.empty(0))
    training = model.training
    try:
        with torch.no_grad():
            # A batch of one in evaluation mode: no statistics are touched and no dropout is drawn.
            model.eval()(torch.zeros(1, *shape, device=where.device, dtype=where.dtype))
    finally:
        model.train(training)
