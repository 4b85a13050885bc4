"""Programs: the loss and gradient of C clients' models at once, compiled from a plain ``nn.Module``.

``LayerProgram`` is made from a module whose layers were read and are known (``layers.py``), and fast everywhere. Any
other module becomes a ``VmapProgram`` (``torch.func``), which is general. ``compile_program`` picks.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Protocol

import torch
from torch import Tensor
from torch.nn import functional as F

from paceline.learn.kernels.lane import Descent, Lane
from paceline.learn.programs.blocks import own_blocks
from paceline.learn.programs.convolution import Convolution
from paceline.learn.programs.layers import Dropout, Layer
from paceline.learn.recipe import Loss
from paceline.learn.space import Space


@dataclass(frozen=True, eq=False, slots=True)
class Batch:
    """One step's samples for C clients, merged: x is (C*B, ...), y is (C*B,) or (C*B, outputs)."""

    x: Tensor
    y: Tensor
    weight_CB: Tensor
    """Each client's weights sum to 1: 1/n on its n real samples, 0 on padding."""
    dropout_key_C: Tensor | None = None
    rate_C: Tensor | None = None
    """Scales the derivative of the loss (and so all gradients) but not the loss: see ``Descent``."""


class Program(Protocol):
    """One architecture, ready for cohorts."""

    @property
    def space(self) -> Space:
        """The architecture whose program this is."""
        ...

    @property
    def batches_convolutions(self) -> bool:
        """False when this program should be run with few clients at a time on a CPU."""
        ...

    @property
    def groupable(self) -> bool:
        """Whether several clients can run together at all."""
        ...

    @property
    def drops(self) -> bool:
        """Whether there is dropout, so that a step needs keys."""
        ...

    @property
    def descends(self) -> bool:
        """Whether ``gradients`` can take a plain SGD step by itself."""
        ...

    @property
    def scriptable(self) -> bool:
        """Whether a step can become TorchScript at all."""
        ...

    def pack(self, flats: Sequence[Tensor]) -> list[Tensor]:
        """C flat vectors to the tensors this program computes with; always copies."""
        ...

    def unpack(self, tensors: list[Tensor]) -> list[Tensor]:
        """The inverse of ``pack``; every client's vector has memory of its own, and dies alone."""
        ...

    def gradients(
        self, params: list[Tensor], grads: list[Tensor], batch: Batch, loss: Loss, descent: Descent | None = None
    ) -> Tensor:
        """Write the gradients into ``grads`` (or step by them at once) and return the loss of each client."""
        ...

    def outputs(self, params: list[Tensor], x: Tensor) -> Tensor:
        """The model outputs of C clients on merged samples, without dropout."""
        ...


@dataclass(frozen=True, slots=True)
class Node:
    """A layer and the numbers of the nodes it reads (0 is the program's input)."""

    layer: Layer
    inputs: tuple[int, ...]
    wanted: bool
    """Whether anything before this node has parameters, so that input gradients are needed."""


