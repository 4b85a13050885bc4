"""Settings of a run that nodes receive: only those that data and networks depend on. No path is sent or opened."""

from __future__ import annotations

import sys
from typing import Any

from paceline.config import apply
from paceline.data.own import FILES
from paceline.errors import DataError, SettingError, WireError
from paceline.reading import cleaned, shown
from paceline.references import refuse_untrusted
from paceline.runs.problem import build_problem, load_once
from paceline.runs.settings import Settings
from paceline.worlds.problem import Problem

FORMAT = 2
"""Version of the messages to nodes; other versions are refused."""
SHARED = ("dataset", "partition", "clients", "model", "seed", "public")


def terms_of(settings: dict[str, Any]) -> dict[str, Any]:
    """Return the settings for nodes. The dataset is empty if the server's data are a file."""
    found = {name: settings[name] for name in SHARED}
    return found | ({"dataset": ""} if found["dataset"].endswith(FILES) else {})


def read_terms(said: object, *, trust: bool) -> Settings:
    """Parse the settings from the server. Code, files and any other setting are refused by name."""
    if not isinstance(said, dict) or (other := sorted(said.keys() - set(SHARED))):
        raise WireError(f"the server names {shown(other if isinstance(said, dict) else said)}; wanted {SHARED} alone")
    if not trust:
        refuse_untrusted(said, "the server's message (the node's file has no trust = true)")
    return apply(Settings(), said)


def problem_of(terms: Settings, data: str = "") -> Problem:
    """Build the problem from the node's own data file, or else from the run's dataset."""
    word = data or terms.dataset
    if not data and (not word or word.endswith(FILES)):
        raise SettingError(f"dataset is {shown(word)}, but a node opens only its own file; set data in node.toml")
    try:
        load_once(word)
    except Exception as problem:  # the content of a file stays at the node
        print(f"the data cannot be read: {cleaned(str(problem))}", file=sys.stderr, flush=True)
        raise DataError(f"the data ({shown(terms.dataset)}) cannot be read here; see the worker's log") from None
    return build_problem(**{name: getattr(terms, name) for name in SHARED} | {"dataset": word})
