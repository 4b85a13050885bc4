"""A problem from settings: a dataset is loaded, split over clients, and given its architectures."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from paceline.data import Dataset, Partition, catalogue, load, parse_partition
from paceline.data.counting import apportion
from paceline.data.registry import parse_name
from paceline.data.schemes import Scheme
from paceline.data.shares import by_class
from paceline.errors import PartitionError, SettingError
from paceline.learn.job import Shards
from paceline.learn.models import build, default_for
from paceline.learn.space import Space
from paceline.reading import State, state_of
from paceline.seeds import stream
from paceline.system.availability import whole_part
from paceline.worlds.problem import Problem

_STATES: dict[str, State] = {}
"""State of each data file when it was loaded."""
NOMINAL_SAMPLES = 60_000
"""Training samples taken for granted in a dry run on a dataset whose published size is not known."""


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
    """Load the data, split it among clients and check it; impossible settings are an error here."""
    if _STATES.setdefault(dataset, state := state_of(dataset)) != state:
        forget_data()
        _STATES[dataset] = state
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
    spec = parse_name(name)[0]
    return spec.make is not None or {entry.name: entry.present for entry in catalogue()}[spec.name]


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


def forget_data() -> None:
    """Let go of all that was loaded: a name may mean other data from now on."""
    for cache in (load_once, tensors_once, public_once):
        cache.cache_clear()


def make_spaces(models: str, shape: tuple[int, ...], classes: int, dtype: str) -> list[Space]:
    """The architectures of ``lenet+mlp:200``, in this order."""
    return [make_space(model, shape, classes, dtype) for model in models.split("+")]


@lru_cache(maxsize=16)
def make_space(model: str, shape: tuple[int, ...], classes: int, dtype: str) -> Space:
    """One space per architecture and process: models of two runs can then train in one cohort."""
    name = default_for(shape, classes) if model == "auto" else model
    kind: Any = getattr(torch, dtype)
    return Space(name, lambda: build(name, shape, classes), shape, kind)