@dataclass(frozen=True, eq=False)
class LayerProgram:
    """A chain or graph of known layers."""

    space: Space
    nodes: tuple[Node, ...]
    image_weights: frozenset[int]
    """Numbers of the parameters that are convolution weights and kept channels-last."""

    @cached_property
    def batches_convolutions(self) -> bool:
        """Grouping convolutions of several clients does not pay on a CPU."""
        return not any(isinstance(node.layer, Convolution) for node in self.nodes)

    @cached_property
    def groupable(self) -> bool:
        """Whether several clients can run in one lane at all (grouped convolutions cannot)."""
        return all(node.layer.groups == 1 for node in self.nodes if isinstance(node.layer, Convolution))

    @cached_property
    def drops(self) -> bool:
        """Whether any layer is dropout."""
        return any(isinstance(node.layer, Dropout) for node in self.nodes)

    @property
    def descends(self) -> bool:
        """Whether ``gradients`` can take a plain SGD step by itself: all known layers can."""
        return True

    @property
    def scriptable(self) -> bool:
        """Known layers are plain functions of tensors."""
        return True

    def pack(self, flats: Sequence[Tensor]) -> list[Tensor]:
        """Copies, contiguous for each client; convolution weights to (C, out, kh, kw, in)."""
        return [
            own_blocks(part.permute(0, 1, 3, 4, 2) if k in self.image_weights else part)
            for k, part in enumerate(self.space.split(side_by_side(flats)))
        ]

    def unpack(self, tensors: list[Tensor]) -> list[Tensor]:
        """Back to the flat order of ``named_parameters``."""
        return self.space.join(
            [t.permute(0, 1, 4, 2, 3) if k in self.image_weights else t for k, t in enumerate(tensors)]
        )

    def gradients(
        self, params: list[Tensor], grads: list[Tensor], batch: Batch, loss: Loss, descent: Descent | None = None
    ) -> Tensor:
        """Forward, the loss's derivative, backward."""
        lane = Lane(params[0].shape[0], params, grads, batch.dropout_key_C, descent)
        values: list[Tensor] = [batch.x]
        saved: list[object] = [None]
        for node in self.nodes:
            value, kept = node.layer.forward(lane, *[values[k] for k in node.inputs])
            values.append(value)
            saved.append(kept)
        loss_C, g = loss_and_derivative(values[-1], batch, loss)
        self._backward(lane, saved, g)
        return loss_C

    def _backward(self, lane: Lane, saved: list[object], g: Tensor) -> None:
        pending: dict[int, Tensor] = {len(self.nodes): g}
        for number in range(len(self.nodes), 0, -1):
            node = self.nodes[number - 1]
            arrived = pending.pop(number, None)
            if arrived is None:
                continue
            flowing = node.layer.backward(lane, saved[number], arrived, node.wanted)
            saved[number] = None
            if not node.wanted:
                continue
            for source, part in zip(node.inputs, flowing, strict=True):
                if source and part is not None:
                    pending[source] = pending[source] + part if source in pending else part

    def outputs(self, params: list[Tensor], x: Tensor) -> Tensor:
        """Forward only; what no later layer reads is let go, or a test set of images would fill a GPU."""
        lane = Lane(params[0].shape[0], params, [])
        values = {0: x}
        for number, node in enumerate(self.nodes, 1):
            values[number] = node.layer.forward(lane, *[values[k] for k in node.inputs])[0]
            for k in self._read_last[number]:
                del values[k]
        return values[len(self.nodes)]

    @cached_property
    def _read_last(self) -> list[list[int]]:
        """Which values each node is the last to read."""
        last = {k: number for number, node in enumerate(self.nodes, 1) for k in node.inputs}
        found: list[list[int]] = [[] for _ in range(len(self.nodes) + 1)]
        for k, number in last.items():
            found[number].append(k)
        return found


def loss_and_derivative(output: Tensor, batch: Batch, loss: Loss) -> tuple[Tensor, Tensor]:
    """Each client's weighted mean loss and its derivative with respect to the outputs (C*B, outputs)."""
    scale_CB = batch.weight_CB if batch.rate_C is None else batch.weight_CB * batch.rate_C[:, None]
    scale = scale_CB.reshape(-1, 1)
    if loss == "squared":
        residual = output - batch.y
        each = 0.5 * residual.square().sum(dim=1)
        return (each.view_as(batch.weight_CB) * batch.weight_CB).sum(dim=1), residual * scale
    log_p = F.log_softmax(output, dim=1)
    target = batch.y.unsqueeze(1)
    each = -log_p.gather(1, target).view_as(batch.weight_CB)
    g = log_p.exp_().scatter_add_(1, target, torch.full_like(target, -1, dtype=output.dtype)).mul_(scale)
    return (each * batch.weight_CB).sum(dim=1), g


def side_by_side(flats: Sequence[Tensor]) -> Tensor:
    """C vectors as (C, P); the same vector C times (a round's common start) takes no memory."""
    first = flats[0]
    if all(flat is first for flat in flats):
        return first.expand(len(flats), -1)
    return torch.stack(list(flats))


def losses(output: Tensor, y: Tensor, loss: Loss) -> Tensor:
    """The loss of each sample, for autograd to differentiate."""
    if loss == "squared":
        return 0.5 * (output - y).square().sum(dim=-1)
    return F.cross_entropy(output, y, reduction="none")
