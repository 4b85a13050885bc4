"""Dropout whose mask has an address, so that batching clients together cannot change it."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from paceline.learn.hashing import mix, uniform

DROPOUTS = (nn.Dropout, nn.Dropout1d, nn.Dropout2d, nn.Dropout3d)


class AddressedDropout(nn.Module):
    """``nn.Dropout`` with its mask drawn at (key, layer, position in the batch); the identity in eval mode."""

    key: Tensor

    def __init__(self, p: float, layer: int) -> None:
        super().__init__()
        self.p = p
        self.layer = layer
        # A buffer, so that vmap can be given one key per client.
        self.register_buffer("key", torch.zeros((), dtype=torch.int64), persistent=False)

    def forward(self, x: Tensor) -> Tensor:
        """Drop the numbers that the key says, and rescale the others."""
        if not self.training or self.p == 0.0:
            return x
        return x * keep_mask(self.key, self.layer, x[None].shape, self.p, x)[0]


def keep_mask(key_C: Tensor, layer: int, shape: torch.Size, p: float, like: Tensor) -> Tensor:
    """(C, B, ...) factors 0 or 1/(1-p); element i of client c is drawn at (key_c, layer, i)."""
    count = shape[1:].numel()
    position = torch.arange(count, device=like.device)
    draws = uniform(mix(mix(key_C, layer).reshape(-1, 1), position))
    return (draws >= p).to(like.dtype).div_(1.0 - p).reshape(-1, *shape[1:])


def address_dropout(model: nn.Module) -> nn.Module:
    """Replace every torch dropout by an addressed one, in place; layers are numbered in definition order."""
    layer = 0
    for parent in list(model.modules()):
        for name, child in list(parent.named_children()):
            if isinstance(child, DROPOUTS):
                setattr(parent, name, AddressedDropout(child.p, layer))
                layer += 1
    return model


def set_keys(model: nn.Module, key: Tensor) -> None:
    """Give every dropout layer of a module this visit-and-step's key."""
    for module in model.modules():
        if isinstance(module, AddressedDropout):
            module.key = key
