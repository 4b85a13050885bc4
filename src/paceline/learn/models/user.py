"""A user's own network, named ``package.module:factory``."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable
from functools import wraps
from pathlib import Path
from types import ModuleType

import torch
from torch import nn

from paceline.errors import ModelError, nearest
from paceline.learn.models.shapes import Shape

Factory = Callable[[Shape, int], nn.Module]


def load_user_model(reference: str) -> Factory:
    """The factory ``factory(shape, classes) -> nn.Module`` that ``package.module:factory`` names.

    The current directory is searched too, so a file ``mynet.py`` beside the user is ``mynet:factory``.
    """
    place, _, attribute = reference.partition(":")
    if not place or not attribute.isidentifier():
        raise ModelError(f"{reference!r} names no network; write 'package.module:factory'")
    module = _import(place, reference)
    factory = getattr(module, attribute, None)
    if factory is None:
        callables = [name for name, value in vars(module).items() if callable(value) and name[0] != "_"]
        raise ModelError(f"{reference!r}: {place} has no {attribute!r}; {nearest(attribute, callables)}")
    if not callable(factory):
        raise ModelError(
            f"{reference!r} is a {type(factory).__name__}, not a function; "
            "want factory(shape, classes) that returns an nn.Module"
        )
    return _guarded(factory, reference)


def probe(model: nn.Module, name: str, shape: Shape, classes: int) -> None:
    """Send two blank samples through and refuse a network whose output is no (samples, classes) scores."""
    training = model.training
    try:
        with torch.no_grad():
            out = model.eval()(torch.zeros(2, *shape))
    except (RuntimeError, ValueError, TypeError, IndexError) as error:
        raise ModelError(f"{name!r} fails on a batch of shape {(2, *shape)}: {error}") from error
    finally:
        model.train(training)
    if not isinstance(out, torch.Tensor) or tuple(out.shape) != (2, classes):
        came = f"shape {tuple(out.shape)}" if isinstance(out, torch.Tensor) else f"a {type(out).__name__}"
        raise ModelError(f"{name!r} gives {came} for 2 samples; want raw scores of shape {(2, classes)}")


def _import(place: str, reference: str) -> ModuleType:
    here = str(Path.cwd())
    if here not in sys.path:
        sys.path.append(here)  # last, so that it can never hide an installed package
    # A file written since the last import (a notebook, a test) must be found.
    importlib.invalidate_caches()
    try:
        return importlib.import_module(place)
    except Exception as error:  # the user's module may fail in any way; say which module it was
        raise ModelError(
            f"{reference!r}: cannot import {place}: {type(error).__name__}: {error}; "
            "is it installed, or in the current directory?"
        ) from error


def _guarded(factory: Callable[..., object], reference: str) -> Factory:
    @wraps(factory)
    def make(shape: Shape, classes: int) -> nn.Module:
        try:
            model = factory(shape, classes)
        except Exception as error:  # whatever a user's code raises
            raise ModelError(
                f"{reference!r} was called as factory({shape}, {classes}) and raised {type(error).__name__}: {error}"
            ) from error
        if not isinstance(model, nn.Module):
            raise ModelError(f"{reference!r} returned a {type(model).__name__}; want an nn.Module")
        return model

    return make
