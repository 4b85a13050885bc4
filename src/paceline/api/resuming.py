"""Go on with runs that were cut off."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from os import PathLike
from pathlib import Path
from typing import Any

from paceline.algorithms.base import Algorithm
from paceline.algorithms.named import lend_algorithm
from paceline.api.comparing import Callback, finished, told
from paceline.api.progress import LiveProgress
from paceline.api.results import Result
from paceline.data.own import lend_dataset
from paceline.errors import SettingError
from paceline.learn.models import lend_model
from paceline.runs.manifest import Manifest, read_manifest
from paceline.runs.performing import read_resumption
from paceline.runs.performing import resume as go_on
from paceline.runs.problem import forget_data
from paceline.tracking.following import followed

GIVEN = "given:"
"""How the names of things begin that only the program had which began the run."""


def resume(
    directory: str | PathLike[str],
    *,
    algorithms: Sequence[Algorithm | type[Algorithm]] = (),
    data: Any = None,
    model: Any = None,
    accept: Sequence[str] = (),
    trust: bool = False,
    progress: bool = False,
    callbacks: Sequence[Callback] = (),
    track: str | Sequence[str] = (),
) -> Result:
    """Go on with the runs in a directory that were interrupted or killed: the same results as if they had not been.

    Data, a network or algorithms that were handed over as objects are handed over again. What has changed since
    (versions, the device, data, files, code) is an error that names it, unless it is in ``accept``. With ``trust``
    other code that the settings name may be imported. Callbacks receive only new rows. Trackers
    that followed the runs before continue, in addition to those in ``track``.

    >>> import paceline, tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     _ = paceline.run("fedavg", clients=5, rounds=1, partition="iid", out=f"{folder}/one")
    ...     try:
    ...         resume(f"{folder}/one")
    ...     except paceline.PacelineError as problem:
    ...         print(str(problem).replace(folder, "")[:16])
    /one is complete
    """
    path = Path(directory)
    lend_again(path, algorithms, data, model)
    resumption = read_resumption(path, trust=trust, accept=accept)
    with LiveProgress(quiet=not progress) as shown:
        return finished(followed(track, path, told(shown, callbacks), lambda tell: go_on(resumption, tell, shown)))


def lend_again(
    directory: Path, algorithms: Sequence[Algorithm | type[Algorithm]] = (), data: Any = None, model: Any = None
) -> None:
    """Give things that were handed over as objects the names that they had; what is lacking is an error."""
    manifest = read_manifest(directory)
    _lend(manifest, "dataset", data, lend_dataset)
    _lend(manifest, "model", model, lend_model)
    for algorithm in algorithms:
        kind = algorithm if isinstance(algorithm, type) else type(algorithm)
        end = f":{kind.__name__}"
        for name in _named(manifest, "algorithm", partial(_ends_with, end)):
            lend_algorithm(algorithm, name)


def _lend(manifest: Manifest, word: str, thing: Any, lend: Callable[[Any, str], str]) -> None:
    """Give what was handed over the name that it had."""
    names = _named(manifest, word, lambda name: name.startswith(GIVEN))
    if thing is None and names:
        argument = "data" if word == "dataset" else word
        raise SettingError(
            f"the {word} of these runs was handed over in Python ({', '.join(names)}), and only its name was written"
            f" down; hand it over again: paceline.resume(directory, {argument}=...)"
        )
    for name in names:
        forget_data()
        lend(thing, name)


def _ends_with(end: str, name: str) -> bool:
    return name.endswith(end)


def _named(manifest: Manifest, word: str, wanted: Callable[[str], bool]) -> list[str]:
    """What the runs name by this word, each once."""
    found = (str(settings.get(word, "")) for settings in manifest.settings)
    return list(dict.fromkeys(name for name in found if wanted(name)))
