"""Results in words: tables for people, JSON for programs."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from paceline.cli.explain import meanings
from paceline.cli.wide import wide_console
from paceline.learn.executor import Statistics
from paceline.ledger.directory import clean
from paceline.reading import parse_object, read_text
from paceline.report.runs import group_runs, load_run
from paceline.report.tables import Comparison, compared, remarks
from paceline.runs.performing import Outcome
from paceline.runs.recorder import describe
from paceline.runs.replay import Replayed
from paceline.runs.settings import Settings


def print_table(directories: Sequence[Path], statistics: Statistics) -> None:
    """The comparison, as the report shows it."""
    groups = group_runs([load_run(path) for path in directories])
    found = compared(groups)
    console = wide_console()
    table = _wide(found)
    console.print(table if console.measure(table).minimum <= console.width else _narrow(found))
    for remark in remarks(groups):
        console.print(remark, soft_wrap=True, markup=False)
    if statistics.visits:
        console.print(
            f"{statistics.visits:,} local trainings in {statistics.waves:,} waves"
            f" ({statistics.mean_wave:.1f} on average, {statistics.widest} at most)"
        )


def _wide(found: Comparison) -> Table:
    """The comparison with one row per algorithm."""
    table = Table(box=None, pad_edge=False, header_style="bold")
    for k, title in enumerate(found.titles):
        table.add_column(title, justify="left" if k == 0 else "right", no_wrap=True)
    for place, row in enumerate(found.rows):
        table.add_row(*(_cell(text, (place, k) in found.best) for k, text in enumerate(row)))
    return table


def _narrow(found: Comparison) -> Table:
    """One block per algorithm, for terminals that are not wide enough."""
    table = Table(box=None, pad_edge=False, show_header=False)
    for place, row in enumerate(found.rows):
        for k, (title, text) in enumerate(zip(found.titles, row, strict=True)):
            table.add_row(title, _cell(text, k == 0 or (place, k) in found.best))
        table.add_row()
    return table


def _cell(text: str, bold: bool) -> str:
    return f"[bold]{escape(text)}[/]" if bold else escape(text)


def print_failures(outcome: Outcome) -> None:
    """Every run that failed, and why."""
    console = Console(stderr=True, highlight=False, markup=False, soft_wrap=True)
    for run in outcome.failures:
        console.print(f"error: {run.label}: {run.failure}")
        cause = run.failure.__cause__ if run.failure is not None else None
        if cause is not None:
            console.print(f"  from {type(cause).__name__} at {_where(cause)}")


def _where(problem: BaseException) -> str:
    trace = problem.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    if trace is None:
        return "an unknown place"
    return f"{Path(trace.tb_frame.f_code.co_filename).name}:{trace.tb_lineno}"


def print_replay(found: Replayed, *, as_json: bool) -> None:
    """A recorded run beside its repetition."""
    if as_json:
        print(json.dumps(clean(found.plain()), indent=2))
        return
    console = Console(highlight=False, soft_wrap=True)
    console.print(
        f"{found.algorithm}, {found.rounds} rounds: recorded {found.recorded_seconds:.6g} s,"
        f" simulated {found.simulated_seconds:.6g} s"
    )
    if found.equal:
        console.print("equal: all final weights to the last bit, and every act began at the same instant")
        if found.weights_lost:
            console.print(f"{found.weights_lost} models were not kept: who held them was gone at the end")
    else:
        console.print(
            f"not equal: weights differ by up to {found.max_difference:.3g},"
            f" {found.acts_elsewhere} acts began at another time"
        )


def summaries_json(outcome: Outcome) -> str:
    """All summaries and the executor's figures as one JSON object."""
    executor = {
        "visits": outcome.statistics.visits,
        "waves": outcome.statistics.waves,
        "mean_wave": outcome.statistics.mean_wave,
    }
    return json.dumps({"runs": [clean(run.summary()) for run in outcome.runs], "executor": executor}, indent=2)


def kept_json(directories: Sequence[Path]) -> str:
    """Return the summaries of interrupted runs from the disk, in the same form, without the executor's part."""
    files = [file for path in directories if (file := path / "summary.json").exists()]
    return json.dumps(
        {"runs": [parse_object(read_text(file), str(file)) for file in files], "executor": None}, indent=2
    )


def print_settings(settings: Settings, *, explain: bool = False) -> None:
    """One ``name = value`` a line, as --set takes them; what it means above it, if that is asked for."""
    values, said = explained(settings)
    console = Console(highlight=False, markup=False, soft_wrap=True)
    console.print(f"# {settings.name}")
    for key, value in values.items():
        if explain and key in said:
            console.print("\n# " + said[key].replace("\n", "\n# "))
        console.print(f"{key} = {value}")


def explained(settings: Settings) -> tuple[dict[str, str], dict[str, str]]:
    """All settings by their names as --set takes them: their values, and what those mean that the source explains."""
    tree = describe(settings)
    name, options = tree.pop("algorithm"), tree.pop("options")
    local = options.pop("local", {})
    values = {**_flat(tree), **_flat(options, f"{name}."), **_flat(local, "local.")}
    own = meanings(settings.algorithm)
    said = meanings(replace(settings, algorithm=None)) | {f"{name}.{key}": text for key, text in own.items()}
    return values, said | {key: text for key, text in own.items() if key.startswith("local.")}


def _flat(tree: dict[str, Any], prefix: str = "") -> dict[str, str]:
    """Dotted names to values as --set takes them."""
    out: dict[str, str] = {}
    for key, value in tree.items():
        if isinstance(value, dict):
            out |= _flat(value, f"{prefix}{key}.")
        else:
            out[f"{prefix}{key}"] = str(value).lower() if isinstance(value, bool | None) else str(value)
    return out
