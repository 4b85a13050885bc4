"""All settings of a run, and how a name and overrides become one."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import Any, Literal, TypeVar

from paceline.algorithms.registry import ALGORITHMS, algorithm_named
from paceline.config import Tree, apply, merge, parse_override
from paceline.data.partition import PARTITIONS
from paceline.errors import SettingError, nearest
from paceline.forms import written
from paceline.references import announced
from paceline.system import FleetSettings
from paceline.system.listed import read_fleet
from paceline.worlds.absence import ABSENCES
from paceline.worlds.hostile import ATTACKS

A = TypeVar("A")
_BETWEEN = re.compile(r",(?=[A-Za-z_][\w.]*=)")
"""Between two words of a variant: a comma before the next name, for values may have commas of their own."""
OWN = "own"
"""The rule for absence that an algorithm states itself."""


@dataclass(frozen=True, kw_only=True)
class ExecutorSettings:
    """Where and how learning is computed; it does not change what is learned."""

    name: Literal["cohort", "reference"] = "cohort"
    device: str = "auto"
    """``auto`` takes a CUDA device if there is one; ``cpu``, ``cuda``, ``cuda:1``."""
    cohort: int | None = None
    """Most clients in one batched program; chosen by model and device when not given."""
    threads: int | None = None
    """CPU threads; when not given, the environment's PACELINE_THREADS, else all cores."""
    dtype: Literal["float32", "float64"] = "float32"

    def __post_init__(self) -> None:
        for name in ("cohort", "threads"):
            value = getattr(self, name)
            if value is not None and value < 1:
                raise SettingError(f"executor.{name} is {value}; it must be 1 or more")
        if self.device.partition(":")[0] not in ("auto", "cpu", "cuda"):
            raise SettingError(f"executor.device is {self.device!r}; wanted auto, cpu, cuda or cuda:NUMBER")


@dataclass(frozen=True, kw_only=True)
class Settings:
    """One run."""

    name: str = "fedavg"
    """The algorithm's name."""
    algorithm: Any = None
    variant: str = ""
    """What was said after an @ behind the name, as in ``fedbuff@buffer=5``."""
    seed: int = 0
    """All randomness follows from it, for every algorithm alike."""
    dataset: str = "digits"
    """One of those that `paceline data` lists."""
    clients: int = 100
    partition: str = written("exdir:2,10", PARTITIONS)
    """How clients share the training samples; `paceline data partition` says how skewed a split is."""
    public: float = 0.0
    """Share of the training samples that the server holds itself, for methods that validate or distil there;
    the clients split the rest."""
    hostile: str = written("none", ATTACKS)
    """Clients that attack the others."""
    model: str = "auto"
    """A network by name, ``package.module:factory`` for your own, or ``auto`` for one that suits the data;
    ``lenet+mlp:200`` gives clients different ones in turn (feddf)."""
    personal: bool = False
    """Score on every client's own test samples (in its own proportions of labels) also where all share one model;
    personal models always are."""
    every: int | None = None
    """Evaluate after this many rounds."""
    flush: int = 1024
    """Client visits after which deferred learning is computed even if nobody asks; bounds memory."""
    absence: str = written(OWN, ABSENCES)
    """What becomes of devices that are away, or leave in the middle; ``own`` is each algorithm's own rule."""
    fleet: FleetSettings = field(default_factory=FleetSettings)
    executor: ExecutorSettings = field(default_factory=ExecutorSettings)

    def __post_init__(self) -> None:
        for name in ("clients", "every", "flush"):
            value = getattr(self, name)
            if value is not None and value < 1:
                raise SettingError(f"{name} is {value}; it must be 1 or more")
        if not 0 <= self.public < 1:
            raise SettingError(f"public is {self.public}; wanted a share from 0 to below 1, such as 0.05")


SHORTCUTS = ("rounds", "local")
"""Words that may be said at the top although they belong to the algorithm."""


