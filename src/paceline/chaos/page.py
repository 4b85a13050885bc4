"""The laboratory's table as a page of the documentation."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from textwrap import fill

from paceline.chaos.injections import INJECTIONS, Injection
from paceline.chaos.laboratory import PATIENCE, WAITS, Cell, Table, by_algorithm

SETTINGS = "settings" + ".md#messages-that-go-wrong-faults"
FEDERATION = "federation" + ".md"
"""Beside the page, not beside this file."""
HEAD = f"""# What becomes of each algorithm when things go wrong

This page is written by a program: every cell is a run. `paceline chaos [ALGORITHM…] [--faults NAME]` runs them again,
and

    paceline chaos --json > docs/results/chaos.json
    paceline chaos --read docs/results/chaos.json --markdown > docs/chaos.md

writes the page (a quarter of an hour on two cores). The runs are small: eight unequal devices learn to read digits
with a linear model, for about 12 rounds, checked for models that are used where they never arrived
(`--check-places`). Faults are drawn by address, so the same seed gives the same table; only a dead worker is a matter
of the wall clock, and its time is not compared.

## How to read a cell

| word | meaning |
|---|---|
| goes on | all rounds are made, in less than {WAITS:g} times the undisturbed time |
| waits | all rounds are made, but later than that |
| ends | the run ends with the message below the table |
| hang | not over after {PATIENCE:g} times the undisturbed virtual time, or by the wall clock's alarm, or a deadlock |
| wrong | an error that nobody foresaw, an impossible figure, books that do not add up, another result when resumed |
| – | it has no such part: no server, no links between servers |

The first figure is the accuracy at the end less that of the undisturbed run, in percentage points (one test sample is
0.3 of them: what is below 1 says nothing). The second is the virtual time over that of the undisturbed run. A method
that leaves out who is late may be faster with a fault than without, and pays in accuracy.

Messages that go wrong are a setting of any run (`--set faults=lost:0.1+delayed:0.1,5`,
[settings]({SETTINGS})). A message that is lost, or corrupted, which its checksum
tells, was sent in vain. One that holds NaN or is too long is refused on arrival and counted as rejected; it never
reaches an average. What arrives twice counts once. What the algorithms make of it is their own: servers and peers
average what has come, chains pass over who cannot be reached, P-FedAvg and DPSGD send again what the neighbour has
used already, so that weights stay symmetric. In the simulation a receiver's checks are part of what befalls a
message: no number is really spoilt, and these columns show what an algorithm makes of what does not come. Real
receivers have the checks themselves ([federation]({FEDERATION})). A NaN that training itself makes is another
thing: it ends a run with a message that names client, round and time, and counts as wrong here unless devices are
hostile.
"""
TITLES = {"devices": "Devices", "messages": "Messages", "machines": "Machines"}


def page(table: Table) -> str:
    """The whole page in Markdown."""
    cells = by_algorithm(table)
    used = {cell.fault for cell in table.cells}
    parts = [HEAD, "## In one line\n", f"{summary(table)}.\n"]
    for group, title in TITLES.items():
        injections = [one for one in INJECTIONS.values() if one.group == group and one.name in used]
        if injections:
            parts.append(_section(title, injections, cells))
    return "\n".join(parts)


def summary(table: Table) -> str:
    """How many cells came to what."""
    counts = ", ".join(f"{count} {outcome}" for outcome, count in table.counts().items())
    algorithms, faults = len({c.algorithm for c in table.cells}), len({c.fault for c in table.cells})
    return f"{len(table.cells)} cells ({algorithms} algorithms, {faults} faults): {counts}"


def _section(title: str, injections: Sequence[Injection], cells: Mapping[str, Mapping[str, Cell]]) -> str:
    notes: dict[str, int] = {}
    names = [one.name for one in injections]
    lines = [f"## {title}\n", *(_item("-", f"**{one.name}**: {one.text}") for one in injections), ""]
    lines += ["| algorithm | " + " | ".join(names) + " |", "|---" * (len(names) + 1) + "|"]
    for algorithm, row in cells.items():
        shown = [_shown(row[name], notes) if name in row else "" for name in names]
        lines.append(f"| {algorithm} | " + " | ".join(shown) + " |")
    lines += ["", *(_item(f"{number}.", message) for message, number in notes.items())]
    return "\n".join(lines).rstrip() + "\n"


def _item(mark: str, text: str) -> str:
    """One item of a list, wrapped as the other pages are."""
    begin = f"{mark} "
    return fill(
        text, 120, initial_indent=begin, subsequent_indent=" " * len(begin),
        break_long_words=False, break_on_hyphens=False,
    )  # fmt: skip


def _shown(cell: Cell, notes: dict[str, int]) -> str:
    figures = figures_of(cell)
    note = f" [{notes.setdefault(_general(cell), len(notes) + 1)}]" if cell.message else ""
    return cell.outcome + note + (f", {figures}" if figures else "") + ("" if cell.struck else " (did not strike)")


def _general(cell: Cell) -> str:
    """A message without the algorithm's own name and time, so that many share it."""
    words = cell.message.replace(cell.algorithm, "NAME").split()
    return " ".join("t=…" if word.startswith("t=") else word for word in words)


def figures_of(cell: Cell) -> str:
    """What it cost, in few letters."""
    accuracy = "" if cell.accuracy is None else f"{round(100 * cell.accuracy, 1) + 0.0:+.1f}"
    time = "" if cell.time is None else f"×{cell.time:.2f}"
    return " ".join(part for part in (accuracy.replace("-", "−"), time) if part)
