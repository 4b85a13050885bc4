"""What is learned: a dataset split over clients, and the space of models."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, lru_cache
from typing import Any

import numpy as np
import torch
from torch import Tensor

from paceline.data import Partition, personal_test_sets
from paceline.errors import SettingError
from paceline.learn.graph import Ghost, Model
from paceline.learn.job import Shards
from paceline.learn.promises import Measure
from paceline.learn.recipe import LocalSGD
from paceline.learn.space import Space
from paceline.seeds import address, stream

MOST_KEPT = 20_000
"""Most cached FLOPs of visits. A full cache is cleared, because recipes may be new in every round."""
MOST_COUNTS = 200_000
"""Clients times labels of which a run writes down who has how many."""


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
    _flops: dict[int | tuple[int, int, int], float] = field(default_factory=dict)
    """FLOPs of visits, by recipe alone if they are the same for all clients."""
    _recipes: list[LocalSGD] = field(default_factory=list)
    _initial: dict[tuple[int, int], Model] = field(default_factory=dict)

    @property
    def spaces(self) -> tuple[Space, ...]:
        """The spaces of all architectures, the main one first."""
        return (self.space, *self.others)

    def kind(self, client: int) -> int:
        """Return which of the architectures a client has, by its number."""
        return client % (1 + len(self.others)) if self.others else 0

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
        return self.nominal if self.partition is None else self._sizes[client]

    @cached_property
    def _sizes(self) -> list[int]:
        """By client: every visit asks."""
        assert self.partition is not None
        return [int(size) for size in self.partition.sizes]

    def label_counts(self) -> dict[str, list[Any] | None]:
        """How many samples every client has, and of each label, unless labels are no classes or that is too much."""
        assert self.partition is not None, "a dry run has no data"
        sizes = np.diff(self.partition.offsets)
        labels = self.shards().y
        if not self.classes or labels.is_floating_point() or len(sizes) * self.classes > MOST_COUNTS:
            return {"samples": sizes.tolist(), "labels": None}
        owner = np.repeat(np.arange(len(sizes)), sizes)
        place = owner * self.classes + labels.numpy()[self.partition.indices]
        found = np.bincount(place, minlength=len(sizes) * self.classes).reshape(len(sizes), self.classes)
        return {"samples": sizes.tolist(), "labels": found.tolist()}

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
        alike = self.partition is None and not self.others  # a dry run, as a rule: all clients are the same
        key = id(recipe) if alike else (id(recipe), self.samples(client), self.kind(client))
        found = self._flops.get(key)
        if found is None:
            if len(self._recipes) >= MOST_KEPT:
                self._recipes.clear()
                self._flops.clear()
            self._recipes.append(recipe)  # keeps the id taken
            forward = self.spaces[self.kind(client)].flops
            found = self._flops[key] = 3.0 * forward * recipe.samples_for(self.samples(client))
        return found

    def probe_flops(self, client: int) -> float:
        """FLOPs of one full gradient."""
        return 3.0 * self.spaces[self.kind(client)].flops * self.samples(client)


@lru_cache(maxsize=4)
def flipped_labels(labels: Tensor, classes: int) -> Tensor:
    """Label y as classes-1-y; one tensor for all runs on these labels, so that visits can be batched together."""
    if labels.is_floating_point():
        raise SettingError("hostile=label-flip needs classes; these data have numeric targets: use another attack")
    return classes - 1 - labels
