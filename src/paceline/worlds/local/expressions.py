"""Algebra as data: what a device is to compute from models that it holds, in words that another process reads.

An expression is a list of nodes, each after its parents. Functions are named, not sent; a worker looks them up among
those that it has itself.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from importlib import import_module
from types import FunctionType
from typing import Any

from torch import Tensor

from paceline.errors import WireError
from paceline.learn.codecs import Codec, codec_from, describe
from paceline.learn.graph import Apply, Model, Operation, Rows, Sum
from paceline.learn.space import Slot
from paceline.learn.sparsity import Sap
from paceline.reading import shown

Words = dict[str, Any]
Leaf = Callable[[Model], Words | None]
"""How a model that is there already is named; None if it must be computed."""


class Expression:
    """Nodes that are written once, however often they are used."""

    def __init__(self, leaf: Leaf) -> None:
        self.nodes: list[Words] = []
        self._leaf = leaf
        self._places: dict[int, int] = {}
        self._kept: list[Model] = []

    def add(self, model: Model) -> int:
        """The place of a model among the nodes."""
        stack = [model]
        while stack:
            last = stack[-1]
            if id(last) in self._places:
                stack.pop()
                continue
            words = self._leaf(last)
            if words is None:
                missing = [parent for parent in last.parents if id(parent) not in self._places]
                if missing:
                    stack += missing
                    continue
                words = _words(last.operation, [self._places[id(parent)] for parent in last.parents])
            self._places[id(last)] = len(self.nodes)
            self._kept.append(last)  # which keeps its name taken
            self.nodes.append(words)
            stack.pop()
        return self._places[id(model)]


def _words(operation: Operation | None, parents: list[int]) -> Words:
    if isinstance(operation, Sum):
        return {"sum": list(operation.coefficients), "passing": operation.passing, "of": parents}
    if isinstance(operation, Apply | Rows):
        options = {name: _plain(value) for name, value in operation.options}
        kind = "apply" if isinstance(operation, Apply) else "rows"
        return {kind: function_name(operation.function), "options": options, "of": parents}
    raise WireError(f"{type(operation).__name__} cannot be computed at a device; wanted algebra of what it holds")


def function_name(function: Callable[..., Any]) -> str:
    """``module:name`` of a function at the top of a module; others cannot be named."""
    name = f"{function.__module__}:{function.__qualname__}"
    if "<" in name:
        raise WireError(
            f"{name} is no function of a module, so a device cannot look it up; move it to the top of its module,"
            " and give what it needs as options"
        )
    return name


def function_named(name: str) -> Callable[..., Tensor]:
    """Return the learning function of this name. None of these functions opens a file named by its arguments."""
    module, _, attribute = name.partition(":")
    if (
        not module.startswith(("paceline.algorithms.", "paceline.learn."))
        or "__" in module
        or not attribute.isidentifier()
    ):
        raise WireError(f"{shown(name)} is not a function with which Paceline learns; a worker computes nothing else")
    found = getattr(import_module(module), attribute, None)
    if not isinstance(found, FunctionType) or found.__module__ != module:  # and nothing that is only imported there
        raise WireError(f"there is no function {shown(name)}; use the same version of Paceline at both ends")
    return found


def rebuilt(nodes: Sequence[Words], leaf: Callable[[Words], Model | None]) -> list[Model]:
    """The models of an expression, in its order; ``leaf`` finds those that are there already."""
    models: list[Model] = []
    for words in nodes:
        found = leaf(words)
        if found is None:
            parents = tuple(models[k] for k in words["of"])
            found = Model(parents[0].space, None, _operation(words), parents)
        models.append(found)
    return models


def _operation(words: Words) -> Operation:
    if "sum" in words:
        return Sum(tuple(map(float, words["sum"])), bool(words["passing"]))
    options = tuple(sorted((name, _value(value)) for name, value in words["options"].items()))
    if "apply" in words:
        return Apply(function_named(words["apply"]), options)
    return Rows(function_named(words["rows"]), options)


def _plain(value: Any) -> Any:
    """An option as JSON has it; what JSON does not have is named."""
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, Slot):
        return {"slot": [value.name, list(value.shape), value.start, value.stop]}
    if isinstance(value, Sap):
        return {"sap": asdict(value)}
    if isinstance(value, tuple | list):
        return {"tuple": [_plain(item) for item in value]}
    return {"codec": describe(value)}


def _value(plain: Any) -> Any:
    if not isinstance(plain, Mapping):
        return plain
    (kind, value), *_ = plain.items()
    if kind == "slot":
        name, shape, start, stop = value
        return Slot(name, tuple(shape), start, stop)
    if kind == "sap":
        return Sap(**value)
    if kind == "tuple":
        return tuple(_value(item) for item in value)
    return codec_from(value)


def codec_words(codec: Codec | None) -> Words | None:
    """A codec as words; None is a dense model."""
    return None if codec is None else describe(codec)
