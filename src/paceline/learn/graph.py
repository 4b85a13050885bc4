"""Deferred models: nodes of a graph that the executor will compute when a value is needed.

``await world.train(...)`` returns a ``Model`` long before anything is trained. Algebra on models makes more nodes.
A computed node forgets its parents, so what nobody can reach any more is freed.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from torch import Tensor

from paceline.errors import SettingError
from paceline.learn import register
from paceline.learn.codecs import Codec, Rounded, Top
from paceline.learn.job import Shards
from paceline.learn.recipe import LocalSGD
from paceline.learn.space import Space

FUSED = 2


# Sums and visits are made in great numbers; they are never changed, but frozen ones take three times as long to make.
@dataclass(eq=False, slots=True)
class Sum:
    """A linear combination of the parents."""

    coefficients: tuple[float, ...]
    passing: bool = False
    """A difference or a scaling, as in ``x + (a - b) * 0.1``: folded into the sum that uses it, if its terms are at
    most ``FUSED``. Others may be a server model that many read, and whose terms would grow with every round."""


@dataclass(frozen=True, eq=False, slots=True)
class Apply:
    """A pure function of the parents' flat vectors, element by element or over all of them."""

    function: Callable[..., Tensor]
    options: tuple[tuple[str, Any], ...] = ()


@dataclass(frozen=True, eq=False, slots=True)
class Job:
    """What a server computes with the trainer at hand: ``function(trainer, *values)``.

    The parents may be of different spaces. Its time is what the algorithm charges with ``world.work``.
    """

    function: Callable[..., Tensor]


@dataclass(eq=False, slots=True)
class Visit:
    """What a client computes on its own data; the first parent is the start, then those named in ``extras``."""

    act: Literal["train", "probe"]
    """Local training gives a model; a probe gives the full gradient, and beside it the variance of its samples'."""
    shards: Shards
    client: int
    recipe: LocalSGD
    lr: float
    key: int
    extras: tuple[str, ...]
    owner: object
    """Whose node this is: the run that must stop if it diverges."""
    round: int
    time: float


@dataclass(frozen=True, eq=False, slots=True)
class Rows:
    """A function of the parents' vectors, stacked as matrices with one row a node, that treats every row by itself.

    Nodes that agree in it and are ready are computed together: a hundred clients' masks are one tensor.
    """

    function: Callable[..., Tensor]
    options: tuple[tuple[str, Hashable], ...]


Operation = Sum | Apply | Job | Rows | Visit
Places = frozenset[int]


@dataclass(eq=False, slots=True)
class Wire:
    """How a model is written when it is sent."""

    codec: Codec
    size: float
    """Bytes that are charged: those of the codec, unless an algorithm counts otherwise."""
    context: Model | None = None
    """What the sender writes it with: a mask, say."""
    known: Model | None = None
    """The same as the receiver has it; None: it came just before, in the same message."""


class Model:
    """A model in a space: a value, or a promise of one."""

    __slots__ = ("__weakref__", "figure", "number", "operation", "parents", "places", "space", "value", "wire")
    number: int
    """Which of all models it is, in a run whose models are registered."""

    def __init__(
        self,
        space: Space,
        value: Tensor | None = None,
        operation: Operation | None = None,
        parents: tuple[Model, ...] = (),
    ) -> None:
        self.space = space
        self.value = value
        self.operation = operation
        self.parents = parents
        self.figure: Tensor | None = None
        """A number that came with the value: a visit's mean loss, a probe's variance."""
        self.wire: Wire | None = None
        """How it is sent where not as a dense model (``packed``, ``encoded``)."""
        self.places: Places | None = common_places(parents) if parents else None
        """The sites that have it, in a world that checks that; None: everybody has it."""
        if register.current is not None:
            register.current.enter(self)

    @property
    def nbytes(self) -> float:
        """Bytes of this model on the wire."""
        return self.space.nbytes if self.wire is None else self.wire.size

    def settle(self, value: Tensor) -> None:
        """Become a value and let go of the past."""
        self.value = value
        self.operation = None
        self.parents = ()

    def __add__(self, other: Model) -> Model:
        return combine([(1.0, self), (1.0, other)])

    def __sub__(self, other: Model) -> Model:
        return combine([(1.0, self), (-1.0, other)], passing=True)

    def __mul__(self, factor: float) -> Model:
        return combine([(float(factor), self)], passing=True)

    __rmul__ = __mul__

    def __neg__(self) -> Model:
        return self * -1.0

    def __repr__(self) -> str:
        what = "value" if self.value is not None else type(self.operation).__name__.lower()
        return f"<Model {self.space.name}: {what}>"


class Ghost(Model):
    """A model without weights, for dry runs: it has a size and nothing else, and all algebra on it is itself."""

    __slots__ = ()

    def __add__(self, other: Model) -> Model:
        return self

    __sub__ = __add__

    def __mul__(self, factor: float) -> Model:
        return self

    __rmul__ = __mul__


