"""Scheduled federated learning: who trains when, who waits for whom, who averages with whom.

Rooms, each importing only those before it: errors, reading, bounds, kinds, sizes, seeds, statistics, references,
config, forms; clock; system; topology; data; learn; ledger; algorithms; worlds; runs; chaos; plans; papers; report;
api; federation; ui; cli. ``tests/test_rooms.py`` holds the order.
"""

from importlib import import_module
from types import FunctionType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from paceline.algorithms.aggregate import aggregated
    from paceline.algorithms.base import Algorithm, Progress, Sums, Traits, draw_clients, visit
    from paceline.algorithms.fedasync import FedAsync
    from paceline.algorithms.fedbuff import FedBuff
    from paceline.algorithms.pool import start_pool
    from paceline.algorithms.psfl import PSFL
    from paceline.algorithms.world import World
    from paceline.api.comparing import compare, run, sweep
    from paceline.api.dry import dry
    from paceline.api.planning import plan_fleet, plan_mixing, plan_overlap, plan_peers, plan_servers, plan_structure
    from paceline.api.reproducing import reproduce
    from paceline.api.results import Result, load
    from paceline.api.resuming import resume
    from paceline.errors import Dropped, PacelineError
    from paceline.learn.graph import Model, combine, mean
    from paceline.learn.models import to_groupnorm
    from paceline.learn.recipe import LocalSGD
    from paceline.runs.dry import Timeline
    from paceline.runs.settings import Settings, make_settings
    from paceline.runs.until import Until
    from paceline.system.fleet import FleetSettings

__version__ = "0.1.0"
__all__ = [
    "PacelineError",
    "LocalSGD",
    "Model",
    "mean",
    "combine",
    "to_groupnorm",
    "Algorithm",
    "Traits",
    "Sums",
    "World",
    "Progress",
    "Dropped",
    "visit",
    "draw_clients",
    "aggregated",
    "start_pool",
    "PSFL",
    "FedAsync",
    "FedBuff",
    "FleetSettings",
    "Settings",
    "make_settings",
    "Until",
    "dry",
    "Timeline",
    "run",
    "compare",
    "sweep",
    "resume",
    "Result",
    "load",
    "reproduce",
    "plan_structure",
    "plan_overlap",
    "plan_peers",
    "plan_mixing",
    "plan_servers",
    "plan_fleet",
]

# A name is imported from its room when it is first asked for: most rooms need torch, which takes seconds to import,
# and a command that only calculates or prints help must not wait for it.
_HOMES = {
    "PacelineError": "errors",
    "LocalSGD": "learn.recipe",
    "Model": "learn.graph",
    "mean": "learn.graph",
    "combine": "learn.graph",
    "to_groupnorm": "learn.models",
    "Algorithm": "algorithms.base",
    "Traits": "algorithms.base",
    "Sums": "algorithms.base",
    "World": "algorithms.world",
    "Progress": "algorithms.base",
    "Dropped": "errors",
    "visit": "algorithms.base",
    "draw_clients": "algorithms.base",
    "aggregated": "algorithms.aggregate",
    "start_pool": "algorithms.pool",
    "PSFL": "algorithms.psfl",
    "FedAsync": "algorithms.fedasync",
    "FedBuff": "algorithms.fedbuff",
    "FleetSettings": "system.fleet",
    "Settings": "runs.settings",
    "make_settings": "runs.settings",
    "Until": "runs.until",
    "dry": "api.dry",
    "Timeline": "runs.dry",
    "run": "api.comparing",
    "compare": "api.comparing",
    "sweep": "api.comparing",
    "resume": "api.resuming",
    "Result": "api.results",
    "load": "api.results",
    "reproduce": "api.reproducing",
    "plan_structure": "api.planning",
    "plan_overlap": "api.planning",
    "plan_peers": "api.planning",
    "plan_mixing": "api.planning",
    "plan_servers": "api.planning",
    "plan_fleet": "api.planning",
}

if not TYPE_CHECKING:  # a type checker that saw this would let every misspelt name pass

    def __getattr__(name: str) -> object:
        if name not in _HOMES:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        thing = getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
        if isinstance(thing, FunctionType):  # here, at the door: within, no argument is checked again and again
            from paceline.kinds import checked

            thing = checked(thing)
        globals()[name] = thing  # asked for once only
        return thing


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
