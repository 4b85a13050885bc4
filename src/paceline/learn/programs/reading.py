"""From a plain ``nn.Module`` to a program: its layers are read off a symbolic run of it (``torch.fx``).

A module with a layer that is not known becomes a ``VmapProgram``, which is slower; the user is told so once.
"""

from __future__ import annotations

import copy
import operator
from collections.abc import Callable
from dataclasses import replace
from itertools import pairwise
from typing import Any

import torch
from torch import Tensor, fx, nn
from torch.nn import functional as F

from paceline.errors import ModelError
from paceline.learn.dropout import AddressedDropout, set_keys
from paceline.learn.notices import tell_slower
from paceline.learn.programs import layers
from paceline.learn.programs.convolution import Convolution
from paceline.learn.programs.program import Batch, LayerProgram, Node, Program
from paceline.learn.programs.vmapped import VmapProgram
from paceline.learn.space import Space

# Functions of single samples without parameters: they may be applied to a merged batch as they are.
POINTWISE = (
    nn.Tanh, nn.Sigmoid, nn.GELU, nn.SiLU, nn.LeakyReLU, nn.ELU, nn.Softplus, nn.Hardtanh, nn.ReLU6, nn.Hardswish,
)  # fmt: skip
PLAIN_MODULES = (
    *POINTWISE, nn.AvgPool2d, nn.AdaptiveAvgPool2d, nn.ZeroPad2d, nn.Upsample, nn.AdaptiveMaxPool2d,
)  # fmt: skip
PLAIN_FUNCTIONS: set[Callable[..., Any]] = {torch.tanh, torch.sigmoid, F.gelu, F.silu, F.tanh, F.sigmoid}


RECTIFIED = (layers.MaxPool, layers.GroupNormalisation, layers.Add)
"""Layers that can do the ReLU after them."""
AGREEMENT = 1e-3
"""Relative difference of gradients that float32 rounding explains, with much to spare."""


class Unknown(Exception):
    """A piece that ``layers.py`` has no batched form of."""


class _Reader(fx.Tracer):
    def is_leaf_module(self, m: nn.Module, module_qualified_name: str) -> bool:
        return isinstance(m, AddressedDropout) or super().is_leaf_module(m, module_qualified_name)


def compile_program(space: Space) -> Program:
    """The fastest program that can run this architecture; ModelError if none can.

    A program that was read is compared with autograd on random numbers before it is trusted: a module may look like
    the layers we know and mean something else.
    """
    try:
        program = layer_program(space)
        if agrees_with_autograd(program):
            return program
        reason = "its layers do not compute what they seem to"
    except Unknown as unknown:
        reason = f"no batched form is known of {unknown}"
    general = _probed(VmapProgram(space))
    tell_slower(f"model {space.name!r} runs through torch.func.vmap, which is slower: {reason}")
    return general


def layer_program(space: Space) -> LayerProgram:
    """A program of known layers; ``Unknown`` names what is not known."""
    try:
        graph = _Reader().trace(space.module)
    except Exception as reason:  # fx raises whatever the module's own code raises on proxies
        raise Unknown(f"a module that cannot be read ({reason})") from reason
    modules = dict(space.module.named_modules())
    number = {slot.name: k for k, slot in enumerate(space.slots)}
    places: dict[fx.Node, int] = {}
    nodes: list[Node] = []
    trained = {0: False}
    used: list[int] = []
    for item in graph.nodes:
        if item.op == "placeholder":
            if places:
                raise Unknown("more than one input")
            places[item] = 0
            continue
        inputs = [arg for arg in item.args if isinstance(arg, fx.Node)]
        if item.op == "output":
            if len(inputs) != 1 or places[inputs[0]] != len(nodes):
                raise Unknown("output is not the one last value")
            break
        layer = _layer(item, modules, number)
        sources = tuple(places[arg] for arg in inputs)
        if layer is None:
            places[item] = sources[0]
            continue
        parameters = [k for k in (getattr(layer, "weight", None), getattr(layer, "bias", None)) if k is not None]
        used += parameters
        nodes.append(Node(layer, sources, any(trained[s] for s in sources)))
        places[item] = len(nodes)
        trained[len(nodes)] = nodes[-1].wanted or bool(parameters)
    if sorted(used) != list(range(len(space.slots))):
        raise Unknown("some parameter is unused or used twice")
    read = {source for node in nodes for source in node.inputs}
    if not read >= set(range(1, len(nodes))):
        raise Unknown("some value is never used")
    images = frozenset(n.layer.weight for n in nodes if isinstance(n.layer, Convolution))
    return LayerProgram(space, tuple(_told(_merged(_pool_first(nodes)))), images)


