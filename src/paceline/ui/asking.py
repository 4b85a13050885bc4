"""What somebody may ask a plan for: words of a form, checked before a process is started for them.

A plan must not read files of this machine, nor import code that is named in it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from paceline.algorithms.registry import ALGORITHMS
from paceline.data.specs import SPECS
from paceline.errors import SettingError
from paceline.reading import plain_number, shown
from paceline.references import is_reference

MOST_ALGORITHMS, MOST_CLIENTS, MOST_ROUNDS = 6, 10_000, 2_000
MOST_SETTINGS, LONGEST = 40, 300
MOST_FLEET = 1 << 20
"""Bytes of a fleet that is pasted into the form."""
PAGE, ERROR = "plan.html", "error.txt"
"""Where the process that makes a plan leaves its answer."""
_FILES = re.compile(r"(?:^|[+,/:\s])(?:csv|trace|windows|file)\s*:", re.IGNORECASE)
_NAME = re.compile(r"[A-Za-z][\w.@-]*")


@dataclass(frozen=True, kw_only=True)
class Asked:
    """A plan that may be made."""

    algorithms: tuple[str, ...]
    settings: tuple[str, ...]
    """As ``--set`` has them."""
    fleet: str = ""
    """The text of a fleet's file."""
    kind: str = "csv"
    """Which kind of file that is."""


FIELDS = {
    "clients": "clients",
    "rounds": "rounds",
    "times": "fleet.times",
    "links": "fleet.links",
    "availability": "fleet.availability",
    "dataset": "dataset",
    "model": "model",
    "structure": "",
    "more": "",
}
"""Fields of the form, and the setting of those that are one."""


def read_asked(form: Mapping[str, list[str]]) -> Asked:
    """What a form asks for; ``SettingError`` says what must not, or cannot, be asked."""
    algorithms = [name.strip() for name in form.get("algorithm", ()) if name.strip()]
    for name in algorithms:
        if name not in ALGORITHMS:
            raise SettingError(f"{shown(name)} is none of the algorithms of a plan; wanted {', '.join(ALGORITHMS)}")
    if not 1 <= len(set(algorithms)) <= MOST_ALGORITHMS:
        raise SettingError(f"{len(set(algorithms))} algorithms are chosen; wanted 1 to {MOST_ALGORITHMS}")
    settings = [
        f"{setting}={text}"
        for name, setting in FIELDS.items()
        if setting and (text := " ".join(form.get(name, ())).strip())
    ]
    lines = "\n".join([*form.get("structure", ()), *form.get("more", ())]).splitlines()
    settings += [line.strip() for line in lines if line.strip()]
    fleet = "\n".join(form.get("fleet", ())).replace("\r\n", "\n").strip()
    for setting in settings:
        _check(setting)
    if len(settings) > MOST_SETTINGS:
        raise SettingError(f"{len(settings)} settings are given; a plan takes at most {MOST_SETTINGS}")
    if len(fleet.encode()) > MOST_FLEET:
        raise SettingError(
            f"the fleet has more than {MOST_FLEET:,} bytes; plan it with `paceline plan fleet` instead"
        )
    if _FILES.search(fleet):
        raise SettingError(
            "the fleet names a file of its own, which a plan does not read; write what it says instead"
        )
    kind = "toml" if "[[device]]" in fleet else "csv"
    return Asked(algorithms=tuple(dict.fromkeys(algorithms)), settings=tuple(settings), fleet=fleet, kind=kind)


def _check(setting: str) -> None:
    name, equals, value = (part.strip() for part in setting.partition("="))
    if not equals or not _NAME.fullmatch(name):
        raise SettingError(f"{shown(setting)} is not a setting; wanted name=value, such as fleet.jitter=0.1")
    if len(setting) > LONGEST:
        raise SettingError(f"{name} is longer than {LONGEST} letters, which no setting is")
    last = name.rpartition(".")[2]
    if last == "file" or _FILES.search(value):
        raise SettingError(f"{name} names a file, which a plan does not read; paste your fleet into the form instead")
    if name.partition(".")[0] in ("executor", "algorithm") and "." not in name:
        raise SettingError(f"{name} cannot be set in a plan; choose algorithms above")
    if name == "model" and any(is_reference(part.strip()) for part in value.split("+")):
        raise SettingError(f"model is {shown(value)}, which names code; a plan takes networks by their own names")
    if name == "dataset" and value.partition(":")[0] not in SPECS:
        raise SettingError(f"dataset is {shown(value)}; a plan takes one of {', '.join(SPECS)}")
    if last in ("clients", "rounds"):
        _check_count(name, value, MOST_CLIENTS if last == "clients" else MOST_ROUNDS)


def _check_count(name: str, value: str, most: int) -> None:
    try:
        count = plain_number(value)
    except ValueError:
        raise SettingError(f"{name} is {shown(value)}; wanted a whole number up to {most:,}") from None
    if not 1 <= count <= most:
        raise SettingError(
            f"{name} is {value}; a plan of this page takes 1 to {most:,}; `paceline compare --dry-run` takes more"
        )
