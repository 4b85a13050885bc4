"""A trained experiment as data: in which scenes, by which methods, in which variants, with how many seeds."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import product
from typing import TypeVar

from paceline.errors import SettingError, nearest
from paceline.papers.result import Request
from paceline.papers.trials import Finished, Laboratory, Trial
from paceline.runs.problem import is_here
from paceline.runs.until import Until

Words = tuple[str, ...]
"""Settings as --set takes them; where two speak of the same, the later one counts."""
ENDLESS = 1_000_000
"""Rounds of a run that something else ends."""
S = TypeVar("S")


@dataclass(frozen=True, kw_only=True)
class Scene:
    """Data, and how all methods learn from them."""

    name: str
    """Begins the names of its rows and directories; most often the dataset."""
    words: Words
    rates: tuple[float, ...]
    """Learning rates to choose from; the first one where nobody chooses."""
    rounds: int = ENDLESS
    every: int = 1
    """Rounds between evaluations."""
    until: Until = field(default_factory=Until)
    slower: Mapping[str, float] = field(default_factory=dict)
    """Methods whose rate is so many times the others'."""
    targets: tuple[float, ...] = ()
    """Accuracies to which rounds or seconds are counted."""

    def trial(self, case: str, method: str, seed: int, *more: str, rate: float | None = None) -> Trial:
        """One run, with further settings."""
        return Trial(
            case="-".join(part for part in (self.name, case) if part),
            method=method,
            rate=(self.rates[0] if rate is None else rate) * self.slower.get(method, 1.0),
            seed=seed,
            overrides=(*self.words, f"rounds={self.rounds}", f"every={self.every}", *more),
            until=self.until,
        )


@dataclass(frozen=True)
class Variant:
    """One of the things that are compared, besides the methods."""

    name: str
    case: str = ""
    """Its directories' name; without it, the variant's. Two experiments that agree on it share the runs."""
    words: Words | Callable[[int], Words] = ()
    """Its settings, or what makes them of a seed."""
    methods: Sequence[str] | None = None
    """Those that it is made for; None is all."""

    def settings(self, seed: int) -> Words:
        """Its settings with a seed."""
        return self.words(seed) if callable(self.words) else self.words


Found = dict[str, dict[str, list[Finished]]]
"""By variant and method, one run a seed."""


@dataclass(frozen=True, kw_only=True)
class Grid:
    """Every method in every variant in every scene, with all seeds."""

    scenes: Sequence[Scene]
    methods: Mapping[str, Words] | Sequence[str]
    """Their names, perhaps with settings of their own."""
    variants: Sequence[Variant]
    seeds: int

    def carry_out(self, laboratory: Laboratory) -> dict[str, Found]:
        """All runs, together; by the scene's name."""
        trials, found = [*self.trials()], dict[str, Found]()
        runs = laboratory.carry_out([trial for *_, trial in trials])
        for (scene, variant, method, _), run in zip(trials, runs, strict=True):
            found.setdefault(scene, {}).setdefault(variant, {}).setdefault(method, []).append(run)
        return found

    def trials(self) -> Iterator[tuple[str, str, str, Trial]]:
        """Each with the names of its scene, variant and method."""
        own = self.methods if isinstance(self.methods, Mapping) else dict.fromkeys(self.methods, ())
        for scene, one, method, seed in product(self.scenes, self.variants, own, range(self.seeds)):
            if one.methods is None or method in one.methods:
                words = (*own[method], *one.settings(seed))
                yield scene.name, one.name, method, scene.trial(one.case or one.name, method, seed, *words)


def by_variant(found: Found) -> dict[str, list[Finished]]:
    """The runs by variant, where each variant is of one method."""
    return {name: runs for name, methods in found.items() for runs in methods.values()}


def choose(request: Request, known: Mapping[str, S], default: Sequence[str] | None = None) -> list[S]:
    """Return the values of the requested dataset, else of the default ones, or of all."""
    if request.data is not None and request.data not in known:
        raise SettingError(f"--data is {request.data!r}; {nearest(request.data, known)}")
    wanted = [request.data] if request.data else [*(known if default is None else default)]
    missing = [name for name in wanted if not is_here(name)]
    if missing:
        raise SettingError(f"missing datasets: {', '.join(missing)}; get them (`paceline data`), or change --data")
    return [known[name] for name in wanted]