def _pool_first(nodes: list[Node]) -> list[Node]:
    """Exchange a rectifier and the max pooling that alone reads it: the same function on fewer numbers."""
    readers = [source for node in nodes for source in node.inputs]
    out = list(nodes)
    for k, (first, second) in enumerate(pairwise(nodes)):
        alone = second.inputs == (k + 1,) and readers.count(k + 1) == 1
        if isinstance(first.layer, layers.Rectifier) and isinstance(second.layer, layers.MaxPool) and alone:
            out[k], out[k + 1] = replace(first, layer=second.layer), replace(second, layer=first.layer)
    return out


def _merged(nodes: list[Node]) -> list[Node]:
    """Make one layer of a rectifier and the layer that it alone reads, where that can do both (on CUDA in one go)."""
    readers = [source for node in nodes for source in node.inputs]
    out: list[Node] = []
    place = [0]  # the new number of each value
    for before, node in enumerate(nodes):
        last = out[-1].layer if out else None
        alone = node.inputs == (before,) and readers.count(before) == 1
        if isinstance(node.layer, layers.Rectifier) and isinstance(last, RECTIFIED) and alone and not last.rectified:
            out[-1] = replace(out[-1], layer=replace(last, rectified=True))
        else:
            out.append(replace(node, inputs=tuple(place[source] for source in node.inputs)))
        place.append(len(out))
    return out


def _told(nodes: list[Node]) -> list[Node]:
    """Tell convolutions whether whoever reads them can take more channels (``single.Shape``)."""
    told = list(nodes)
    for number, node in enumerate(nodes, 1):
        if isinstance(node.layer, Convolution):
            widened = node.layer.groups == 1 and _take_surplus(nodes, number)
            told[number - 1] = replace(node, layer=replace(node.layer, widened=widened))
    return told


def _take_surplus(nodes: list[Node], number: int) -> bool:
    """Whether all that is done with a value's channels, one by one, ends in a convolution, which can ignore some."""
    readers = [(k, node.layer) for k, node in enumerate(nodes, 1) if number in node.inputs]
    if len(readers) != 1:
        return False
    reader, layer = readers[0]
    if isinstance(layer, Convolution):
        return layer.groups == 1
    return isinstance(layer, layers.Rectifier | layers.MaxPool) and _take_surplus(nodes, reader)


def _layer(item: fx.Node, modules: dict[str, nn.Module], number: dict[str, int]) -> layers.Layer | None:
    """The batched layer of one operation that was read; None for the identity."""
    if item.op == "call_module":
        name = str(item.target)
        if len(item.args) != 1 or item.kwargs:
            raise Unknown(f"{name} takes more than one input")
        return _module_layer(name, modules[name], number)
    if item.op == "call_function":
        return _function_layer(item)
    if item.op == "call_method" and item.target == "flatten" and item.args[1:] == (1,) and not item.kwargs:
        return layers.Flatten()
    if item.op == "call_method" and item.target == "relu":
        return layers.Rectifier()
    raise Unknown(f"{item.op} {item.target}")


def _function_layer(item: fx.Node) -> layers.Layer:
    target, args = item.target, item.args
    if (
        target in (operator.add, torch.add)
        and len(args) == 2
        and not item.kwargs
        and all(isinstance(a, fx.Node) for a in args)
    ):
        return layers.Add()
    if target in (torch.relu, F.relu):
        return layers.Rectifier()
    if target is torch.flatten and (args[1:] == (1,) or item.kwargs == {"start_dim": 1}):
        return layers.Flatten()
    if target in PLAIN_FUNCTIONS and len(args) == 1 and not item.kwargs:
        return layers.Plain(target, pointwise=True)
    raise Unknown(f"function {getattr(target, '__name__', target)}")


def _module_layer(name: str, module: nn.Module, number: dict[str, int]) -> layers.Layer | None:
    weight, bias = number.get(f"{name}.weight"), number.get(f"{name}.bias")
    if any(f"{name}.{own}" not in number for own, _ in module.named_parameters(recurse=False)):
        raise Unknown(f"{name} shares a parameter with another module")
    if getattr(module, "inplace", False) and isinstance(module, PLAIN_MODULES):
        module = copy.deepcopy(module)
        module.inplace = False
    match module:
        case nn.Identity():
            return None
        case nn.Linear() if weight is not None:
            return layers.Dense(weight, bias)
        case nn.Conv2d(padding_mode="zeros") if weight is not None:
            return Convolution(
                weight, bias, _pair(module.stride), _padding(module), _pair(module.dilation), module.groups
            )
        case nn.GroupNorm():
            return layers.GroupNormalisation(weight, bias, module.num_groups, module.eps)
        case nn.ReLU():
            return layers.Rectifier()
        case nn.MaxPool2d(return_indices=False):
            stride = module.kernel_size if module.stride is None else module.stride
            return layers.MaxPool(
                _pair(module.kernel_size), _pair(stride), _pair(module.padding), _pair(module.dilation),
                bool(module.ceil_mode),
            )  # fmt: skip
        case nn.Flatten(start_dim=1, end_dim=-1):
            return layers.Flatten()
        case AddressedDropout():
            return layers.Dropout(module.p, module.layer)
        case _ if isinstance(module, PLAIN_MODULES):
            return layers.Plain(module, pointwise=isinstance(module, POINTWISE))
    raise Unknown(f"module {name} ({type(module).__name__})")


