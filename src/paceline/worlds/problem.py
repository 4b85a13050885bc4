"""What is learned: a dataset split over clients, and the space of models."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from typing import Any

import torch
from torch import Tensor

from paceline.data import Dataset, Partition, catalogue, load, parse_partition, personal_test_sets
from paceline.data.registry import parse_name
from paceline.errors import PartitionError, SettingError
from paceline.learn.graph import Ghost, Measure, Model
from paceline.learn.job import Shards
from paceline.learn.models import build, default_for
from paceline.learn.recipe import LocalSGD
from paceline.learn.space import Space
from paceline.seeds import address, stream

NOMINAL_SAMPLES = 60_000
"""Training samples taken for granted in a dry run on a dataset whose published size is not known."""


@dataclass(eq=False)
class Problem:
    """One seed's split of one dataset, for one architecture."""

    space: Space
    dataset: str
    partition: Partition | None = None
    """None in a dry run, which reads no data: every client then has ``nominal`` samples."""
    nominal: int = 0
    train_shards: Shards | None = None
    test: tuple[Tensor, Tensor] | None = None
    classes: int = 0
    seed: int = 0
    _flops: dict[tuple[int, int], float] = field(default_factory=dict)
    _recipes: list[LocalSGD] = field(default_factory=list)
    _initial: dict[int, Model] = field(default_factory=dict)

    def initial_model(self, seed: int) -> Model:
        """Random weights at the seed's own address; in a dry run, a ghost."""
        if seed not in self._initial:
            dry = self.train_shards is None
            self._initial[seed] = (
                Ghost(self.space) if dry else Model(self.space, self.space.initial(address(seed, "initial model")))
            )
        return self._initial[seed]

    def samples(self, client: int) -> int:
        """Training samples of a client."""
        if self.partition is None:
            return self.nominal
        return int(self.partition.offsets[client + 1] - self.partition.offsets[client])

    def shards(self) -> Shards:
        """The training data with their owners."""
        assert self.train_shards is not None, "a dry run has no data"
        return self.train_shards

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

    @cached_property
    def personal_rows(self) -> list[Tensor]:
        """Each client's own test rows, in its own proportions of labels."""
        assert self.partition is not None and self.test is not None, "a dry run has no data"
        labels, tests = self.shards().y.numpy(), self.test[1].numpy()
        split = personal_test_sets(self.partition, labels, tests, self.classes, stream(self.seed, "personal test"))
        return [torch.from_numpy(split[k]) for k in range(len(split))]

    def flops(self, client: int, recipe: LocalSGD) -> float:
        """Training FLOPs of one visit: 3 forward passes a sample; NaN where some layer's are not known."""
        key = (id(recipe), self.samples(client))
        found = self._flops.get(key)
        if found is None:
            self._recipes.append(recipe)  # keeps the id taken
            found = self._flops[key] = 3.0 * self.space.flops * recipe.samples_for(key[1])
        return found

    def probe_flops(self, client: int) -> float:
        """FLOPs of one full gradient."""
        return 3.0 * self.space.flops * self.samples(client)


def build_problem(
    *,
    dataset: str,
    partition: str,
    clients: int,
    model: str,
    seed: int,
    dtype: str = "float32",
    dry: bool = False,
) -> Problem:
    """Load, split and check; what cannot be is an error here."""
    scheme = parse_partition(partition)
    spec, _ = parse_name(dataset)
    count = spec.counts[0] if spec.counts else NOMINAL_SAMPLES
    if dry and (clients > count or not is_here(dataset)):
        # Nothing to split, or nobody to split it for: all clients alike, so that any fleet can be tried.
        space = make_space(model, spec.shape, spec.classes, dtype)
        return Problem(space, dataset, nominal=max(1, count // clients), classes=spec.classes)
    data = load_once(dataset)
    space = make_space(model, data.shape, data.classes, dtype)
    rng = stream(seed, "partition", partition, clients)
    split = scheme.split(data.y_train, clients, rng, data.group_train)
    if dry:
        return Problem(space, dataset, split, classes=data.classes)
    if len(split) != clients or split.sizes.min() < 1:
        raise PartitionError(f"{partition} left a client of {clients} without data; lower `clients`")
    tensors = tensors_once(dataset)
    shards = Shards(tensors["x_train"], tensors["y_train"], split.indices, split.offsets)
    test = (tensors["x_test"], tensors["y_test"])
    return Problem(space, dataset, split, 0, shards, test, data.classes, seed)


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


@lru_cache(maxsize=16)
def make_space(model: str, shape: tuple[int, ...], classes: int, dtype: str) -> Space:
    """One space per architecture and process: models of two runs can then train in one cohort."""
    name = default_for(shape, classes) if model == "auto" else model
    kind: Any = getattr(torch, dtype)
    return Space(name, lambda: build(name, shape, classes), shape, kind)
