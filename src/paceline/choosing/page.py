"""The comparison as a page of the documentation."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import product

from paceline.choosing.cells import CLIENTS, LINKS, METHODS, SERVERS, SPLITS, SPREADS, Cell
from paceline.choosing.contest import OVER, TARGET, Entry, Outcome, Table

BESIDE = {
    name: f"{folder}/{name}.{'md'}"
    for folder, name in (
        ("howto", "planning"),
        ("algorithms", "psfl"),
        ("algorithms", "noidle"),
        ("algorithms", "pfedavg"),
        ("algorithms", "dadpfl"),
    )
}
"""Pages by their names, as the page links them: beside it, not beside this file."""
HEAD = """# Which method when

This page is written by a program: every figure comes from runs. `paceline choose --out DIRECTORY` runs them (it goes
on where it was interrupted), and

    paceline choose --out DIRECTORY --json > docs/results/choice.json
    paceline choose --read docs/results/choice.json --markdown > docs/choosing.md

writes the page: {seeds} seeds, {minutes:.0f} minutes of computing on {hardware}, shared with other work. For a fleet
of your own, `paceline plan fleet` ([how]({planning})) says what rounds and visits would cost.

## What is compared

{clients} devices, all of which may be at work at once, learn to read digits (`digits`, a network with 32 hidden
units, visits of two steps of ten samples) until the mean of {over} evaluations in a row is {target:.0f} % accurate. A
visit takes one second on average, so all seconds can be read as visits. What differs:

| | | |
|---|---|---|
| devices | equal | all alike, but for 10 % from visit to visit |
| | tenfold | five kinds, the slowest ten times as slow as the fastest (0.2, 0.4, 0.8, 1.6, 2 s) |
| | heavy tail | lognormal with sigma 1: most are fast, a few are very slow |
| server | free | an aggregation takes no time |
| | slow | an aggregation takes a second, as long as a visit, for instance because uploads are screened |
| links | free | transfers take no time |
| | slow clients | half a second each way on a client's own link |
| | busy server | clients' links are fast, but share the server's: two seconds each way for all {clients} |
| data | IID | every device has samples of all classes alike |
| | two classes | every device has two of the ten classes |

The methods: **fedavg**; **psfl** ([sequences abreast]({psfl}), which finds its structure in a warm-up that
is charged); **spfl** and **apfl** ([no one idles]({noidle})); **fedbuff** (a buffer of 5);
**p-fedavg** ([four servers]({pfedavg}) on a ring with five devices each, each with a link of its own to
its devices). FedBuff and P-FedAvg aggregated at no cost then, so they are left out where the server is slow. Every
method has the learning rate that served it best in that very federation, among half decades, on two seeds that are
not reported; the grid of rates grows until the best lies inside. Evaluations are about as far apart, in virtual time,
as rounds of FedAvg are.

