"""What a node is told of a run: what data and networks depend on. No path is sent, and none that comes is opened."""

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
"""Of what is said to nodes; one that speaks another is refused."""
SHARED = ("dataset", "partition", "clients", "model", "seed", "public")


def terms_of(settings: dict[str, Any]) -> dict[str, Any]:
    """What nodes are told of a run with these settings; nothing where the server's data are in a file."""
    found = {name: settings[name] for name in SHARED}
    return found | ({"dataset": ""} if found["dataset"].endswith(FILES) else {})


def read_terms(said: object, *, trust: bool) -> Settings:
    """What a server says of a run; code, files, and what a node need not know are refused by name."""
    if not isinstance(said, dict) or (other := sorted(said.keys() - set(SHARED))):
        raise WireError(f"the server names {shown(other if isinstance(said, dict) else said)}; wanted {SHARED} alone")
    if not trust:
        refuse_untrusted(said, "the server's message (the node's file has no trust = true)")
    return apply(Settings(), said)


def problem_of(terms: Settings, data: str = "") -> Problem:
    """What is learned, from the node's own data file where it has one."""
    word = data or terms.dataset
    if not data and (not word or word.endswith(FILES)):
        raise SettingError(f"dataset is {shown(word)}, but a node opens its own file alone: data in node.toml")
    try:
        load_once(word)
    except Exception as problem:  # what a file holds is nobody's business but the node's
        print(f"the data cannot be read: {cleaned(str(problem))}", file=sys.stderr, flush=True)
        raise DataError(f"the data ({shown(terms.dataset)}) cannot be read here; see the worker's log") from None
    return build_problem(**{name: getattr(terms, name) for name in SHARED} | {"dataset": word})
