"""The page with the list of runs."""

from __future__ import annotations

import time
from collections.abc import Sequence
from itertools import groupby
from urllib.parse import urlencode

from paceline.report.text import MISSING, number, percent, seconds, size, tag, words
from paceline.ui.filtering import SORTS
from paceline.ui.listing import Listed
from paceline.ui.shell import field, scrolled, shell, void

HINT = "fedavg, clients=100, lr<0.1, status=running"
FIGURES = ("accuracy", "to target", "virtual time", "rounds", "visits", "traffic", "idle", "written")
HEADS = ("run", "status", "seed", *FIGURES)


def index(root: str, found: str, asked: str, sort: str) -> str:
    """All runs, a filter, and what can be done with those that are chosen."""
    sorts = "".join(
        words("option", text, value=name, **({"selected": ""} if name == sort else {}))
        for name, text in SORTS.items()
    )
    search = tag(
        "form",
        tag("div", words("label", "Show only", for_="q") + field("q", asked, placeholder=HINT, type="search"))
        + tag("div", words("label", "Order", for_="sort") + tag("select", sorts, id="sort", name_="sort"))
        + words("button", "Show", type="submit"),
        action="/", method="get", role="search", class_="bar", id="search",
    )  # fmt: skip
    buttons = tag(
        "div",
        words("button", "Compare", type="submit", formaction="/compare", class_="first")
        + words("button", "Follow", type="submit", formaction="/live")
        + words("span", "no run is chosen", id="count", role="status"),
        class_="bar actions",
    )
    runs = tag("form", buttons + tag("div", found, id="runs"), action="/compare", method="get", id="chosen")
    note = words("p", f"All runs below {root}. Choose some to compare or to follow them.", class_="note")
    return shell("Runs", note + search + runs, here="/", script="list.js")


def table(runs: Sequence[Listed], of: int, *, cut: bool, grouped: bool) -> str:
    """The list of runs, those of one comparison together unless another order is asked for."""
    more = " Not all could be listed: there are too many directories." if cut else ""
    said = words("p", f"{len(runs)} of {of} runs.{more}", class_="note")
    if not runs:
        empty = "No run is like that." if of else "There is no run yet. `paceline run fedavg` makes one."
        return said + words("p", empty)
    boxes = tag("th", words("span", "chosen", class_="hidden"), scope="col")
    head = tag("thead", tag("tr", boxes + "".join(words("th", text, scope="col") for text in HEADS)))
    if not grouped:
        return said + scrolled(tag("table", head + tag("tbody", "".join(map(_row, runs)))), "List of runs")
    order = list(dict.fromkeys(run.folder for run in runs))
    together = sorted(runs, key=lambda run: (order.index(run.folder), run.name))
    bodies = [_group(folder, list(some)) for folder, some in groupby(together, key=lambda run: run.folder)]
    return said + scrolled(tag("table", head + "".join(bodies)), "List of runs")


def _group(folder: str, runs: Sequence[Listed]) -> str:
    rows = "".join(map(_row, runs))
    if not folder or len(runs) == 1:
        return tag("tbody", rows)
    name = f"all {len(runs)} runs in {folder}"
    box = void("input", type="checkbox", class_="all", aria_label=name)
    head = tag(
        "tr",
        tag("td", box) + words("th", f"{folder}, {len(runs)} runs", colspan=len(HEADS), scope="rowgroup"),
        class_="group",
    )
    return tag("tbody", head + rows)


def _row(run: Listed) -> str:
    damaged = run.status == "damaged"
    box = "" if damaged else void("input", type="checkbox", name_="run", value=run.name, aria_label=run.name)
    name = run.name.rpartition("/")[2] or "."
    link = words("span", name) if damaged else words("a", name, href=f"/live?{urlencode({'run': run.name})}")
    if run.problem:
        link += words("small", run.problem, class_="problem")
    figures = run.figures
    cells = [
        tag("td", box),
        tag("td", link, title=run.name),
        tag("td", words("span", run.status, class_=f"status {run.status}")),
        words("td", MISSING if run.seed is None else run.seed),
        words("td", percent(figures.get("accuracy"))),
        words("td", seconds(run.reached)),
        words("td", seconds(figures.get("time"))),
        words("td", number(figures.get("round"), 7)),
        words("td", number(figures.get("visits"), 9)),
        words("td", size(figures.get("bytes"))),
        words("td", percent(figures.get("idle_share"))),
        words("td", time.strftime("%Y-%m-%d %H:%M", time.localtime(run.changed))),
    ]
    return tag("tr", "".join(cells))
