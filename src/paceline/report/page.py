"""The report: one HTML file about one or several runs, which needs nothing but a browser."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from paceline.errors import DataError
from paceline.report import carried, marks, spending, tables, timelines, topology
from paceline.report.pagedata import as_json, bar_charts, page_data
from paceline.report.runs import Group, Run, common_settings, group_runs, load_run, own_settings
from paceline.report.text import seconds, tag, words

_POLICY = "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; img-src data: blob:"
"""Nothing is fetched from anywhere, whatever the page may hold."""
_MARKED = (
    "Vertical lines: when a server or a link failed, in the first seed of each algorithm; what followed is below."
)
_MET = "A seed that has met its target stops. "
_ENDS = (
    "After some seeds have stopped, the line breaks, and a thinner one shows the mean of the rest; hover over it to"
    " see how many these are. Dots are where seeds end"
)
_DIAMOND = "; a diamond is their mean, the table’s figure"


def write_report(
    runs: Sequence[Path],
    out: Path,
    title: str | None = None,
    window: tuple[float, float] | None = None,
) -> Path:
    """Write the page about these run directories to ``out`` and return it; they are its title unless one is given.

    ``window`` is the stretch of virtual time that the timelines hold; by default the whole run, or as much of it as
    a page can carry.
    """
    unique = list({Path(path).resolve(): Path(path) for path in runs}.values())
    if not unique:
        raise DataError("no run to report on; give at least one run directory")
    loaded = [load_run(path) for path in unique]
    text = render(loaded, heading(loaded) if title is None else title, window)
    try:
        out.parent.mkdir(parents=True, exist_ok=True)
        out.write_bytes(text.encode("utf-8", "backslashreplace"))  # names of directories may be no text
    except OSError as problem:
        raise DataError(f"cannot write {out}: {problem.strerror}") from None
    return out


def heading(runs: Sequence[Run]) -> str:
    """Which algorithms on which data."""
    names, data = dict.fromkeys(run.algorithm for run in runs), common_settings(runs).get("dataset")
    return ", ".join(names) + (f" on {data}" if data else "")


def render(runs: Sequence[Run], title: str, window: tuple[float, float] | None = None) -> str:
    """The whole page as HTML text."""
    groups = group_runs(runs)
    packed, of_spans = _of_spans(groups, window)
    bars, problems = bar_charts(groups)
    data = page_data(groups, packed, bars)
    dry = all(run.dry for run in runs)
    learned = [_curves(groups, data, dry=dry), _decisions(groups)]
    # Of a dry run the schedule is the answer.
    parts = [*of_spans[:1], *learned, *of_spans[1:]] if dry else [*learned, *of_spans]
    main = [
        tag("section", words("h2", "Result", id="result") + tables.comparison(groups)),
        *(tag("section", part) for part in parts),
        *(tag("section", _bars(one)) for one in bars),
        *(tag("section", words("p", f"Not shown: {problem}.", class_="note")) for problem in problems),
        tag("section", _settings(runs, groups)),
    ]
    body = [
        tag("a", "Skip to the result", href="#result", class_="skip"),
        tag("header", words("h1", title) + words("p", _subtitle(runs, groups), class_="note") + _THEMES),
        tag("noscript", words("p", _NO_SCRIPT, class_="note")),
        tag("main", "\n".join(part for part in main if part != "<section></section>")),
        tag("div", id="tip", role="status", aria_live="polite"),
        tag("script", as_json(data), type="application/json", id="page-data"),
        tag("script", carried.charts()),
        tag("script", carried.script()),
    ]
    return f'<!doctype html>\n<html lang="en"><head>{_head(title)}</head>\n<body>{chr(10).join(body)}</body></html>\n'


def _of_spans(groups: Sequence[Group], window: tuple[float, float] | None) -> tuple[list[dict[str, Any]], list[str]]:
    """The timelines' data and all parts that are made of spans; where these are damaged, words that say so."""
    try:
        kept = [found for group in groups if (found := timelines.kept(group)) is not None]
        packed = timelines.packed(kept, window)
        drawn = [(one.label, one.run) for one in kept]
        return packed, [timelines.section(kept, packed), topology.section(drawn), spending.section(drawn)]
    except DataError as problem:
        told = words("p", f"Spans cannot be shown: {problem}.", class_="note")
        return [], [words("h2", "Who waits for whom", id="timeline") + told]


