"""``paceline plan fleet fleet.csv``: the table, the JSON and the page of a plan of methods."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import typer
from rich.console import Console

from paceline.cli.plan_answer import Answer, print_json, refuse_existing
from paceline.errors import DataError, SettingError
from paceline.reading import expanded

if TYPE_CHECKING:
    from paceline.plans.methods import MethodPlan

SUFFIXES = (".csv", ".toml")


@dataclass(frozen=True)
class Asked:
    """What was said on the command line."""

    model: str
    dataset: str
    algorithms: Sequence[str]
    participants: int | None
    servers: Sequence[int]
    settings: Sequence[str]


def plan_file(file: str, asked: Asked, out: Path | None, *, as_json: bool) -> None:
    """Try methods on the fleet in a file, and say which to choose."""
    if out is not None:
        if out.suffix != ".html":
            raise SettingError(f"--out is {str(out)!r}; the page of a plan is HTML: name it such as plan.html")
        refuse_existing(out)
    _refuse(file)
    from paceline.plans.methods import plan_methods
    from paceline.plans.methods_tree import as_tree

    with Console(stderr=True, highlight=False).status("dry runs", spinner="line") as status:
        plan = plan_methods(
            file,
            model=asked.model,
            dataset=asked.dataset,
            algorithms=asked.algorithms,
            participants=asked.participants,
            servers=asked.servers,
            overrides=asked.settings,
            tell=lambda label: status.update(f"dry run: {label}"),
        )
    if out is not None:
        from paceline.api.plan_page import write_plan

        write_plan(plan, out)
    if as_json:
        print_json(as_tree(plan) | {"file": None if out is None else str(out)})
    else:
        _answer(plan).print()
    if out is not None:
        typer.echo(f"page: {out}", err=as_json)


def _refuse(file: str) -> None:
    """What is neither a fleet file nor, as the caller knows, a directory."""
    from paceline.references import announced

    path = file.removesuffix(",repeat")
    if path in announced("fleets"):
        return
    if not expanded(path).exists():
        raise DataError(f"there is no {path}; give a fleet file (.csv or .toml, docs/fleets.md) or a run's directory")
    if not path.endswith(SUFFIXES):
        raise DataError(
            f"{path} is neither a fleet file, which ends in .csv or .toml (docs/fleets.md), nor a run's directory"
        )


def _answer(plan: MethodPlan) -> Answer:
    from paceline.api.plan_page import TITLES, cells, group_title
    from paceline.plans.methods import GROUPS
    from paceline.plans.methods_reasons import absence_rule, assumptions, command, recommend, unknown

    rows: list[tuple[list[str], bool]] = []
    for group in GROUPS:
        if found := plan.group(group):
            rows.append(([f"{group_title(plan, group)}:"], False))
            rows += [([f"  {one.method.label}", *cells(one)], one is plan.best) for one in found]
    left = "; ".join(f"{one.name} ({one.reason})" for one in plan.skipped)
    first, *more = recommend(plan)
    return Answer(
        columns=["\nmethod", *(title if "\n" in title else f"\n{title}" for title in TITLES)],
        left=["\nmethod"],
        rows=rows,
        dim="\n".join([absence_rule(plan), *([f"Left out: {left}."] if left else [])]),
        lines=[
            f"Recommended: {first}",
            *more,
            *(f"Not known: {line}" for line in unknown(plan)),
            f"To find out: {command(plan)}",
            *(f"Assumed: {line}" for line in assumptions(plan)),
        ],
        close=True,
    )
