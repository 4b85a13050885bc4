"""All settings of a run, and how a name and overrides become one."""

from __future__ import annotations

import difflib
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import Any, Literal, TypeVar

from paceline.algorithms.registry import ALGORITHMS, algorithm_named
from paceline.bounds import bounded, check_bounds
from paceline.config import Tree, apply, checked, completed, merge, parse_override, parse_variant
from paceline.data.partition import PARTITIONS
from paceline.errors import SettingError, nearest
from paceline.forms import written
from paceline.learn.recipe import LocalSGD
from paceline.reading import shown
from paceline.references import announced
from paceline.sizes import parse_size
from paceline.system import FleetSettings
from paceline.system.listed import read_fleet
from paceline.worlds.absence import ABSENCES
from paceline.worlds.faults import FAULTS
from paceline.worlds.hostile import ATTACKS
from paceline.worlds.privacy.settings import Privacy

A = TypeVar("A")
DEVICE = re.compile(r"auto|cpu|cuda(:[0-9]{1,3})?")
MOST_CLIENTS = 10_000_000
OWN = "own"
"""The rule for absence that an algorithm states itself."""


@dataclass(frozen=True, kw_only=True)
class ExecutorSettings:
    """Where and how learning is computed; it does not change what is learned."""

    name: Literal["cohort", "reference", "ray"] = "cohort"
    """``cohort`` computes in this process, ``ray`` with workers of a Ray cluster, ``reference`` one by one."""
    cluster: str | None = None
    """With ``ray``: HOST:PORT of a cluster's head node, or ``auto``; one of this machine's own when not given."""
    workers: int | None = bounded(None, least=1, most=100_000)
    """With ``ray``: how many workers; as many as the cluster has GPUs, else cores, when not given."""
    device: str = "auto"
    """``auto`` takes a CUDA device if there is one; ``cpu``, ``cuda``, ``cuda:1``."""
    cohort: int | None = bounded(None, least=1, most=1_000_000)
    """Most clients in one batched program; chosen by model and device when not given. Convolutions on a CPU: one."""
    threads: int | None = bounded(None, least=1, most=4096)
    """CPU threads; when not given, the environment's PACELINE_THREADS, else all cores."""
    dtype: Literal["float32", "float64"] = "float32"
    memory: str | None = None
    """Bytes, such as 4GiB, that learning may take: of the whole process on a CPU, of the device's memory on CUDA; all
    there is when not given."""

    def __post_init__(self) -> None:
        check_bounds(self, "executor.")
        if self.memory is not None:
            self._check_memory(self.memory)
        if self.name == "ray" and (self.memory is not None or self.device != "auto"):
            raise SettingError(
                "executor.name=ray takes its workers' devices and memory as they are; leave out"
                " executor.device and executor.memory"
            )
        if self.name != "ray" and (self.cluster is not None or self.workers is not None):
            raise SettingError("executor.cluster and executor.workers are for executor.name=ray (--trainer ray)")
        if self.cluster is not None and not self.cluster.strip():
            raise SettingError(
                f"executor.cluster (--ray) is {self.cluster!r}; wanted HOST:PORT of a cluster's head node, or auto;"
                " leave it out for one of this machine's own"
            )
        if not DEVICE.fullmatch(self.device):
            raise SettingError(f"executor.device is {shown(self.device)}; wanted auto, cpu, cuda or cuda:NUMBER")

    def _check_memory(self, text: str) -> None:
        try:
            wrong = not parse_size(text) > 0
        except ValueError:
            wrong = True
        if wrong:
            raise SettingError(
                f"executor.memory (--memory) is {shown(text)}; wanted a number of bytes above 0, such as 4GiB or"
                " 900MB, or none for no limit"
            )
        if self.name == "reference":
            raise SettingError(
                "executor.memory is kept by executor.name=cohort alone: the reference trainer scores a whole test set"
                " at once; leave one of them out"
            )

    @property
    def limit(self) -> float | None:
        """Bytes that a run may take; None: as many as there are."""
        return None if self.memory is None else parse_size(self.memory)


@dataclass(frozen=True, kw_only=True)
class Settings:
    """All settings of one run."""

    name: str = "fedavg"
    """The algorithm's name."""
    algorithm: Any = None
    variant: str = ""
    """What was said after an @ behind the name, as in ``fedbuff@buffer=5``."""
    seed: int = 0
    """All randomness follows from it, for every algorithm alike."""
    dataset: str = "digits"
    """One of those that `paceline data` lists."""
    clients: int = bounded(100, least=1, most=MOST_CLIENTS)
    partition: str = written("exdir:2,10", PARTITIONS)
    """How clients share the training samples; `paceline data partition` says how skewed a split is."""
    public: float = bounded(0.0, least=0, below=1)
    """Share of the training samples that the server holds itself, for methods that validate or distil there;
    the clients split the rest."""
    hostile: str = written("none", ATTACKS)
    """Clients that attack the others."""
    faults: str = written("none", FAULTS)
    """Messages that go wrong on their way; several kinds are joined by ``+``."""
    model: str = "auto"
    """A network by name, ``package.module:factory`` for your own, or ``auto`` for one that suits the data;
    ``lenet+mlp:200`` gives clients different ones in turn (feddf)."""
    personal: bool = False
    """Whether to score each client's model on its own test samples (in its own proportions of labels), even a shared
    model: with dpsgd the client's own, with p-fedavg its server's, not the mean. Personal models always are."""
    every: int | None = bounded(None, least=1)
    """Evaluate after this many rounds."""
    flush: int = bounded(1024, least=1)
    """Client visits after which deferred learning is computed even if nobody asks; bounds memory."""
    absence: str = written(OWN, ABSENCES)
    """What becomes of devices that are away, or leave in the middle; ``own`` is each algorithm's own rule."""
    weighing: Literal["own", "equal", "samples"] = "own"
    """Weights of clients: each method's own rule, all alike, or by their samples in methods that support it."""
    privacy: Privacy = field(default_factory=Privacy)
    fleet: FleetSettings = field(default_factory=FleetSettings)
    executor: ExecutorSettings = field(default_factory=ExecutorSettings)

    @property
    def method(self) -> str:
        """The algorithm's name with its variant, as given."""
        return f"{self.name}@{self.variant}" if self.variant else self.name

    def __post_init__(self) -> None:
        check_bounds(self, inside=False)  # groups check themselves, and an algorithm when it is run


