"""Models as bytes: what is sent is written by the codec that was charged for it, and read by the same."""

from __future__ import annotations

import weakref

from torch import Tensor

from paceline.errors import WireError
from paceline.learn.codecs import Codec, Dense, Gsgd, Rounded, Top
from paceline.learn.executor import Executor
from paceline.learn.graph import Model, Sum
from paceline.learn.space import Space

DENSE = Dense()


class Writer:
    """Writes models, each lossy one once: all who receive it receive the same bytes."""

    def __init__(self, executor: Executor) -> None:
        self._executor = executor
        self._written: weakref.WeakKeyDictionary[Model, bytes] = weakref.WeakKeyDictionary()

    def value(self, model: Model) -> Tensor:
        """The model's value, computed if need be."""
        if model.value is None:
            self._executor.run([model])
        assert model.value is not None
        return model.value

    def write(self, model: Model, codec: Codec | None, context: Model | None) -> bytes:
        """Write a model as bytes, as its codec does."""
        if codec is not None and is_lossy(codec):
            return self._lossy(_made_by_codec(model), codec)
        given = () if context is None else (self.value(context),)
        return (codec or DENSE).encode(model.space, self.value(model), *given)

    def remember(self, model: Model, data: bytes) -> None:
        """A model whose bytes are known: what was compressed may be gone."""
        self._written[model] = data

    def _lossy(self, model: Model, codec: Codec) -> bytes:
        """What is written is what was compressed, not what is left of it: compressing twice is another thing."""
        if model not in self._written:
            if model.value is not None:
                raise WireError("what was compressed is not here any more, so it cannot be written again")
            data = codec.encode(model.space, self.value(model.parents[0]))
            model.settle(codec.decode(model.space, data))
            self._written[model] = data
        return self._written[model]


def is_lossy(codec: Codec | None) -> bool:
    """Whether what is read is not what was written."""
    return isinstance(codec, Top | Rounded | Gsgd)


def read(space: Space, data: bytes, codec: Codec | None, context: Tensor | None) -> Tensor:
    """Read a model from bytes."""
    return (codec or DENSE).decode(space, data, *(() if context is None else (context,)))


def _made_by_codec(model: Model) -> Model:
    """The node that compresses, behind copies that only say where it is."""
    while isinstance(model.operation, Sum) and len(model.parents) == 1:
        model = model.parents[0]
    return model
