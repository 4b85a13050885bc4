"""A run from settings: impossible settings are refused here, before any work starts."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import torch

from paceline.algorithms.base import Event, Traits
from paceline.config import apply
from paceline.errors import SettingError
from paceline.ledger import Ledger
from paceline.runs.measured import with_measured_server
from paceline.runs.problem import build_problem
from paceline.runs.recorder import Row
from paceline.runs.run import Run
from paceline.runs.settings import OWN, Settings
from paceline.runs.until import Until
from paceline.system import build_fleet
from paceline.worlds.absence import parse_absence
from paceline.worlds.faults import parse_faults
from paceline.worlds.hostile import parse_hostile
from paceline.worlds.problem import Problem
from paceline.worlds.simulation.machines import simulate

FLUSH_FLOPS = 5e10
FLUSH_FLOPS_CUDA = 2e12
"""Training FLOPs after which deferred learning is computed: a few seconds of real time between two lines of metrics.
A count, not a clock: what trains together must not depend on how fast the machine is just now."""
FEWEST = 16


def make_run(
    settings: Settings,
    *,
    until: Until | None = None,
    dry: bool = False,
    directory: Path | None = None,
    keep_spans: bool = True,
    on_row: Callable[[Run, Row], None] | None = None,
    check_places: bool = False,
    keep_model: bool = False,
) -> Run:
    """A simulated run, checked and ready to start."""
    settings, traits, problem = prepared(settings, dry=dry)
    world = simulate(
        build_fleet(settings.fleet, settings.clients, settings.seed),
        problem,
        settings.seed,
        Ledger(keep=keep_spans),
        learning=not dry,
        adversary=parse_hostile(settings.hostile, settings.clients, settings.seed),
        absence=parse_absence(settings.absence),
        flush=flush_limit(settings, traits, problem),
        frugal=settings.executor.memory is not None,
        faults=parse_faults(settings.faults, settings.seed),
        check_places=check_places,
        privacy=settings.privacy,
        sums=settings.privacy.sums(settings.name, traits),
    )
    if dry and traits.assumption is not None:
        world.tell(Event(text=f"a dry run learns nothing: {traits.assumption.text}"))
    return Run(
        settings, traits, world, until=until, directory=directory, keep_spans=keep_spans, on_row=on_row,
        keeps_model=keep_model and not dry,
    )  # fmt: skip


def prepared(settings: Settings, *, dry: bool = False) -> tuple[Settings, Traits, Problem]:
    """Settings with every word resolved, the algorithm's traits, and what is learned."""
    settings.algorithm.check(settings.clients)
    s = _weighed(settings, settings.algorithm.traits(settings.clients))
    traits: Traits = s.algorithm.traits(s.clients)
    s.privacy.sums(s.name, traits)
    s = replace(s, absence=traits.absence if s.absence == OWN else s.absence)
    parse_absence(s.absence)
    if dry and traits.assumption is not None:
        s = replace(s, algorithm=apply(s.algorithm, traits.assumption.settings, f"{s.name}."))
        s.algorithm.check(s.clients)
    if traits.needs_public and not s.public:
        raise SettingError(
            f"{s.name} is to screen or distil at the server, which needs samples there; give it some, as in"
            " --set public=0.05, or choose another aggregation.rule"
        )
    problem = build_problem(
        dataset=s.dataset,
        partition=s.partition,
        clients=s.clients,
        model=s.model,
        seed=s.seed,
        dtype=s.executor.dtype,
        dry=dry,
        public=s.public,
    )
    if problem.others and not traits.mixes_architectures:
        raise SettingError(
            f"model is {s.model!r}, several architectures, but {s.name} averages weights, which must all be of"
            " one architecture; use feddf, or give one model"
        )
    _check_recipe(s, traits, problem)
    return replace(s, fleet=with_measured_server(s.fleet, problem.space, s.executor.device)), traits, problem


def _weighed(s: Settings, traits: Traits) -> Settings:
    """Return settings whose algorithm weighs clients as ``weighing`` demands of the whole comparison."""
    asked = f"weighing is {s.weighing!r}, but"
    if s.weighing == OWN:
        return s
    if s.weighing == "samples" and s.privacy.clip is not None:
        raise SettingError(f"{asked} privacy.clip hides how many samples a client has; leave one of them out")
    if s.weighing not in {traits.weights, *traits.weighing}:
        alike = "all clients alike" if traits.weights == "equal" else "clients by their samples"
        raise SettingError(f"{asked} {s.name} weighs {alike} and cannot do otherwise; leave it out")
    return replace(s, algorithm=apply(s.algorithm, dict(traits.weighing.get(s.weighing, {})), f"{s.name}."))


def _check_recipe(settings: Settings, traits: Traits, problem: Problem) -> None:
    """Recipes that this data cannot be trained with."""
    local = traits.local
    held = sum(problem.samples(client) for client in range(settings.clients)) if problem.partition is not None else 0
    if held and local.batch > held:
        raise SettingError(
            f"local.batch of {settings.name} is {local.batch}, but all clients together have {held} samples;"
            " a batch of the largest client's samples is its whole data already"
        )
    if local.augment == "crop-flip" and len(problem.space.shape) != 3:
        shape = problem.space.shape
        raise SettingError(f"local.augment=crop-flip needs images; a sample of {settings.dataset} has shape {shape}")
    if local.loss == "squared" and problem.test is not None and not problem.test[1].is_floating_point():
        raise SettingError(
            f"local.loss=squared needs numeric targets; {settings.dataset} has classes: use cross_entropy"
        )


def flush_limit(settings: Settings, traits: Traits, problem: Problem) -> int:
    """Visits after which learning is computed: few for costly ones, never more than the settings allow."""
    flops = problem.flops(0, traits.local)
    if not flops > 0:
        return min(FEWEST, settings.flush)
    cuda = settings.executor.device.startswith("cuda") or (
        settings.executor.device == "auto" and torch.cuda.is_available()
    )
    return int(min(max((FLUSH_FLOPS_CUDA if cuda else FLUSH_FLOPS) / flops, FEWEST), settings.flush))
