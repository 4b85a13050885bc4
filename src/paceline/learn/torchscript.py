"""The one door to TorchScript, which torch deprecates: no other file uses ``torch.jit``.

Where TorchScript cannot do what is asked, or is gone from torch, the answer is None: the caller goes on without it,
more slowly and with the same bits, and the user is told so once.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from paceline.learn.notices import tell_slower

Function = Callable[..., Tensor]
Functions = dict[str, Callable[..., tuple[Tensor, ...]]]


def traced(function: Function, example: Sequence[Tensor], what: str) -> Function | None:
    """The function as TorchScript, traced by running it on these tensors; None where that fails.

    ``what`` says in the notice whose steps these are.
    """
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            found: Function = torch.jit.trace(function, tuple(example), check_trace=False)  # type: ignore[no-untyped-call]
    except Exception as problem:  # the tracer raises RuntimeError and others for what it does not know
        tell_slower(
            f"{what} runs step by step in Python, which is slower: TorchScript cannot trace it ({_line(problem)})"
        )
        return None
    return found


def compiled(names: Sequence[str], text: str, what: str) -> Functions | None:
    """The functions of these names, compiled from this TorchScript text; None where that fails."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            unit = torch.jit.CompilationUnit(text)
            return {name: getattr(unit, name) for name in names}
    except Exception as problem:
        tell_slower(f"{what} cannot be traced, which is slower: TorchScript does not compile here ({_line(problem)})")
        return None


def _line(problem: Exception) -> str:
    """The first line of what went wrong; torch's messages go on for pages."""
    return next(iter(str(problem).strip().splitlines()), "") or type(problem).__name__