def _head(title: str) -> str:
    return (
        '<meta charset="utf-8">'
        f'<meta http-equiv="Content-Security-Policy" content="{_POLICY}">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        + words("title", title)
        + tag("style", carried.style())
    )


_THEMES = tag(
    "div",
    "".join(
        words("button", name, type="button", data_theme_choice=value, aria_pressed=str(value == "auto").lower())
        for value, name in (("auto", "as the system"), ("light", "light"), ("dark", "dark"))
    ),
    class_="choices themes",
    role="group",
    aria_label="colours",
)
_NO_SCRIPT = "Charts and timelines need JavaScript, which is off here; all tables are below."


def _subtitle(runs: Sequence[Run], groups: Sequence[Group]) -> str:
    seeds = sorted({run.seed for run in runs})
    dataset = common_settings(runs).get("dataset")
    parts = [
        f"{len(runs)} run{'s' * (len(runs) != 1)}",
        f"{len(groups)} algorithm{'s' * (len(groups) != 1)}",
        f"seed{'s' * (len(seeds) != 1)} {', '.join(map(str, seeds))}",
    ]
    text = ", ".join(parts) + (f"; data: {dataset}" if dataset else "")
    if all(run.dry for run in runs):
        text += "; a dry run: schedule and costs, nothing was learned"
    several = any(len(group.runs) > 1 for group in groups)
    return text + ("; ± and bands are 95 % confidence intervals of the mean over seeds" if several else "")


def _curves(groups: Sequence[Group], data: dict[str, Any], *, dry: bool) -> str:
    """The place of the curves, which the script fills."""
    title = words("h2", "What it costs" if dry else "Learning and its cost", id="curves")
    if not data["measures"]:
        return title + words("p", "Nothing was measured.", class_="note")
    failed = words("p", _MARKED, class_="note") if marks.of_groups(groups) else ""
    asked = any(run.aimed for group in groups for run in group.runs)
    ends = f"{_MET if asked else ''}{_ENDS}{_DIAMOND if asked else ''}."
    several = words("p", ends, class_="note") if any(len(group.runs) > 1 for group in groups) else ""
    return title + several + failed + tag("div", id="curve-chart", class_="chart-box")


def _bars(one: dict[str, Any]) -> str:
    box = tag("div", class_="chart-box", data_bars=one["id"])
    return words("h2", one["title"]) + words("p", one["text"], class_="note") + box


def _decisions(groups: Sequence[Group]) -> str:
    """What algorithms decided for themselves, seed by seed; the first seed's is open."""
    parts = []
    for group in groups:
        for place, run in enumerate(run for run in group.runs if run.notes):
            lines = [words("li", f"t = {seconds(note.time)}: {note.text}") for note in run.notes]
            title = words("summary", f"{group.label}, seed {run.seed}")
            opened = {"open": ""} if place == 0 else {}
            parts.append(tag("details", title + tag("ul", "".join(lines), class_="decisions"), **opened))
    return words("h2", "What was decided, and why", id="decisions") + "".join(parts) if parts else ""


def _settings(runs: Sequence[Run], groups: Sequence[Group]) -> str:
    common = common_settings(runs)
    parts = [words("h2", "Command and settings", id="settings"), *_commands(runs)]
    parts.append(tag("details", words("summary", "All runs") + tables.settings(common)))
    for group in groups:
        own = own_settings(group, common)
        if own:
            parts.append(tag("details", words("summary", group.label) + tables.settings(own)))
    return "".join(parts)


def _commands(runs: Sequence[Run]) -> list[str]:
    """What was typed to make these runs, each command once; versions are said where they are one and the same."""
    typed = dict.fromkeys(run.command for run in runs if run.command)
    versions = dict.fromkeys(", ".join(f"{k} {v}" for k, v in run.versions.items()) for run in runs if run.versions)
    parts = [tag("pre", words("code", command), tabindex=0, class_="command") for command in typed]
    if not parts:
        parts = [words("p", "These runs were not made by a command, or did not write it down.", class_="note")]
    return parts + [words("p", f"Made with {text}.", class_="note") for text in versions]
