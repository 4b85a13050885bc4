"""A user's own network, named ``package.module:factory``."""

from __future__ import annotations

import copy
from collections.abc import Callable
from functools import wraps
from inspect import signature

import torch
from torch import nn

from paceline.errors import ModelError
from paceline.learn.models.shapes import Shape, channels_last
from paceline.references import LENT, load_reference

Factory = Callable[[Shape, int], nn.Module]
_LENT: dict[str, Factory] = LENT["model"]


def load_user_model(reference: str) -> Factory:
    """Import the factory named by ``package.module:factory``. A factory without parameters is called without any."""
    if reference in _LENT:
        return _LENT[reference]
    factory = load_reference(reference, "network", ModelError)
    if not callable(factory):
        raise ModelError(
            f"{reference!r} is a {type(factory).__name__}, but must be a function that returns an nn.Module; write"
            " factory(shape, classes) or factory()"
        )
    return _guarded(factory, reference)


def lend_model(model: nn.Module | Callable[..., nn.Module], name: str = "") -> str:
    """A name for a network that is at hand: a module, or a function or class that makes one.

    A function may take the shape of a sample and the number of classes, or nothing. A module is copied, and every
    run starts from its weights.
    """
    name = name or f"given:{_plain(model)}_{len(_LENT)}"
    if isinstance(model, nn.Module):
        _LENT[name] = lambda shape, classes: copy.deepcopy(model)
    elif callable(model):
        _LENT[name] = _guarded(model, name)
    else:
        raise ModelError(
            f"model is a {type(model).__name__}; want a name, an nn.Module, or a function that makes one"
        )
    return name


def _plain(model: object) -> str:
    name = getattr(model, "__name__", type(model).__name__)
    return name if name.isidentifier() else "network"


def _takes(factory: Callable[..., object], *given: object) -> bool:
    try:
        signature(factory).bind(*given)
    except TypeError:
        return False
    except ValueError:  # no signature to be had: as the rule says
        return True
    return True


def probe(model: nn.Module, name: str, shape: Shape, classes: int) -> None:
    """Send two blank samples through and refuse a network whose output is no (samples, classes) scores."""
    training = model.training
    try:
        with torch.no_grad():
            out = model.eval()(torch.zeros(2, *shape))
    except (RuntimeError, ValueError, TypeError, IndexError) as error:
        said = channels_last(shape) or error
        raise ModelError(f"{name!r} fails on a batch of shape {(2, *shape)}: {said}") from error
    finally:
        model.train(training)
    if not isinstance(out, torch.Tensor) or tuple(out.shape) != (2, classes):
        came = f"shape {tuple(out.shape)}" if isinstance(out, torch.Tensor) else f"a {type(out).__name__}"
        raise ModelError(f"{name!r} gives {came} for 2 samples; want raw scores of shape {(2, classes)}")


def _guarded(factory: Callable[..., object], reference: str) -> Factory:
    @wraps(factory)
    def make(shape: Shape, classes: int) -> nn.Module:
        two = _takes(factory, (1,), 2) or not _takes(factory)
        try:
            model = factory(shape, classes) if two else factory()
        except Exception as error:  # whatever a user's code raises
            raise ModelError(
                f"{reference!r} was called as factory({f'{shape}, {classes}' if two else ''}) and raised"
                f" {type(error).__name__}: {error}"
            ) from error
        if not isinstance(model, nn.Module):
            raise ModelError(f"{reference!r} returned a {type(model).__name__}; want an nn.Module")
        return model

    return make
