"""Run one algorithm, compare several, sweep over settings: everything in one process, learning batched together."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from os import PathLike, fspath
from pathlib import Path
from typing import Any

from paceline.api.progress import LiveProgress
from paceline.api.results import Result, Scratch
from paceline.api.sweeping import variants
from paceline.api.words import FleetLike, Method, method_name, settings_tree, until_from
from paceline.bounds import SEEDS
from paceline.errors import SettingError
from paceline.kinds import checked
from paceline.ledger.directory import refuse_taken
from paceline.reading import shown
from paceline.runs.experiment import make_experiment
from paceline.runs.keeper import Keeping
from paceline.runs.performing import Outcome, perform
from paceline.runs.recorder import Row
from paceline.runs.run import Run
from paceline.runs.until import Until
from paceline.tracking.following import check_trackers, followed

Callback = Callable[[str, int, Row], None]
"""Function for trackers that receives the algorithm with its variant, the seed, and each row of metrics at once."""


@checked
def compare(
    algorithms: Sequence[Method],
    *,
    data: Any = None,
    model: Any = None,
    fleet: FleetLike | None = None,
    until: str | Sequence[str] | Mapping[str, float] | Until | None = None,
    seeds: int = 1,
    settings: Mapping[str, Any] | None = None,
    out: str | PathLike[str] | None = None,
    dry: bool = False,
    progress: bool = False,
    callbacks: Sequence[Callback] = (),
    track: str | Sequence[str] = (),
    checkpoint: float | str | None = None,
    **words: Any,
) -> Result:
    """Run several algorithms side by side, every one with every seed.

    An algorithm is a name (also with settings of its own, ``"fedbuff@buffer=5"``), an instance or a class. ``data``
    is the name of a dataset or ``(train, test)``, each ``(x, y)`` or a torch ``Dataset``; ``model`` the name of a
    network, a module, or a function that makes one; ``fleet`` the path of a fleet's file or a mapping of fleet
    settings. Further settings are keywords (``clients=10, partition="iid"``) or, where their names have dots,
    ``settings={"local.lr": 0.1}``. Without ``out`` the runs' directories last as long as the result; with it, what
    is under way is kept there every 20 seconds (or ``checkpoint``), and ``paceline.resume`` goes on with it.
    ``track=["tensorboard"]`` (or mlflow, wandb) also writes metrics, settings and summaries to a tracker there.

    >>> result = compare(["fedavg", "fedbuff"], clients=5, rounds=2, partition="iid")
    >>> [run.algorithm for run in result.runs]
    ['fedavg', 'fedbuff']
    """
    if not algorithms:
        raise SettingError("compare wants a list of algorithms; this one is empty: name some, such as 'fedavg'")
    SEEDS.check("seeds", seeds)
    check_trackers(track)
    keeping = Keeping.parse(None if checkpoint is None else str(checkpoint))
    names = [method_name(method) for method in algorithms]
    tree = settings_tree(settings, words, data=data, model=model, fleet=fleet)
    scratch = Scratch() if out is None else None
    directory = scratch.path / "runs" if scratch is not None else _named(out or "")
    refuse_taken(directory)
    experiment = make_experiment(
        names,
        file=tree,
        seeds=seeds,
        until=until_from(until),
        dry=dry,
        out=directory,
        keep_models=not dry,
        keeping=Keeping.parse("never") if scratch is not None else keeping,
    )
    with LiveProgress(quiet=not progress) as live:
        outcome = followed(
            track,
            None if scratch else directory,
            told(live, callbacks),
            lambda tell: perform(experiment, tell, watcher=live),
        )
    return finished(outcome, scratch)


def _named(out: str | PathLike[str]) -> Path:
    """The directory that is asked for; not the current one where nothing is said."""
    said = fspath(out)
    if not said.strip():
        raise SettingError(f"out is {shown(out)}; wanted the path of a directory to write")
    return Path(said)


def finished(outcome: Outcome, scratch: Scratch | None = None) -> Result:
    """The result of runs that have ended; if none of them ended well, the first one's error."""
    if len(outcome.failures) == len(outcome.runs) and (failure := outcome.runs[0].failure) is not None:
        raise failure
    return Result([run.directory for run in outcome.runs if run.directory is not None], scratch, trust=True)


def run(algorithm: Method, **arguments: Any) -> Result:
    """Run one algorithm; takes the same arguments as ``compare``.

    >>> result = run("fedavg", clients=5, rounds=2, partition="iid")
    >>> len(result.rows("fedavg"))
    2
    """
    return compare([algorithm], **arguments)


def sweep(algorithm: str, over: Mapping[str, Sequence[Any]], **arguments: Any) -> Result:
    """One algorithm with every combination of these settings, as one batched run; takes ``compare``'s arguments.

    >>> result = sweep("fedavg", {"local.lr": [0.01, 0.1]}, clients=5, rounds=1, partition="iid")
    >>> len(result.runs)
    2
    """
    return compare(variants(algorithm, over), **arguments)


def told(shown: LiveProgress, callbacks: Sequence[Callback]) -> Callable[[Run, Row], None]:
    """One function that tells progress and callbacks of a row."""

    def tell(run: Run, row: Row) -> None:
        shown(run, row)
        for callback in callbacks:
            callback(run.settings.method, run.settings.seed, row)

    return tell
