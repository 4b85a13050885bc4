"""What a directory of runs is: everything that is needed to go on with it, and what must be the same for that."""

from __future__ import annotations

import json
import math
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from paceline.bounds import bounded
from paceline.config import apply
from paceline.errors import DataError
from paceline.ledger.directory import EXPERIMENT
from paceline.ledger.durable import replace_durably
from paceline.reading import parse_object, read_text
from paceline.references import refuse_untrusted
from paceline.runs.keeper import Keeping
from paceline.runs.sameness import Same
from paceline.runs.settings import Settings, settings_from
from paceline.runs.until import Until

FORMAT = 1


@dataclass(frozen=True, kw_only=True)
class Options:
    """What a command says of all its runs besides their settings."""

    dry: bool = False
    keep_spans: bool = True
    check_places: bool = False
    keep_models: bool = False
    workers: int | None = bounded(None, least=1, most=100_000)
    """Processes of this machine, with ``--world local``."""
    federation: bool = False
    """Whether these are nodes of a federation instead."""


@dataclass(kw_only=True)
class Manifest:
    """The file ``paceline.json`` of a directory of runs."""

    status: str = "running"
    """``running``, ``interrupted`` or ``done``; one that runs no more and says ``running`` was killed."""
    folders: list[str]
    """Of the runs, below the directory; ``.`` is the directory itself."""
    settings: list[dict[str, Any]]
    """Of the runs, as their own files have them."""
    until: dict[str, Any]
    variants: list[str] = field(default_factory=list)
    """Variant of each run, the text behind its algorithm's name; for messages only."""
    options: dict[str, Any] = field(default_factory=dict)
    """What else the command said: whether it is dry, keeps spans, checks places."""
    keeping: dict[str, Any] = field(default_factory=dict)
    same: Same = field(default_factory=dict)
    """What results depend on besides settings, by name."""
    format: int = FORMAT

    def write(self, directory: Path) -> None:
        """Into a directory, whole or not at all, also when the power goes: nothing can be resumed without it."""
        replace_durably(directory / EXPERIMENT, json.dumps(asdict(self), indent=2) + "\n")

    def all_settings(self, where: Path, *, trust: bool) -> tuple[Settings, ...]:
        """The settings of all runs; code that they name needs ``trust``."""
        for words in self.settings:
            if not trust:
                refuse_untrusted(words, str(where))
        variants = self.variants or [""] * len(self.settings)
        return tuple(
            replace(settings_from(words), variant=said) for words, said in zip(self.settings, variants, strict=True)
        )

    def limits(self) -> Until:
        """Return what makes runs stop early."""
        return apply(Until(), self.until, f"{EXPERIMENT}: until.")

    def said(self) -> Options:
        """What else the command said."""
        return apply(Options(), self.options, f"{EXPERIMENT}: options.")

    def keeps(self) -> Keeping:
        """How often values are kept."""
        words = {name: number for name, number in self.keeping.items() if number is not None}
        kept = apply(Keeping(every=math.inf), words, f"{EXPERIMENT}: keeping.")
        if not (kept.every >= 0 and 0 <= kept.budget < math.inf):
            raise DataError(f"{EXPERIMENT}: keeping is {self.keeping}; wanted seconds and bytes of 0 or more")
        return kept


def edition(directory: Path) -> tuple[int, int]:
    """Which of the manifests this is that were written here, one after the other."""
    found = (directory / EXPERIMENT).stat()
    return found.st_ino, found.st_mtime_ns


def read_manifest(directory: Path) -> Manifest:
    """The manifest of a directory; one that is missing or damaged is named."""
    path = directory / EXPERIMENT
    try:
        words = parse_object(read_text(path), str(path))
        found = Manifest(**words)
    except FileNotFoundError:
        raise DataError(
            f"{directory} holds no {EXPERIMENT}, so nothing there can be resumed; give the directory that"
            " `paceline run` or `paceline compare` was given as --out"
        ) from None
    except TypeError as problem:
        raise DataError(f"{path} is no manifest of runs: {problem}") from None
    if found.format != FORMAT or not _is_well_formed(found):
        raise DataError(
            f"{path} is not of the form that this version writes; resume it with the version that made it"
        )
    return found


def _is_well_formed(found: Manifest) -> bool:
    folders: Any = found.folders  # anything, as it was read
    settings: Any = found.settings
    variants: Any = found.variants
    return (
        isinstance(folders, list)
        and isinstance(settings, list)
        and len(folders) == len(settings) > 0
        and all(isinstance(folder, str) and _stays_inside(folder) for folder in folders)
        and all(isinstance(one, dict) for one in settings)
        and isinstance(variants, list)
        and len(variants) in (0, len(settings))
        and all(isinstance(one, str) and one.isprintable() for one in variants)
        and all(isinstance(getattr(found, name), dict) for name in ("until", "options", "keeping", "same"))
    )


def _stays_inside(folder: str) -> bool:
    """Whether a folder's name leads nowhere else."""
    path = Path(folder)
    return not path.is_absolute() and ".." not in path.parts
