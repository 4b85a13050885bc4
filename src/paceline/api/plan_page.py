"""The page of a plan of methods: what to choose, all figures, what is not known and what was assumed."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from paceline.plans.methods import GROUPS, Candidate, MethodPlan
from paceline.plans.methods_dry import Group
from paceline.plans.methods_reasons import absence_rule, assumptions, command, recommend, unknown
from paceline.report.sheet import sheet
from paceline.report.tables import table
from paceline.report.text import MISSING, energy, number, percent, seconds, size, tag, words

TITLES = ("a\nround", "visits\na round", "a\nvisit", "traffic\na visit", "energy\na visit", "idle", "break-\neven")
MEANINGS = (
    "A visit is one local training of one device; its time is virtual time over visits, so that methods whose rounds"
    " differ can be compared. Idle is the share of the time in which devices that took part waited for somebody."
    " Break-even: the method reaches an accuracy sooner than FedAvg with as many devices at once, as long as it needs"
    " less than so many times FedAvg’s visits for it."
)


def group_title(plan: MethodPlan, group: Group) -> str:
    """Who is at work in the methods of a group."""
    if group == "some":
        return f"{plan.participants} devices at a time"
    return f"all {plan.clients} at once" if group == "all" else "peers, no server"


def cells(one: Candidate) -> list[str]:
    """A method's figures as text, in the order of the titles."""
    figures = one.figures
    return [
        seconds(float(f"{figures.round_seconds:.3g}")),
        number(figures.round_visits, 3),
        seconds(float(f"{figures.visit_seconds:.3g}")),
        size(figures.visit_bytes),
        energy(figures.visit_joules),
        percent(figures.idle_share),
        MISSING if one.break_even != one.break_even else f"x{one.break_even:.2g}",
    ]


def write_plan(plan: MethodPlan, out: Path) -> Path:
    """Write the page to a new file and return it."""
    with out.open("x", encoding="utf-8") as file:
        file.write(render_plan(plan))
    return out


def render_plan(plan: MethodPlan) -> str:
    """The page as HTML text."""
    first, *more = recommend(plan)
    body = [
        words("h2", "Recommended"),
        tag("p", words("strong", first)),
        _list(more),
        words("h2", "Methods"),
        _table(plan),
        words("p", MEANINGS, class_="note"),
        words("p", absence_rule(plan), class_="note"),
        words("p", _left_out(plan), class_="note"),
        words("h2", "What is not known"),
        _list(unknown(plan)),
        words("p", "To find out:"),
        tag("pre", words("code", command(plan)), class_="command", style="white-space: pre-wrap"),
        words("h2", "What was assumed"),
        _list(assumptions(plan)),
    ]
    note = (
        f"{plan.clients} devices of {plan.fleet.path}; {plan.settings.model} for {plan.settings.dataset}; dry runs:"
        " schedules and costs are simulated, nothing is learned"
    )
    return sheet("Methods for a fleet", note, "\n".join(body))


def _table(plan: MethodPlan) -> str:
    head = [words("th", title.replace("-\n", "-").replace("\n", " ")) for title in ("method", *TITLES)]
    head.append(words("th", "to run it", class_="words"))
    rows = []
    for group in GROUPS:
        if found := plan.group(group):
            rows.append(words("th", group_title(plan, group), colspan=len(head), scope="rowgroup"))
            rows += [_row(one, chosen=one is plan.best) for one in found]
    return table(head, rows)


def _row(one: Candidate, *, chosen: bool) -> str:
    label = tag("td", words("strong", one.method.label) if chosen else words("span", one.method.label))
    best = {"class_": "best"} if chosen else {}
    return (
        label
        + "".join(words("td", cell, **best) for cell in cells(one))
        + tag("td", words("code", one.name), class_="words")
    )


def _left_out(plan: MethodPlan) -> str:
    left = "; ".join(f"{one.name} ({one.reason})" for one in plan.skipped)
    return f"Left out: {left}." if left else ""


def _list(lines: Iterable[str]) -> str:
    return tag("ul", "".join(words("li", line) for line in lines))