SHORTCUTS = ("rounds", "local")
"""Words that may be said at the top although they belong to the algorithm."""


def make_settings(name: str, overrides: Sequence[str] = (), file: Tree | None = None, *, lift: int = 1) -> Settings:
    """The named algorithm with its defaults, then the file's settings, then the overrides, then the variant's.

    ``algorithm.NAME=VALUE`` speaks to whatever algorithm runs and ``psfl.width=8`` to that one alone, so that one
    line can set up a comparison. What is said later wins, in whichever of these ways it is said, and what was said
    before is checked all the same. A variant is written behind the name: ``fedbuff@buffer=5,local.lr=0.1``. The
    rounds that an algorithm has by default are multiplied by ``lift``, unless it does something in proportion to
    them.

    >>> make_settings("fedbuff@buffer=5", ["clients=20"]).algorithm.buffer
    5
    """
    variant = name.partition("@")[2]
    name, changes = parse_variant(name)
    named = algorithm_named(name)
    base = Settings(name=name, algorithm=named.make(), variant=variant, every=named.every, public=named.public)
    tree: Tree = {}
    own = {each.name for each in fields(base.algorithm)}
    said = [f"{'algorithm.' * (key.partition('.')[0] in own)}{key}={value}" for key, value in changes.items()]
    for words in (file or {}, *map(parse_override, (*overrides, *said))):
        tree = merge(tree, _addressed(words, base))
    algorithm_tree = tree.pop("algorithm", {})
    for other in _groups(tree):  # also of those that do not run: a slip must not pass in silence
        apply(algorithm_named(other).make(), tree.pop(other, {}), f"{other}.")
    settings = apply(base, tree)
    if settings.fleet.file and "clients" not in tree:  # as many clients as devices are listed
        settings = replace(settings, clients=read_fleet(settings.fleet.file).size)
    algorithm = fitted(named.make(), settings.clients)
    own_pace = algorithm.traits(settings.clients).paced_by_rounds if lift > 1 else True
    if "rounds" not in algorithm_tree and hasattr(algorithm, "rounds") and not own_pace:
        algorithm_tree = {**algorithm_tree, "rounds": lift * algorithm.rounds}
    return replace(settings, algorithm=apply(algorithm, algorithm_tree, f"{name}."))


def _addressed(words: Tree, base: Settings) -> Tree:
    """What one file or one --set says, checked, with all that is for the algorithm that runs under ``algorithm``."""
    _check_words(words, base.name)
    groups = {name: dict(words[name]) for name in _groups(words) if name in words}
    rules = {name: group.pop("absence") for name, group in groups.items() if "absence" in group}
    for name, group in groups.items():
        groups[name] = completed(algorithm_named(name).make(), group)
        checked(algorithm_named(name).make(), groups[name], f"{name}.")
    run = {key: value for key, value in words.items() if key not in {*groups, *SHORTCUTS, "algorithm"}}
    for part in (run, *({"absence": rule} for rule in rules.values())):
        checked(base, part)
    if base.name in rules:  # a rule for one algorithm alone
        run["absence"] = rules[base.name]
    own = merge(completed(base.algorithm, _lifted(words)), groups.pop(base.name, {}))
    checked(base.algorithm, own, f"{base.name}.")
    return {**run, **groups, **({"algorithm": own} if own else {})}


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
    name, options = kept.get("algorithm"), kept.get("options")
    if not isinstance(name, str) or "@" in name or not isinstance(options, dict):  # behind an @ are unseen words
        raise SettingError("the settings of a run must name its algorithm and have its options; these do not")
    group = name if name in ALGORITHMS else "algorithm"
    return make_settings(name, (), {**rest, group: options})


def _check_words(tree: Tree, name: str) -> None:
    known = {f.name for f in fields(Settings)} - {"name", "variant"} | set(SHORTCUTS) | set(_groups(tree))
    for key, value in tree.items():
        if key not in known:
            own: Any = algorithm_named(name).make()
            group = name if name in ALGORITHMS else "algorithm"  # one of the user's own has no group of its name
            meant = {each.name: f"local.{each.name}" for each in fields(LocalSGD)} if hasattr(own, "local") else {}
            meant |= {each.name: f"{group}.{each.name}" for each in fields(own)} | {word: word for word in known}
            near = difflib.get_close_matches(key.lower(), meant, n=1)
            hint = f"did you mean {meant[near[0]]!r}?" if near else nearest(key, known)
            raise SettingError(f"unknown setting {shown(key)}; {hint}")
        if key in {*_groups(tree), "algorithm", "local"} and not isinstance(value, dict):
            raise SettingError(f"{key} is a group of settings, not {shown(value)}; give {key}.NAME=VALUE")


def _lifted(words: Tree) -> Tree:
    """What is said of the algorithm without naming it; shortcuts among it where they belong."""
    lifted: Tree = dict(words.get("algorithm", {}))
    for word in SHORTCUTS:
        if word in words:
            lifted = merge(lifted, {word: words[word]})
    return lifted
