"""What operations and joules a run spent on what, as a table."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pyarrow as pa

from paceline.report.runs import Run
from paceline.report.spans import scan
from paceline.report.tables import table
from paceline.report.text import MISSING, energy, operations, words

Sums = dict[str, tuple[float, float]]
_TRANSFERS = ("send", "receive")


def read_sums(path: Path) -> Sums:
    """FLOPs and joules by kind of span; joules that nobody defined make the sum NaN."""
    found: Sums = {}
    for batch in scan(path, ["kind", "flops", "joules"]):
        rows = pa.table({"kind": batch["kind"].cast(pa.string()), "flops": batch["flops"], "joules": batch["joules"]})
        for row in rows.group_by("kind").aggregate([("flops", "sum"), ("joules", "sum")]).to_pylist():
            flops, joules = found.get(row["kind"], (0.0, 0.0))
            found[row["kind"]] = (flops + row["flops_sum"], joules + row["joules_sum"])
    return found


def section(runs: Sequence[tuple[str, Run]]) -> str:
    """A row for each of these runs."""
    found = [(label, run, read_sums(run.spans)) for label, run in runs if run.spans]
    if not any(flops > 0 for _, _, sums in found for flops, _ in sums.values()):
        return ""
    titles = [
        "algorithm",
        "operations of training",
        "of servers’ work",
        "energy of training",
        "of transfers",
        "of work",
    ]
    rows, unknown = [], False
    for label, run, sums in found:
        moved = sum(sums.get(kind, (0.0, 0.0))[1] for kind in _TRANSFERS)
        cells = [
            operations(sums.get("train", (0.0, 0.0))[0]),
            operations(sums.get("work", (0.0, 0.0))[0]),
            energy(sums.get("train", (0.0, 0.0))[1]),
            _joules(moved, run, "link_watts"),
            _joules(sums.get("work", (0.0, 0.0))[1], run, "server_watts"),
        ]
        unknown |= MISSING in cells
        rows.append(words("td", f"{label}, seed {run.seed}") + "".join(words("td", cell) for cell in cells))
    note = (
        "Energy is left open where no watts were given (fleet.watts, fleet.link_watts, fleet.server_watts): it is"
        " never taken as 0."
    )
    return (
        words("h2", "Operations and energy", id="energy")
        + table([words("th", title, scope="col") for title in titles], rows)
        + (words("p", note, class_="note") if unknown else "")
    )


def _joules(value: float, run: Run, watts: str) -> str:
    """Format energy. Without watts it is unknown, even if no time was spent."""
    known = value != 0 or run.settings.get(f"fleet.{watts}", "null") != "null"
    return energy(value) if known else MISSING