def combine(terms: Iterable[tuple[float, Model]], *, passing: bool = False) -> Model:
    """The weighted sum of models of one space; passing sums among them are folded in.

    >>> import torch
    >>> from paceline.runs.problem import make_space
    >>> space = make_space("logistic", (1,), 2, "float32")
    >>> zeros, ones = Model(space, torch.zeros(4)), Model(space, torch.ones(4))
    >>> combine([(1.0, zeros), (-1.0, ones)]).operation.coefficients
    (1.0, -1.0)
    """
    coefficients: list[float] = []
    parents: list[Model] = []
    places: Places | None = None
    for factor, model in terms:
        if model.places is not None:  # of what is added, not of what that is folded into
            places = model.places if places is None else places & model.places
        if isinstance(model, Ghost):
            return model
        inner = model.operation
        if isinstance(inner, Sum) and inner.passing and len(inner.coefficients) <= FUSED:
            coefficients += [factor * own for own in inner.coefficients]
            parents += model.parents
        else:
            coefficients.append(factor)
            parents.append(model)
    assert parents, "a sum of no models has no space"
    space = parents[0].space
    strangers = {model.space.name for model in parents if model.space is not space}
    if strangers:
        raise TypeError(f"cannot average models of different spaces: {space.name} with {', '.join(strangers)}")
    found = Model(space, None, Sum(tuple(coefficients), passing), tuple(parents))
    found.places = places
    return found


def total(models: Iterable[Model]) -> Model:
    """The sum of models of one space, as one node: ``a + b + c`` would make one of each ``+``."""
    return combine((1.0, model) for model in models)


def once(difference: Model) -> Model:
    """A difference or a scaling as a node of its own: computed once, not folded into every sum that uses it."""
    return combine([(1.0, difference)])


def common_places(models: Iterable[Model]) -> Places | None:
    """The sites that have all of these; None: everybody has."""
    found: Places | None = None
    for model in models:
        if model.places is not None:
            found = model.places if found is None else found & model.places
    return found


def apply(function: Callable[..., Tensor], *models: Model, **options: Any) -> Model:
    """A pure function of the models' flat vectors, computed when it is needed."""
    if any(isinstance(model, Ghost) for model in models):
        return models[0]
    return Model(models[0].space, None, Apply(function, (*options.items(),)), models)


def by_rows(function: Callable[..., Tensor], *models: Model, **options: Hashable) -> Model:
    """``function(*matrices, **options)`` of these models and of all others that wait for the same; see ``Rows``."""
    if any(isinstance(model, Ghost) for model in models):
        return models[0]
    return Model(models[0].space, None, Rows(function, tuple(sorted(options.items()))), models)


def packed(
    model: Model,
    codec: Codec,
    *,
    context: Model | None = None,
    known: Model | None = None,
    charge: float | None = None,
) -> Model:
    """The same model, to be sent by a codec that loses nothing of it; ``charge`` where other bytes are counted."""
    if isinstance(model, Ghost):
        same: Model = Ghost(model.space)
    else:
        same = Model(model.space, model.value, Sum((1.0,), passing=True), (model,))
    size = codec.size(model.space) if charge is None else charge
    same.wire = Wire(codec, float(size), context, known)
    return same


def encoded(model: Model, codec: Codec) -> Model:
    """What a codec leaves of a model, to be sent by it: whoever has this has what the receivers have."""
    if isinstance(model, Ghost):
        same: Model = Ghost(model.space)
    elif isinstance(codec, Top) or (isinstance(codec, Rounded) and codec.key is None):
        same = by_rows(through, model, codec=codec)
    else:
        same = apply(through, model, codec=codec)
    same.wire = Wire(codec, float(codec.size(model.space)))
    return same


def through(x: Tensor, *, codec: Codec) -> Tensor:
    """What a codec leaves of a vector."""
    return codec.through(x)


def job(function: Callable[..., Tensor], space: Space, *models: Model) -> Model:
    """A model of this space that ``function(trainer, *values)`` makes of others, whatever their spaces."""
    if any(isinstance(model, Ghost) for model in models):
        return Ghost(space)
    return Model(space, None, Job(function), models)


def mean(models: Sequence[Model], weights: Sequence[float] | None = None) -> Model:
    """The average of models, weighted if weights are given (they are normalised to sum to 1).

    >>> import torch
    >>> from paceline.runs.problem import make_space
    >>> space = make_space("logistic", (1,), 2, "float32")
    >>> zeros, ones = Model(space, torch.zeros(4)), Model(space, torch.ones(4))
    >>> mean([zeros, ones], [3, 1]).operation.coefficients
    (0.75, 0.25)
    """
    if weights is None:
        return combine((1.0 / len(models), model) for model in models)
    total = float(sum(weights))
    if total <= 0:
        raise SettingError(f"weights sum to {total}, but an average needs a positive sum")
    return combine((w / total, model) for w, model in zip(weights, models, strict=True))