def make_settings(name: str, overrides: Sequence[str] = (), file: Tree | None = None, *, lift: int = 1) -> Settings:
    """The named algorithm with its defaults, then the file's settings, then the overrides, then the variant's.

    ``algorithm.NAME=VALUE`` speaks to whatever algorithm runs and ``psfl.width=8`` to that one alone, so that one
    line can set up a comparison. A variant is written behind the name: ``fedbuff@buffer=5,local.lr=0.1``. The rounds
    that an algorithm has by default are multiplied by ``lift``, unless it does something in proportion to them.

    >>> make_settings("fedbuff@buffer=5", ["clients=20"]).algorithm.buffer
    5
    """
    name, _, variant = name.partition("@")
    named = algorithm_named(name)
    tree: Tree = dict(file or {})
    for text in (*overrides, *variant_overrides(named.make(), variant)):
        tree = merge(tree, parse_override(text))
    _check_words(tree, name)
    own = {other: dict(tree.pop(other, {})) for other in _groups(tree)}
    rules = {other: words.pop("absence") for other, words in own.items() if "absence" in words}
    for other, words in own.items():  # also of those that do not run: a slip must not pass in silence
        apply(algorithm_named(other).make(), words, f"{other}.")
    if name in rules:  # a rule for one algorithm alone
        tree = {**tree, "absence": rules[name]}
    algorithm_tree = merge(_lifted(tree), own.get(name, {}))
    base = Settings(name=name, variant=variant, every=named.every, public=named.public)
    settings = apply(base, {key: value for key, value in tree.items() if key != "algorithm"})
    if settings.fleet.file and "clients" not in tree:  # as many clients as devices are listed
        settings = replace(settings, clients=read_fleet(settings.fleet.file).size)
    algorithm = fitted(named.make(), settings.clients)
    own_pace = algorithm.traits(settings.clients).paced_by_rounds if lift > 1 else True
    if "rounds" not in algorithm_tree and hasattr(algorithm, "rounds") and not own_pace:
        algorithm_tree = {**algorithm_tree, "rounds": lift * algorithm.rounds}
    return replace(settings, algorithm=apply(algorithm, algorithm_tree, f"{name}."))


def variant_overrides(algorithm: Any, variant: str) -> list[str]:
    """A variant's words as overrides: of the algorithm's own settings, else of the run's.

    >>> from paceline import FedBuff
    >>> variant_overrides(FedBuff(), "buffer=5,clients=20")
    ['algorithm.buffer=5', 'clients=20']
    """
    own = {each.name for each in fields(algorithm)}
    words = _BETWEEN.split(variant) if variant else []
    return [f"algorithm.{word}" if word.partition("=")[0].partition(".")[0] in own else word for word in words]


def _groups(tree: Tree) -> list[str]:
    """The algorithms whose settings a tree may hold: the built-in ones, and others that it names."""
    return [*ALGORITHMS, *(word for word in tree if word in announced("algorithms"))]


def fitted(algorithm: A, clients: int) -> A:
    """The same with defaults that suit a small fleet: no more participants, places or neighbours than there are."""
    most = {"participants": clients, "concurrency": clients, "degree": max(1, clients - 1)}
    changes: dict[str, Any] = {}
    for each in fields(algorithm):  # type: ignore[arg-type]
        value = getattr(algorithm, each.name)
        if each.name in most and isinstance(value, int):
            changes[each.name] = min(value, most[each.name])
        elif each.name == "neighbours":
            changes[each.name] = fitted(value, clients)
    return replace(algorithm, **changes)  # type: ignore[type-var]


def settings_from(kept: Mapping[str, Any]) -> Settings:
    """What a run was made of, from the words in its directory."""
    rest = {key: value for key, value in kept.items() if key not in ("algorithm", "options", "versions")}
    name = str(kept["algorithm"])
    group = name if name in ALGORITHMS else "algorithm"
    return make_settings(name, (), {**rest, group: dict(kept["options"])})


def _check_words(tree: Tree, name: str) -> None:
    known = {f.name for f in fields(Settings)} - {"name", "variant"} | set(SHORTCUTS) | set(_groups(tree))
    for key, value in tree.items():
        if key not in known:
            options = {f.name for f in fields(algorithm_named(name).make())}  # type: ignore[arg-type]
            hint = f"did you mean '{name}.{key}'?" if key in options else nearest(key, known)
            raise SettingError(f"unknown setting {key!r}; {hint}")
        if key in {*_groups(tree), "algorithm", "local"} and not isinstance(value, dict):
            raise SettingError(f"{key} is a group of settings, not {value!r}; give {key}.NAME=VALUE")


def _lifted(tree: Tree) -> Tree:
    """Move the shortcuts to where they belong."""
    lifted: Tree = dict(tree.get("algorithm", {}))
    for word in SHORTCUTS:
        if word in tree:
            lifted = merge(lifted, {word: tree.pop(word)})
    return lifted
