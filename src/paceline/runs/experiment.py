"""Several algorithms and seeds for one process: what ``paceline run`` and ``paceline compare`` are told."""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from paceline.algorithms.base import Traits
from paceline.algorithms.registry import algorithm_named
from paceline.config import Tree
from paceline.errors import SettingError
from paceline.runs.keeper import Keeping
from paceline.runs.settings import Settings, make_settings
from paceline.runs.until import Until
from paceline.system.failures import parse_failures

LIFT = 10
"""How many times its own number of rounds an algorithm may go on until a target is met."""


@dataclass(frozen=True, kw_only=True)
class Experiment:
    """A comparison, ready to run."""

    settings: tuple[Settings, ...]
    until: Until = field(default_factory=Until)
    dry: bool = False
    out: Path | None = None
    keep_spans: bool = True
    check_places: bool = False
    """Whether a model that is used where it was never sent is an error."""
    workers: int | None = None
    """With these many processes of this machine instead of a simulation."""
    federation: bool = False
    """Whether these are nodes of a federation instead."""
    keep_models: bool = False
    """Whether every run's directory gets the weights that were scored last."""
    keeping: Keeping = field(default_factory=Keeping)
    """How often what is under way is kept, so that it can be gone on with."""

    @property
    def text(self) -> str:
        """Which runs these are, in a few words."""
        several = list(dict.fromkeys(one.method for one in self.settings))
        seeds = len({one.seed for one in self.settings})
        listed = ", ".join(several[:6]) + (f" and {len(several) - 6} more" if len(several) > 6 else "")
        return listed + (f", {seeds} seeds" if seeds > 1 else "")


def make_experiment(
    names: Sequence[str],
    *,
    overrides: Sequence[str] = (),
    file: Tree | None = None,
    seeds: int = 1,
    until: Until | None = None,
    dry: bool = False,
    out: Path | None = None,
    keep_spans: bool = True,
    check_places: bool = False,
    workers: int | None = None,
    federation: bool = False,
    keep_models: bool = False,
    keeping: Keeping | None = None,
) -> Experiment:
    """Every algorithm with every seed; all settings are checked before anything starts.

    An algorithm may be named several times in different variants: ``fedbuff@buffer=5 fedbuff@buffer=20``. Where
    ``until`` says when to stop, the number of rounds that an algorithm has by default does not end it before.
    """
    if seeds < 1:
        raise SettingError(f"--seeds is {seeds}; it must be 1 or more")
    if len(set(names)) < len(names):
        raise SettingError(
            f"an algorithm is named twice in {' '.join(names)}; name each once, or as variants: fedbuff@buffer=5"
        )
    until = until or Until()
    if dry and until.learned:
        raise SettingError("a dry run learns nothing, so it cannot stop at an accuracy; use --until time=SECONDS")
    if held := max(algorithm_named(name.partition("@")[0]).public for name in names):
        # One of them needs data at its server: all then learn from the same rest.
        file = {"public": held, **(file or {})}
    first = [make_settings(name, overrides, file, lift=LIFT if until != Until() else 1) for name in names]
    _refuse_twins(names, first, seeds)
    _check_failures(first)
    settings = tuple(replace(one, seed=one.seed + k) for one in first for k in range(seeds))
    if workers is not None and (dry or len(settings) > 1):
        raise SettingError(
            "--world local runs one algorithm with one seed, and really: leave out --seeds and --dry-run"
        )
    if workers is not None and settings[0].executor.memory is not None:
        raise SettingError(
            "--memory is for simulations: with --world local every worker trains one client at a time; leave it out"
        )
    return Experiment(
        settings=settings,
        until=until,
        dry=dry,
        out=out,
        keep_spans=keep_spans,
        check_places=check_places,
        workers=workers,
        federation=federation,
        keep_models=keep_models,
        keeping=keeping or Keeping(),
    )


def _refuse_twins(names: Sequence[str], compared: Sequence[Settings], seeds: int) -> None:
    """Raise ``SettingError`` if two variants are the same run: no table could tell them apart in the end."""
    seen: dict[str, list[tuple[int, str]]] = {}
    for name, one in zip(names, compared, strict=True):
        alike = seen.setdefault(repr(replace(one, seed=0, variant="")), [])
        twin = next((other for seed, other in alike if abs(seed - one.seed) < seeds), None)
        if twin is not None:
            raise SettingError(f"{twin} and {name} are the same run, with the same settings and seed; leave one out")
        alike.append((one.seed, name))


def _check_failures(compared: Sequence[Settings]) -> None:
    """Raise ``SettingError`` if a server or a link is to fail that none of these algorithms has."""
    failures = parse_failures(compared[0].fleet.failures, seed=0)
    parties: dict[str, Traits] = {one.name: one.algorithm.traits(one.clients) for one in compared}
    if failures.mean_server < math.inf and not any(traits.servers for traits in parties.values()):
        there = ", ".join(parties)
        raise SettingError(f"fleet.failures has servers fail, but nobody here has one: {there}; leave servers: out")
    for site in failures.servers:
        if all(-site > traits.servers for traits in parties.values()):
            there = ", ".join(f"{name} has {_servers(traits.servers)}" for name, traits in parties.items())
            raise SettingError(f"fleet.failures names server {-site}, which no algorithm here has: {there}")
    for low, high in failures.links:
        if all(traits.links is not None and (-high, -low) not in traits.links for traits in parties.values()):
            there = ", ".join(f"{name} has {_listed(traits.links or ())}" for name, traits in parties.items())
            raise SettingError(f"fleet.failures names the link {-high}-{-low}, which no algorithm here has: {there}")


def _servers(count: int) -> str:
    return "no server" if not count else "1 server" if count == 1 else f"{count} servers"


def _listed(links: Collection[tuple[int, int]]) -> str:
    names = [f"{i}-{j}" for i, j in sorted(links)]
    return ", ".join(names[:12]) + (", ..." if len(names) > 12 else "") if names else "no links"
