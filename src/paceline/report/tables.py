"""The tables of the page: runs beside each other, who caused the waiting, settings."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from html import escape

import numpy as np

from paceline.report import decided
from paceline.report.runs import Group, Run
from paceline.report.text import MISSING, energy, number, operations, percent, seconds, size, spread, tag, words
from paceline.statistics import half_width, mean_interval


@dataclass(frozen=True, kw_only=True)
class _Column:
    """One figure of the comparison; ``best`` is min or max where one value is better than another."""

    title: str
    keys: tuple[str, ...]
    form: Callable[[float | None], str]
    best: Callable[[Iterable[float]], float] | None = None
    unreached: bool = False


_TARGET = (
    _Column(title="time to target", keys=("target", "time"), form=seconds, best=min, unreached=True),
    _Column(title="traffic to target", keys=("target", "bytes"), form=size, best=min, unreached=True),
    _Column(title="rounds to target", keys=("target", "rounds"), form=number, unreached=True),
)
_WHOLE = (
    _Column(title="virtual time", keys=("time",), form=seconds),
    _Column(title="traffic", keys=("bytes",), form=size),
    _Column(title="rounds", keys=("rounds",), form=number),
)
_REST = (
    _Column(title="visits", keys=("visits",), form=number),
    _Column(title="busiest site", keys=("busiest_bytes",), form=size),
    _Column(title="energy", keys=("joules",), form=energy),
    _Column(title="idle", keys=("idle_share",), form=percent, best=min),
)
_SPARSE = (
    _Column(title="operations", keys=("flops",), form=operations),
    _Column(title="zeros", keys=("sparsity",), form=percent),
)
"""Columns that are shown where some model is sparse."""
_ACCURACY = _Column(title="accuracy", keys=("accuracy",), form=percent, best=max)


@dataclass(frozen=True, kw_only=True)
class Comparison:
    """The figures of the groups as text; ``best`` holds the (row, column) places of the winners."""

    titles: list[str]
    rows: list[list[str]]
    best: set[tuple[int, int]]


def compared(groups: Sequence[Group]) -> Comparison:
    """One row per algorithm; figures nobody has are left out."""
    # A run ends at its target: where all arrive, the whole costs as much as the way there.
    arrived = all(run.figure("target", "time") is not None for group in groups for run in group.runs)
    sparse = any(run.figure("sparsity") is not None for group in groups for run in group.runs)
    accuracy = replace(_ACCURACY, best=None) if mixed_scores(groups) else _ACCURACY
    wanted = (*_TARGET, *(() if arrived else _WHOLE), *_REST, *(_SPARSE if sparse else ()), accuracy)
    asked = any(run.aimed for group in groups for run in group.runs)
    columns = [c for c in wanted if (asked and c.unreached) or any(_values(group, c) for group in groups)]
    rows, best = [], set()
    for place, group in enumerate(groups):
        rows.append(
            [
                group.label + _status(group.runs),
                str(len(group.runs)),
                *(_cell(group, column) for column in columns),
            ]
        )
        best |= {(place, k + 2) for k, column in enumerate(columns) if group.label in _winners(groups, column)}
    return Comparison(titles=["algorithm", "seeds", *(column.title for column in columns)], rows=rows, best=best)


def mixed_scores(groups: Sequence[Group]) -> str:
    """What to say where accuracies are not of one kind; nothing where they are."""
    own = {kind: [g.label for g in groups if kind in _kinds(g)] for kind in (True, False)}
    if not (own[True] and own[False]):
        return ""
    return (
        f"accuracy: of {', '.join(own[True])} the mean over clients, each with its own model on its own test samples;"
        f" of {', '.join(own[False])} that of one model on all. They cannot be compared:"
        " personal=true scores all in the first way"
    )


def absence_rules(groups: Sequence[Group]) -> str:
    """Which rule for devices that are away held for whom; nothing where nobody ever is."""
    away = [group for group in groups if group.runs[0].settings.get("fleet.availability", "always") != "always"]
    rules: dict[str, list[str]] = {}
    for group in away:
        rules.setdefault(str(group.runs[0].summary.get("absence", "own")), []).append(group.label)
    if not rules:
        return ""
    told = "; ".join(f"{', '.join(labels)}: {_RULES.get(rule, rule)}" for rule, labels in rules.items())
    more = "" if len(rules) == 1 else ". So times also measure the rule: --absence puts all under the same"
    return f"devices that are away: {told}{more}"


_RULES = {"skip": "left out (skip)", "wait": "waited for (wait)"}
_WEIGHTS = {"equal": "all clients alike", "samples": "by their samples"}


def weights(groups: Sequence[Group]) -> str:
    """Return a note on the weights of clients if methods weigh them differently, else nothing."""
    said: dict[str, list[str]] = {}
    for group in groups:
        if how := _WEIGHTS.get(str(group.runs[0].summary.get("weights"))):
            said.setdefault(how, []).append(group.label)
    told = "; ".join(f"{', '.join(labels)}: {how}" for how, labels in said.items())
    why = "So they minimise different losses: weighing=equal gives all the same"
    return f"weights of clients: {told}. {why}" if len(said) > 1 else ""


def spent(groups: Sequence[Group]) -> str:
    """What ε private runs have come to, the largest of their seeds; nothing where no run is private."""
    found = []
    for group in groups:
        asked = [run for run in group.runs if run.figure("privacy", "clip") is not None]
        losses = [loss for run in asked if (loss := run.figure("privacy", "epsilon")) is not None]
        if asked and len(losses) == len(asked):
            delta = number(max(run.figure("privacy", "delta") or 0.0 for run in asked), 3)
            found.append(f"{group.label} ε = {number(max(losses), 3)} at δ = {delta}")
        elif asked:
            found.append(f"{group.label} has no ε, for nothing is noised")
    return f"differential privacy (one client replaced): {'; '.join(found)}" if found else ""


def ended_early(groups: Sequence[Group]) -> str:
    """Which runs ended before their last round, and why; nothing where none did."""
    found = [f"{group.label} seed {run.seed}: {why}" for group in groups for run in group.runs if (why := _why(run))]
    return "ended early: " + "; ".join(found) if found else ""


def _why(run: Run) -> str:
    why = run.summary.get("ended")
    return why if isinstance(why, str) else ""


def ran_out(groups: Sequence[Group]) -> str:
    """Whose rounds were over before the target was met: that is no proof that it cannot be met."""
    found = []
    for group in groups:
        short = [run for run in group.runs if _ran_out(run)]
        if short:
            rounds = max(run.figure("rounds") or 0.0 for run in short)
            found.append(f"{group.label} in {len(short)} of {len(group.runs)} seeds, after {rounds:,.0f} rounds")
    return f"rounds ran out before the target: {'; '.join(found)} (set rounds to go on)" if found else ""


def unfinished(groups: Sequence[Group]) -> str:
    """Which runs have not ended, as far as their directories tell, and what of them is missing."""
    found = []
    for group in groups:
        cut = [run for run in group.runs if is_unfinished(run)]
        whole = [run for run in cut if not run.missing and len(run.metrics["time"])]
        if len(whole) > 2:  # one by one they would be a long list that says little
            states = ", ".join(sorted({str(run.summary.get("status")) for run in whole}))
            until = ", ".join(f"{word} {_ends(whole, key)}" for word, key in (("round", "round"), ("t =", "time")))
            found.append(f"{group.label}, {len(whole)} of {len(group.runs)} seeds ({states}): known until {until} s")
            cut = [run for run in cut if run not in whole]
        found += [f"{group.label} seed {run.seed} ({run.summary.get('status')}): {_known(run)}" for run in cut]
    standing = [run.summary.get("status") for group in groups for run in group.runs if is_unfinished(run)]
    # What has ended is not gone on with, damaged or not.
    hint = " (paceline resume goes on)" if any(state != "done" for state in standing) else ""
    return "not finished: " + "; ".join(found) + hint if found else ""


def is_unfinished(run: Run) -> bool:
    """Whether a run has not ended, or something of it is missing."""
    return run.summary.get("status") in ("running", "interrupted") or bool(run.missing)


def _ends(runs: Sequence[Run], column: str) -> str:
    """The last values of a column of several runs: one, or from the least to the greatest."""
    low, high = (number(pick(run.metrics[column][-1] for run in runs)) for pick in (min, max))
    return low if low == high else f"{low} to {high}"


def _known(run: Run) -> str:
    rounds, times = run.metrics["round"], run.metrics["time"]
    until = f"known until round {rounds[-1]:,.0f}, t={times[-1]:,.6g} s" if len(times) else "nothing known"
    return until + "".join(f"; {part} is missing" for part in run.missing)


def _ran_out(run: Run) -> bool:
    asked = isinstance(run.summary.get("target"), dict) and run.figure("target", "time") is None
    limits = {word: run.figure("until", word) for word in ("time", "visits")}
    stopped = any(most is not None and (run.figure(word) or 0.0) >= most for word, most in limits.items())
    return asked and run.summary.get("status") == "done" and not _why(run) and not stopped


def remarks(groups: Sequence[Group]) -> list[str]:
    """What a reader of the comparison must know besides."""
    told = (
        mixed_scores(groups),
        absence_rules(groups),
        weights(groups),
        spent(groups),
        ended_early(groups),
        ran_out(groups),
        unfinished(groups),
    )
    return [text for text in told if text]


def _kinds(group: Group) -> set[bool]:
    """Whether its accuracies are personal, as far as it has any and its runs have said so."""
    said = [run.summary.get("personal") for run in group.runs if run.figure("accuracy") is not None]
    return {one for one in said if isinstance(one, bool)}


def comparison(groups: Sequence[Group]) -> str:
    """The comparison as an HTML table, with what decided it; the best of a ranked column is bold."""
    found, shared = compared(groups), decided.shared_facts(groups)
    body = []
    for place, (group, row) in enumerate(zip(groups, found.rows, strict=True)):
        looks: list[dict[str, str]] = [
            {"class_": "best"} if (place, k) in found.best else {} for k in range(1, len(row))
        ]
        cells = [words("th", row[0], scope="row")]
        cells += [words("td", text, **look) for text, look in zip(row[1:], looks, strict=True)]
        own = {key: text for key, text in decided.facts(group).items() if key not in shared}
        body.append("".join(cells))
        # On a narrow screen, where the table scrolls sideways, they stay in sight.
        body.append(tag("td", tag("div", _facts(own)), colspan=len(row), class_="facts"))
    head = [words("th", title, scope="col") for title in found.titles]
    # On a narrow screen as on a wide one the facts are read before the figures.
    whose = "All runs: " if sum(len(group.runs) for group in groups) > 1 else "This run: "
    above = tag("p", f"{words('b', whose)}{_facts(shared)}", class_="facts") if shared else ""
    below = "".join(words("p", remark, class_="note") for remark in remarks(groups))
    best = words("p", _BEST, class_="note") if found.best else ""
    return above + table(head, body, class_="compared") + best + below


_BEST = "Bold: its 95 % interval does not overlap with that of any other in the column."


def _facts(facts: dict[str, str]) -> str:
    """Facts beside each other, each with its name."""
    return " · ".join(f"{words('i', f'{key}:')} {escape(text)}" for key, text in facts.items())


def settings(values: dict[str, str]) -> str:
    """Settings by their dotted names."""
    rows = [words("td", key) + words("td", value) for key, value in sorted(values.items())]
    return table([], rows, class_="settings")


def table(head: Sequence[str], rows: Sequence[str], **attributes: object) -> str:
    """A table of ready cells; it scrolls sideways where the screen is narrow."""
    top = tag("thead", tag("tr", "".join(head))) if head else ""
    body = tag("tbody", "".join(tag("tr", row) for row in rows))
    inside = tag("table", top + body, **attributes)
    # What scrolls must be within reach of the keyboard.
    return tag("div", inside, class_="scroll", tabindex=0, role="group", aria_label="table")


def mean_cell(values: Sequence[float], form: Callable[[float | None], str]) -> str:
    """The mean of at least one seed, with its confidence interval where there are several that differ."""
    mean = float(np.mean(values))
    if len(values) > 1 and (half := float(half_width(np.array(values)))) > 0:
        return spread(mean, half, form)
    return form(mean)


def _values(group: Group, column: _Column) -> list[float]:
    found = (run.figure(*column.keys) for run in group.runs)
    return [value for value in found if value is not None]


def _cell(group: Group, column: _Column) -> str:
    values = _values(group, column)
    asked = sum(run.aimed for run in group.runs)
    if column.unreached and asked and not values:
        return "not yet" if all(map(is_unfinished, group.runs)) else "not reached"
    if not values:
        return MISSING
    if column.unreached and len(values) < asked:
        # The mean of those that arrived flatters; say how many it is.
        return f"{column.form(float(np.mean(values)))} ({len(values)} of {asked})"
    return mean_cell(values, column.form)


def _winners(groups: Sequence[Group], column: _Column) -> set[str]:
    """The one group whose 95 % interval lies on the better side of all others; a single seed has no interval.

    One of which a seed never arrived cannot win, and nobody can be said to be better than it unless none of its
    seeds arrived.
    """
    if column.best is None or len(groups) < 2:
        return set()
    found = {group.label: _interval(group, column) for group in groups}
    sign = 1.0 if column.best is min else -1.0
    for label, mine in found.items():
        others = [other for name, other in found.items() if name != label]
        if mine is not None and all(other is not None and _beats(mine, other, sign) for other in others):
            return {label}
    return set()


def _interval(group: Group, column: _Column) -> tuple[float, float] | None:
    """The ends of a group's interval: infinitely far where nobody met the target, None where it does not tell."""
    values = _values(group, column)
    if not values and column.unreached:
        return math.inf, math.inf
    found = mean_interval(values)
    return (found.low, found.high) if len(values) == len(group.runs) and found.tells else None


def _beats(mine: tuple[float, float], other: tuple[float, float], sign: float) -> bool:
    return mine[1] < other[0] if sign > 0 else mine[0] > other[1]


def _status(runs: Sequence[Run]) -> str:
    unfinished = sorted({str(run.summary.get("status", "done")) for run in runs} - {"done"})
    return f" [{', '.join(unfinished)}]" if unfinished else ""
