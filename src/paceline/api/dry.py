"""Dry runs from Python, with the settings that ``paceline.run`` takes."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from paceline.api.words import FleetLike, Method, method_name, settings_tree
from paceline.errors import SettingError
from paceline.kinds import checked
from paceline.ledger import Ledger
from paceline.runs import dry as engine
from paceline.runs.dry import Timeline
from paceline.runs.making import make_run
from paceline.runs.settings import make_settings
from paceline.system import Fleet
from paceline.worlds.problem import Problem


def dry(
    algorithm: Method,
    fleet: Fleet | FleetLike | None = None,
    *,
    data: Any = None,
    model: Any = None,
    settings: Mapping[str, Any] | None = None,
    problem: Problem | None = None,
    ledger: Ledger | None = None,
    enough: Callable[[], bool] | None = None,
    **words: Any,
) -> Timeline:
    """Return the timeline of an algorithm on a fleet, without learning anything.

    ``fleet`` is a ``Fleet``, its settings, or the path of a fleet file. With settings or a path, ``clients`` is the
    number of clients [default: all in the file, else 100]. Further settings are those of ``paceline.run``, and give
    the timeline of its dry run. With only ``clients``, ``rounds``, ``seed`` and ``absence``, models have the size of
    ``problem``'s, or almost none. The run ends with the algorithm, or after the first round at which ``enough``
    returns true. Results that need learning are assumed, and the timeline names the assumption.

    >>> dry("fedbuff", {"times": "constant:2", "jitter": 0}, clients=50, rounds=10).seconds
    10.0
    """
    if data is None and model is None and not settings and words.keys() <= {"clients", "rounds", "seed", "absence"}:
        return checked(engine.dry)(algorithm, fleet, problem=problem, ledger=ledger, enough=enough, **words)
    if isinstance(fleet, Fleet) or problem is not None or ledger is not None:
        raise SettingError("a Fleet, problem and ledger replace settings, but there are settings too; remove either")
    tree = settings_tree(settings, words, data=data, model=model, fleet=fleet)
    run = make_run(make_settings(method_name(algorithm), file=tree), dry=True)
    times = engine.follow(run.world, run.settings.algorithm, enough)
    return Timeline(times, run.world.ledger, run.traits.assumption.text if run.traits.assumption else "")