DA-DPFL is not here: it makes a model for each client and has no server
([what waiting costs it]({dadpfl}#beyond-the-paper-which-n-is-worth-its-time)).

## How to read a cell

The fastest method, with its time over FedAvg's (a geometric mean over pairs with the same seed) and the 95 %
interval; then the second. *=* stands between them where the interval of their ratio includes 1: the seeds cannot tell
them apart. A method of which not every seed arrived is not ranked. Where FedAvg itself is fastest, what is told is
how much longer the second takes.
"""

TAIL = """## What this does not say

One small network on one easy dataset, one target, {clients} devices that are always there and may all be at work at
once. Where only some of many devices take part, where accuracies close to the best are wanted, or where a round takes
hundreds of visits, the order may be another: on CIFAR-10 with 500 clients PSFL is ahead of FedAvg late in training
([figures]({psfl})), while here its warm-up and its longer rounds mostly cost more than it gains. SPFL is
stable only at smaller rates, which the tuning finds. Nobody drops out, and nobody is hostile
([what that does](chaos.{md}))."""


def page(table: Table) -> str:
    """The whole page in Markdown."""
    head = HEAD.format(
        seeds=table.seeds, minutes=table.minutes, hardware=table.hardware, clients=CLIENTS, over=OVER,
        target=100 * TARGET, **BESIDE,
    )  # fmt: skip
    parts = [head, "## In short\n", *_short(table)]
    for split in SPLITS:
        if any(one.cell.split == split for one in table.outcomes):
            parts += [f"## Data: {split}\n", *_grid(table, split)]
    parts += ["## All times\n", *_times(table), "", TAIL.format(clients=CLIENTS, md="md", **BESIDE)]
    return "\n".join(parts).rstrip() + "\n"


def _short(table: Table) -> list[str]:
    """How often each method is fastest, or cannot be told from the fastest, by each level of each factor."""
    levels = [
        *(("data", "split", level) for level in SPLITS),
        *(("devices", "spread", level) for level in SPREADS),
        *(("server", "server", level) for level in SERVERS),
        *(("links", "links", level) for level in LINKS),
    ]
    lines = ["Federations in which each method is fastest, or cannot be told from the fastest:\n"]
    lines += [f"| | federations | {' | '.join(METHODS)} |", "|---|--:|" + "--:|" * len(METHODS)]
    for title, factor, level in levels:
        those = [one for one in table.outcomes if getattr(one.cell, factor) == level]
        if those:
            lines.append(f"| {title}: {level} | {len(those)} | {' | '.join(_counts(those))} |")
    return [*lines, f"| all | {len(table.outcomes)} | {' | '.join(_counts(table.outcomes))} |", ""]


def _counts(outcomes: Sequence[Outcome]) -> list[str]:
    found = []
    for method in METHODS:
        there = [one for one in outcomes if any(entry.method == method for entry in one.entries)]
        firsts = sum(any(entry.method == method for entry in leaders(one)) for one in there)
        found.append(
            "–" if not there else str(firsts) if len(there) == len(outcomes) else f"{firsts} of {len(there)}"
        )
    return found


def leaders(outcome: Outcome) -> list[Entry]:
    """The fastest method, and those whose time over its own cannot be told from 1."""
    if not (ranked := outcome.ranked):
        return []
    first = ranked[0]
    return [first, *(one for one in ranked[1:] if not one.over(first)[1] > 1)]


def _grid(table: Table, split: str) -> list[str]:
    known = {one.cell: one for one in table.outcomes}
    lines = [
        f"| devices, server | {' | '.join(f'links {name}' for name in LINKS)} |",
        "|---" * (len(LINKS) + 1) + "|",
    ]
    for spread, server in product(SPREADS, SERVERS):
        here = [known.get(Cell(spread, server, links, split)) for links in LINKS]
        if any(here):
            lines.append(f"| {spread}, {server} | {' | '.join(told(one) if one else '' for one in here)} |")
    return [*lines, ""]


def told(outcome: Outcome) -> str:
    """The fastest method and the second, with their times over FedAvg's."""
    ranked = outcome.ranked
    if not ranked:
        return "none arrives"
    first = ranked[0]
    shown = [_beside(one, outcome) for one in ranked[:2]]
    if len(shown) == 1:
        return shown[0]
    sign = " = " if not ranked[1].over(first)[1] > 1 else ", then "
    return sign.join(shown)


def _beside(entry: Entry, outcome: Outcome) -> str:
    base = outcome.base
    if entry is base:
        return "**fedavg**" if outcome.ranked[0] is base else "fedavg"
    name = f"**{entry.method}**" if outcome.ranked[0] is entry else entry.method
    if not base.complete:
        return f"{name} (not every seed of fedavg arrives)"
    value, low, high = entry.over(base)
    return f"{name} ×{value:.2f}" + (f" ({low:.2f} to {high:.2f})" if math.isfinite(low) else "")


def _times(table: Table) -> list[str]:
    """Mean seconds of every method in every federation; visits and rates are in the JSON file."""
    lines = [
        "Mean seconds to the target; in brackets how many seeds arrived where some did not. Learning rates and visits"
        " are\nin [the file that the page was made of](results/choice.json).\n",
        f"| data, devices, server, links | {' | '.join(METHODS)} |",
        "|---|" + "--:|" * len(METHODS),
    ]
    for one in table.outcomes:
        entries = {entry.method: entry for entry in one.entries}
        cells = [_seconds(entries[name]) if name in entries else "–" for name in METHODS]
        where = ", ".join((one.cell.split, one.cell.spread, one.cell.server, one.cell.links))
        lines.append(f"| {where} | {' | '.join(cells)} |")
    return lines


def _seconds(entry: Entry) -> str:
    if entry.complete:
        return f"{entry.mean:.4g}"
    return f"({len(entry.seconds)} of {entry.tried})"
