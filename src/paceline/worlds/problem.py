"""What is learned: a dataset split over clients, and the space of models."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, lru_cache
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from paceline.data import Dataset, Partition, catalogue, load, parse_partition, personal_test_sets
from paceline.data.counting import apportion
from paceline.data.registry import parse_name
from paceline.data.schemes import Scheme
from paceline.data.shares import by_class
from paceline.errors import PartitionError, SettingError
from paceline.learn.graph import Ghost, Measure, Model
from paceline.learn.job import Shards
from paceline.learn.models import build, default_for
from paceline.learn.recipe import LocalSGD
from paceline.learn.space import Space
from paceline.seeds import address, stream
from paceline.system.availability import whole_part

NOMINAL_SAMPLES = 60_000
"""Training samples taken for granted in a dry run on a dataset whose published size is not known."""


@dataclass(eq=False)
class Problem:
    """One seed's split of one dataset, for one architecture or several."""

    space: Space
    """The architecture, or the first of them."""
    dataset: str
    partition: Partition | None = None
    """None in a dry run, which reads no data: every client then has ``nominal`` samples."""
    nominal: int = 0
    train_shards: Shards | None = None
    test: tuple[Tensor, Tensor] | None = None
    classes: int = 0
    seed: int = 0
    public_size: int = 0
    """Samples that the server holds itself, also in a dry run."""
    public: tuple[Tensor, Tensor] | None = None
    others: tuple[Space, ...] = ()
    """Further architectures; clients have them in turn."""
    _flops: dict[tuple[int, int, int], float] = field(default_factory=dict)
    _recipes: list[LocalSGD] = field(default_factory=list)
    _initial: dict[tuple[int, int], Model] = field(default_factory=dict)

    @property
    def spaces(self) -> tuple[Space, ...]:
        """All architectures."""
        return (self.space, *self.others)

    def kind(self, client: int) -> int:
        """Which of them a client has."""
        return client % len(self.spaces)

    def initial_model(self, seed: int, kind: int = 0) -> Model:
        """Random weights at the seed's own address; in a dry run, a ghost."""
        if (seed, kind) not in self._initial:
            space, dry = self.spaces[kind], self.train_shards is None
            self._initial[seed, kind] = (
                Ghost(space) if dry else Model(space, space.initial(address(seed, "initial model")))
            )
        return self._initial[seed, kind]

    def samples(self, client: int) -> int:
        """Training samples of a client."""
        if self.partition is None:
            return self.nominal
        return int(self.partition.offsets[client + 1] - self.partition.offsets[client])

    def shards(self) -> Shards:
        """The training data with their owners."""
        assert self.train_shards is not None, "a dry run has no data"
        return self.train_shards

    @cached_property
    def flipped_shards(self) -> Shards:
        """The training data with every label y turned into classes-1-y."""
        return replace(self.shards(), y=flipped_labels(self.shards().y, self.classes))

    def public_data(self) -> tuple[Tensor, Tensor]:
        """The server's own samples and labels."""
        if self.public is not None:
            return self.public
        if self.public_size:
            raise SettingError("a dry run reads no data, so there are no public samples to look at")
        raise SettingError("this needs samples that the server holds; give it some, as in --set public=0.05")

    def measure(self, model: Model | Sequence[Model]) -> Measure:
        """The score of one model on the whole test set, or the mean over clients of each one's own on its own."""
        assert self.test is not None, "a dry run has no data"
        if isinstance(model, Model):
            return Measure([model], *self.test)
        if len(model) != len(self.personal_rows):
            raise SettingError(
                f"{len(model)} personal models for {len(self.personal_rows)} clients; give one model per client"
            )
        return Measure(model, *self.test, self.personal_rows)

    def measure_others(self, models: Model | Sequence[Model]) -> Measure:
        """The score of one more model on the whole test set, or the mean score of several."""
        assert self.test is not None, "a dry run has no data"
        return Measure([models] if isinstance(models, Model) else models, *self.test)

    @cached_property
    def personal_rows(self) -> list[Tensor]:
        """Each client's own test rows, in its own proportions of labels."""
        assert self.partition is not None and self.test is not None, "a dry run has no data"
        labels, tests = self.shards().y.numpy(), self.test[1].numpy()
        split = personal_test_sets(self.partition, labels, tests, self.classes, stream(self.seed, "personal test"))
        return [torch.from_numpy(split[k]) for k in range(len(split))]

    def flops(self, client: int, recipe: LocalSGD, forward: float | None = None) -> float:
        """Training FLOPs of one visit: 3 forward passes a sample; NaN where some layer's are not known.

        ``forward`` is one sample's forward pass where it is not that of the dense network.
        """
        if forward is not None:
            return 3.0 * forward * recipe.samples_for(self.samples(client))
        key = (id(recipe), self.samples(client), self.kind(client))
        found = self._flops.get(key)
        if found is None:
            self._recipes.append(recipe)  # keeps the id taken
            found = self._flops[key] = 3.0 * self.spaces[key[2]].flops * recipe.samples_for(key[1])
        return found

    def probe_flops(self, client: int) -> float:
        """FLOPs of one full gradient."""
        return 3.0 * self.spaces[self.kind(client)].flops * self.samples(client)


