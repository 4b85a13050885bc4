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

    ``fleet`` is one that was built, its settings, or the path of a fleet's file; then of so many ``clients`` (as many
    as the file lists, else 100). Further settings are those of ``paceline.run``, whose dry run then has the same
    timeline. Without any but ``clients``, ``rounds``, ``seed`` and ``absence``, models have the size of
    ``problem``'s, or next to none. The run ends with the algorithm, or after the first round at which ``enough`` says
    so. What would have to be learned is assumed, and the timeline says so.

    >>> dry("fedbuff", {"times": "constant:2", "jitter": 0}, clients=50, rounds=10).seconds
    10.0
    """
    if data is None and model is None and not settings and words.keys() <= {"clients", "rounds", "seed", "absence"}:
        return checked(engine.dry)(algorithm, fleet, problem=problem, ledger=ledger, enough=enough, **words)
    if isinstance(fleet, Fleet) or problem is not None or ledger is not None:
        raise SettingError("a fleet that was built, problem and ledger replace settings; give settings, or these")
    tree = settings_tree(settings, words, data=data, model=model, fleet=fleet)
    run = make_run(make_settings(method_name(algorithm), file=tree), dry=True)
    times = engine.follow(run.world, run.settings.algorithm, enough)
    return Timeline(times, run.world.ledger, run.traits.assumption.text if run.traits.assumption else "")
