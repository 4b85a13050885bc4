"""A cohort's way through a program: whose weights, and what becomes of their gradients."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(frozen=True, slots=True)
class Descent:
    """Plain SGD, done by the layers themselves: w becomes keep * w - gradient, without storing a gradient.

    The derivative of the loss that flows back is scaled by each client's rate already, and so are all gradients.
    """

    keep_C: Tensor | None
    """None keeps everything: no weight decay."""


@dataclass(slots=True)
class Lane:
    """One pass of one cohort through a program."""

    clients: int
    params: list[Tensor]
    grads: list[Tensor]
    """Buffers of the parameters' shapes for backward to write into; unused under ``descent``."""
    dropout_key_C: Tensor | None = None
    """None in evaluation: dropout is then the identity."""
    descent: Descent | None = None

    def product(self, k: int, a: Tensor, b: Tensor) -> None:
        """The gradient of parameter k is the batched product a b: store it, or step by it."""
        if self.descent is None:
            torch.bmm(a, b, out=self.grads[k].flatten(2))
        else:
            self._decayed(k, self.descent).flatten(2).baddbmm_(a, b, alpha=-1)

    def store(self, k: int, gradient: Tensor) -> None:
        """The gradient of parameter k is at hand: store it, or step by it."""
        if self.descent is None:
            self.grads[k].copy_(gradient)
            return
        self._decayed(k, self.descent).sub_(gradient)

    def _decayed(self, k: int, descent: Descent) -> Tensor:
        w = self.params[k]
        return w if descent.keep_C is None else w.mul_(descent.keep_C.view(-1, *[1] * (w.dim() - 1)))