def build_problem(
    *,
    dataset: str,
    partition: str,
    clients: int,
    model: str,
    seed: int,
    dtype: str = "float32",
    dry: bool = False,
    public: float = 0.0,
) -> Problem:
    """Load, split and check; what cannot be is an error here."""
    scheme = parse_partition(partition)
    spec, _ = parse_name(dataset)
    count = spec.counts[0] if spec.counts else NOMINAL_SAMPLES
    held = public_count(public, count)
    if dry and (clients > count - held or not is_here(dataset)):
        # Nothing to split, or nobody to split it for: all clients alike, so that any fleet can be tried.
        space, *others = make_spaces(model, spec.shape, spec.classes, dtype)
        nominal = max(1, (count - held) // clients)
        kinds = tuple(others)
        return Problem(space, dataset, nominal=nominal, classes=spec.classes, public_size=held, others=kinds)
    data = load_once(dataset)
    space, *others = make_spaces(model, data.shape, data.classes, dtype)
    rng = stream(seed, "partition", partition, clients)
    held = public_count(public, len(data.y_train))
    split = split_rest(scheme, data, clients, rng, public_rows(data.y_train, held, seed))
    if dry:
        return Problem(space, dataset, split, classes=data.classes, public_size=held, others=tuple(others))
    if len(split) != clients or split.sizes.min() < 1:
        raise PartitionError(f"{partition} left a client of {clients} without data; lower `clients`")
    tensors = tensors_once(dataset)
    shards = Shards(tensors["x_train"], tensors["y_train"], split.indices, split.offsets)
    test = (tensors["x_test"], tensors["y_test"])
    shown = public_once(dataset, held, seed) if held else None
    return Problem(space, dataset, split, 0, shards, test, data.classes, seed, held, shown, tuple(others))


def public_count(share: float, samples: int) -> int:
    """How many samples the server holds."""
    held = whole_part(share, samples)
    if share and not held:
        raise SettingError(f"public is {share:g}, less than 1 of {samples} samples; raise it, or set it to 0")
    return held


def public_rows(labels: NDArray[np.int64], held: int, seed: int) -> NDArray[np.int64]:
    """Rows for the server, sorted: of each class its share, so that the server sees what the clients see together."""
    if not held:
        return np.empty(0, np.int64)
    rng = stream(seed, "public")
    which, stock = by_class(labels)
    wanted = apportion(stock.astype(np.float64), held, 0, stock)
    drawn = [rng.choice(np.flatnonzero(which == c), n, replace=False) for c, n in enumerate(wanted)]
    return np.sort(np.concatenate(drawn))


def split_rest(
    scheme: Scheme, data: Dataset, clients: int, rng: np.random.Generator, held: NDArray[np.int64]
) -> Partition:
    """Split what the server does not hold; the indices are rows of the whole training set all the same."""
    if not len(held):
        return scheme.split(data.y_train, clients, rng, data.group_train)
    rest = np.setdiff1d(np.arange(len(data.y_train)), held, assume_unique=True)
    groups = None if data.group_train is None else data.group_train[rest]
    split = scheme.split(data.y_train[rest], clients, rng, groups)
    return Partition(rest[split.indices], split.offsets)


def is_here(name: str) -> bool:
    """Whether a dataset can be loaded."""
    known = {entry.name: entry.present for entry in catalogue()}
    return known[parse_name(name)[0].name]


@lru_cache(maxsize=4)
def load_once(name: str) -> Dataset:
    """A dataset, shared by all runs of this process."""
    return load(name)


@lru_cache(maxsize=4)
def tensors_once(name: str) -> dict[str, Tensor]:
    """A dataset's normalised tensors, shared by all runs so that their visits can be batched together."""
    data = load_once(name)
    return {
        "x_train": torch.from_numpy(data.features("train")),
        "y_train": torch.from_numpy(data.y_train),
        "x_test": torch.from_numpy(data.features("test")),
        "y_test": torch.from_numpy(data.y_test),
    }


@lru_cache(maxsize=8)
def public_once(name: str, held: int, seed: int) -> tuple[Tensor, Tensor]:
    """The server's samples, shared by all runs with this seed so that scoring on them can be batched together."""
    tensors = tensors_once(name)
    rows = torch.from_numpy(public_rows(load_once(name).y_train, held, seed))
    return tensors["x_train"][rows], tensors["y_train"][rows]


@lru_cache(maxsize=4)
def flipped_labels(labels: Tensor, classes: int) -> Tensor:
    """Label y as classes-1-y; one tensor for all runs on these labels, so that visits can be batched together."""
    if labels.is_floating_point():
        raise SettingError("hostile=label-flip needs classes; these data have numeric targets: use another attack")
    return classes - 1 - labels


def make_spaces(models: str, shape: tuple[int, ...], classes: int, dtype: str) -> list[Space]:
    """The architectures of ``lenet+mlp:200``, in this order."""
    return [make_space(model, shape, classes, dtype) for model in models.split("+")]


@lru_cache(maxsize=16)
def make_space(model: str, shape: tuple[int, ...], classes: int, dtype: str) -> Space:
    """One space per architecture and process: models of two runs can then train in one cohort."""
    name = default_for(shape, classes) if model == "auto" else model
    kind: Any = getattr(torch, dtype)
    return Space(name, lambda: build(name, shape, classes), shape, kind)