def _pair(value: Any) -> tuple[int, int]:
    return (int(value), int(value)) if isinstance(value, int) else (int(value[0]), int(value[1]))


def _padding(module: nn.Conv2d) -> tuple[int, int]:
    if module.padding == "valid":
        return 0, 0
    if module.padding == "same":
        (kh, kw), (dh, dw) = _pair(module.kernel_size), _pair(module.dilation)
        if dh * (kh - 1) % 2 or dw * (kw - 1) % 2:
            raise Unknown("'same' padding of an even kernel is lopsided")
        return dh * (kh - 1) // 2, dw * (kw - 1) // 2
    return _pair(module.padding)


def agrees_with_autograd(program: LayerProgram) -> bool:
    """Whether the gradients of two clients on random samples are those of plain autograd."""
    space = program.space
    generator = torch.Generator().manual_seed(0)
    x_CB = torch.randn(2, 3, *space.shape, generator=generator, dtype=space.dtype)
    flats = [space.initial(0), space.initial(1)]
    together = [[0, 1]] if program.groupable else [[0], [1]]
    try:
        true = [_autograd(space, flat, x, key) for key, (flat, x) in enumerate(zip(flats, x_CB, strict=True))]
        found = [g for lane in together for g in _lane_gradients(program, [flats[k] for k in lane], x_CB[lane], lane)]
    except Exception:  # whatever a module that is not what it seems may raise
        return False
    return all((f - t).norm() <= AGREEMENT * t.norm() for f, t in zip(found, true, strict=True))


def _lane_gradients(program: LayerProgram, flats: list[Tensor], x_CB: Tensor, keys: list[int]) -> list[Tensor]:
    params, grads = program.pack(flats), program.pack(flats)
    weight_CB = torch.full(x_CB.shape[:2], 1 / x_CB.shape[1], dtype=x_CB.dtype)
    labels = torch.zeros(weight_CB.numel(), dtype=torch.int64)
    batch = Batch(x_CB.flatten(0, 1).clone(), labels, weight_CB, torch.tensor(keys))
    with torch.no_grad():
        program.gradients(params, grads, batch, "cross_entropy")
    return program.unpack(grads)


def _autograd(space: Space, flat: Tensor, x_B: Tensor, key: int) -> Tensor:
    weights = {name: w.clone().requires_grad_() for name, w in space.unflatten(flat).items()}
    set_keys(space.module.train(), torch.tensor(key))
    with torch.enable_grad():  # the caller may be within no_grad
        scores = torch.func.functional_call(space.module, weights, (x_B.clone(),))
        loss = F.cross_entropy(scores, torch.zeros(len(x_B), dtype=torch.int64))
    return torch.cat([g.reshape(-1) for g in torch.autograd.grad(loss, list(weights.values()))])


def _probed(program: VmapProgram) -> VmapProgram:
    """Try two clients and two samples, so that a module that cannot be batched is refused before any work."""
    space = program.space
    flats = [space.initial(0), space.initial(1)]
    params, grads = program.pack(flats), program.pack(flats)
    x = torch.zeros(4, *space.shape, dtype=space.dtype)
    y = torch.zeros(4, dtype=torch.int64)
    half = torch.full((2, 2), 0.5, dtype=space.dtype)
    try:
        program.gradients(params, grads, Batch(x, y, half, torch.zeros(2, dtype=torch.int64)), "cross_entropy")
        program.outputs(params, x)
    except Exception as reason:
        raise ModelError(
            f"model {space.name!r} cannot be batched over clients: {type(reason).__name__}: {reason}\n"
            "wanted: a module that torch.func.vmap can take (no data-dependent branches, no in-place writes to"
            " outside tensors, one tensor in, class scores out)\n"
            "hint: change the module, or run it one client at a time with `--set executor.name=reference`"
        ) from reason
    return program
