"""The general program: any module that ``torch.func.vmap`` can take."""

from __future__ import annotations

import copy
import threading
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property

import torch
from torch import Tensor, nn

from paceline.learn.dropout import AddressedDropout
from paceline.learn.kernels.lane import Descent
from paceline.learn.programs.blocks import own_blocks
from paceline.learn.programs.program import Batch, losses, side_by_side
from paceline.learn.recipe import Loss
from paceline.learn.space import Space

CONVOLUTIONS = (nn.Conv1d, nn.Conv2d, nn.Conv3d, nn.ConvTranspose1d, nn.ConvTranspose2d, nn.ConvTranspose3d)


@dataclass(frozen=True, eq=False)
class VmapProgram:
    """Any module, by ``vmap(grad(functional_call))`` over clients."""

    space: Space
    groupable: bool = True
    _own: threading.local = field(default_factory=threading.local)

    def _module(self) -> nn.Module:
        """This thread's copy: ``functional_call`` swaps the module's tensors while it runs."""
        if not hasattr(self._own, "module"):
            self._own.module = copy.deepcopy(self.space.module)
        module: nn.Module = self._own.module
        return module

    @cached_property
    def batches_convolutions(self) -> bool:
        """``vmap`` makes one grouped convolution of several clients': on a CPU slower, and with other bits."""
        return not any(isinstance(module, CONVOLUTIONS) for module in self.space.module.modules())

    @cached_property
    def drops(self) -> bool:
        """Whether any layer is dropout."""
        return bool(self._keys())

    @property
    def scriptable(self) -> bool:
        """TorchScript takes no module whose tensors are swapped while it runs."""
        return False

    @property
    def descends(self) -> bool:
        """``vmap`` returns gradients; it cannot step."""
        return False

    def pack(self, flats: Sequence[Tensor]) -> list[Tensor]:
        """Copies, contiguous for each client, in the module's own shapes."""
        return [own_blocks(part) for part in self.space.split(side_by_side(flats))]

    def unpack(self, tensors: list[Tensor]) -> list[Tensor]:
        """Join each client's tensors into a flat vector again."""
        return self.space.join(tensors)

    def _keys(self) -> list[str]:
        modules = self.space.module.named_modules()
        return [f"{name}.key" for name, module in modules if isinstance(module, AddressedDropout)]

    def gradients(
        self, params: list[Tensor], grads: list[Tensor], batch: Batch, loss: Loss, descent: Descent | None = None
    ) -> Tensor:
        """Each client's own gradient, by vmap."""
        assert descent is None
        module = self._module().train(batch.dropout_key_C is not None)  # without keys, without dropout
        names = [slot.name for slot in self.space.slots]
        keyed = self._keys()

        def one(weights: list[Tensor], key: Tensor, x: Tensor, y: Tensor, w: Tensor) -> tuple[Tensor, Tensor]:
            state = dict(zip(names, weights, strict=True)) | dict.fromkeys(keyed, key)
            value = (losses(torch.func.functional_call(module, state, (x,)), y, loss) * w).sum()
            return value, value

        clients = params[0].shape[0]
        key_C = batch.dropout_key_C
        if key_C is None:
            key_C = torch.zeros(clients, dtype=torch.int64, device=batch.x.device)
        x_CB = batch.x.reshape(clients, -1, *batch.x.shape[1:])
        y_CB = batch.y.reshape(clients, -1, *batch.y.shape[1:])
        found, loss_C = torch.func.vmap(torch.func.grad(one, has_aux=True))(
            params, key_C, x_CB, y_CB, batch.weight_CB
        )
        for buffer, gradient in zip(grads, found, strict=True):
            buffer.copy_(gradient)
        losses_C: Tensor = loss_C
        return losses_C

    def outputs(self, params: list[Tensor], x: Tensor) -> Tensor:
        """Compute every client's outputs, forward only and without dropout."""
        module = self._module().eval()
        names = [slot.name for slot in self.space.slots]

        def one(weights: list[Tensor], part: Tensor) -> Tensor:
            scores: Tensor = torch.func.functional_call(module, dict(zip(names, weights, strict=True)), (part,))
            return scores

        clients = params[0].shape[0]
        out: Tensor = torch.func.vmap(one)(params, x.reshape(clients, -1, *x.shape[1:]))
        return out.flatten(0, 1)
