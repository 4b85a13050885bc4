"""The page that follows runs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from urllib.parse import urlencode

from paceline.report.text import tag, words
from paceline.ui.labels import Labelled, labelled
from paceline.ui.listing import Listed
from paceline.ui.shell import scrolled, shell

AXES = {"1": "virtual time", "0": "rounds", "2": "visits", "3": "traffic"}
MARKS = {"5": "accuracy", "6": "loss", "4": "idle share"}
"""What can be drawn over what, by its place in a row of news."""
HEADS = ("run", "status", "round", "virtual time", "visits", "traffic", "idle", "accuracy", "loss")
READ = "Point at the chart, or use the arrow keys on it, to read values."
SWATCH = (
    '<svg class="swatch" width="34" height="10" aria-hidden="true"><line x1="1" y1="5" x2="33" y2="5"></line></svg>'
)


def live(runs: Sequence[Listed]) -> str:
    """Curves that grow while the runs run, and below them how each stands."""
    whole = f"/compare?{urlencode([('run', run.name) for run in runs])}"
    parts = [
        tag("div", words("label", "Show", for_="y") + _select("y", MARKS)),
        tag("div", words("label", "over", for_="x") + _select("x", AXES)),
        words("a", "The whole report", href=whole, class_="button"),
        words("span", "", id="state", role="status"),
    ]
    head = tag("thead", tag("tr", "".join(words("th", text, scope="col") for text in HEADS)))
    rows = "".join(map(_followed, labelled(runs)))
    body = [
        tag("div", "".join(parts), class_="bar tools"),
        tag("figure", tag("div", id="chart") + words("figcaption", READ, id="reading", class_="note")),
        scrolled(tag("table", head + tag("tbody", rows), id="standing"), "How the runs stand"),
        *(_settings(run) for run in runs if len(runs) == 1),
    ]
    title = runs[0].name if len(runs) == 1 else f"{len(runs)} runs"
    return shell(title, "".join(body), here="", script="live.js")


def _select(name: str, options: Mapping[str, str]) -> str:
    return tag("select", "".join(words("option", text, value=key) for key, text in options.items()), id=name)


def _followed(one: Labelled) -> str:
    look = one.look
    cells = tag("th", SWATCH + words("span", one.label), scope="row") + "<td></td>" * 8
    dash = " ".join(f"{length:g}" for length in look.dash)
    return tag(
        "tr",
        cells,
        data_run=one.run.name,
        data_label=one.label,
        data_colour=look.colour,
        data_dark=look.dark,
        data_dash=dash,
        data_goal="" if one.run.goal is None else one.run.goal,
    )


def _settings(run: Listed) -> str:
    rows = "".join(tag("tr", words("td", key) + words("td", value)) for key, value in run.settings.items())
    return tag("details", words("summary", "Settings") + tag("table", tag("tbody", rows), class_="settings"))
