"""The report: one HTML file about one or several runs, which needs nothing but a browser."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from paceline.errors import DataError
from paceline.report import charts, distributions, marks, overlap, tables
from paceline.report.gantt import gantt, key
from paceline.report.parties import Parties, read_parties
from paceline.report.runs import Group, Run, common_settings, group_runs, load_run, own_settings
from paceline.report.spans import Window, read_waiting, read_window, read_windows
from paceline.report.style import PAGE_STYLE, SCRIPT, STYLE
from paceline.report.text import number, percent, seconds, size, tag, words

_MARKED = (
    "Vertical lines: when a server or a link failed, in the first seed of each algorithm; what followed is above."
)


def write_report(
    runs: Sequence[Path],
    out: Path,
    title: str = "Paceline report",
    window: tuple[float, float] | None = None,
) -> Path:
    """Write the page about these run directories to ``out`` and return it.

    ``window`` is the stretch of virtual time the Gantt charts show; by default the first few rounds.
    """
    unique = list({Path(path).resolve(): Path(path) for path in runs}.values())
    if not unique:
        raise DataError("no run to report on; give at least one run directory")
    text = render([load_run(path) for path in unique], title, window)
    try:
        out.parent.mkdir(parents=True, exist_ok=True)
        out.write_text(text, encoding="utf-8")
    except OSError as problem:
        raise DataError(f"cannot write {out}: {problem.strerror}") from None
    return out


def render(runs: Sequence[Run], title: str, window: tuple[float, float] | None = None) -> str:
    """The whole page as HTML text."""
    groups = group_runs(runs)
    body = [
        words("h1", title),
        words("p", _subtitle(runs, groups), class_="note"),
        tables.comparison(groups),
        _decisions(groups),
        _curves(groups),
        *_timelines(groups, window),
        distributions.section(groups),
        _settings(runs, groups),
        tag("div", id="tip"),
        tag("script", SCRIPT),
    ]
    head = (
        '<meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        + words("title", title)
        + tag("style", STYLE + PAGE_STYLE)
    )
    return f'<!doctype html>\n<html lang="en"><head>{head}</head>\n<body>{chr(10).join(body)}</body></html>\n'


def _subtitle(runs: Sequence[Run], groups: Sequence[Group]) -> str:
    seeds = sorted({run.seed for run in runs})
    dataset = common_settings(runs).get("dataset")
    parts = [
        f"{len(runs)} run{'s' * (len(runs) != 1)}",
        f"{len(groups)} algorithm{'s' * (len(groups) != 1)}",
        f"seed{'s' * (len(seeds) != 1)} {', '.join(map(str, seeds))}",
    ]
    text = ", ".join(parts) + (f"; data: {dataset}" if dataset else "")
    several = any(len(group.runs) > 1 for group in groups)
    return text + ("; ± and bands are 95 % confidence intervals of the mean over seeds" if several else "")


_AXES: tuple[tuple[str, str, Callable[[float], str]], ...] = (
    ("time", "virtual time (s)", number),
    ("bytes", "traffic", size),
    ("round", "rounds", number),
)


def _curves(groups: Sequence[Group]) -> str:
    """Accuracy over all that it may cost; sparsity over rounds, where models are sparse."""
    failed = marks.of_groups(groups)
    shown = [
        charts.line_chart(
            _series(groups, column, "accuracy"),
            x_label=label,
            y_label="accuracy",
            x_form=form,
            target=_target(groups),
            marks=failed if column == "time" else [],
        )
        for column, label, form in _AXES
    ]
    sparse = _series(groups, "round", "sparsity")
    if any(len(one.x) for one in sparse):
        shown.append(charts.line_chart(sparse, x_label="rounds", y_label="share of zeros"))
    return (
        words("h2", "Accuracy over virtual time, traffic and rounds")
        + (words("p", _MARKED, class_="note") if failed else "")
        + charts.legend([group.label for group in groups])
        + tag("div", "".join(tag("div", one) for one in shown), class_="pair" if len(shown) % 2 == 0 else "trio")
    )


def _series(groups: Sequence[Group], x: str, y: str) -> list[charts.Series]:
    """One line for each group; of those that measured no such thing an empty one, so that colours stay."""
    return [
        charts.mean_series(group.label, [(run.metrics[x], run.metrics[y]) for run in group.runs], within=(0.0, 1.0))
        for group in groups
    ]


def _decisions(groups: Sequence[Group]) -> str:
    """What algorithms decided for themselves, seed by seed; the first seed's is open."""
    parts = []
    for group in groups:
        for place, run in enumerate(run for run in group.runs if run.notes):
            lines = [words("li", f"t = {seconds(note.time)}: {note.text}") for note in run.notes]
            title = words("summary", f"{group.label}, seed {run.seed}")
            opened = {"open": ""} if place == 0 else {}
            parts.append(tag("details", title + tag("ul", "".join(lines), class_="decisions"), **opened))
    return words("h2", "What was decided, and why") + "".join(parts) if parts else ""


def _target(groups: Sequence[Group]) -> float | None:
    """The accuracy all runs aim at, if it is one and the same."""
    targets = {run.figure("target", "accuracy") for group in groups for run in group.runs}
    return targets.pop() if len(targets) == 1 else None


@dataclass(frozen=True, kw_only=True)
class _Kept:
    """A group of which some seed kept its spans: that seed is drawn."""

    label: str
    run: Run
    spans: Path
    parties: tuple[Parties, ...]
    """Of every seed that kept spans, the one drawn first."""


def _timelines(groups: Sequence[Group], window: tuple[float, float] | None) -> list[str]:
    """Who did what when; where spans are damaged the page says so, and has all the rest."""
    try:
        return _drawn(groups, window)
    except DataError as problem:
        return [words("h2", "Who waits for whom"), words("p", f"Spans cannot be shown: {problem}.", class_="note")]


def _drawn(groups: Sequence[Group], window: tuple[float, float] | None) -> list[str]:
    kept = [found for group in groups if (found := _kept(group)) is not None]
    if not kept:
        return [words("h2", "Who waits for whom"), words("p", "These runs kept no spans.", class_="note")]
    windows = read_windows([one.spans for one in kept], *(window or (None, None)))
    same = "All charts show the same stretch of virtual time. " if len(kept) > 1 else ""
    shares = [(one.label, one.parties) for one in kept if one.parties]
    return [
        *(
            [words("h2", "How much of the time servers and devices are used"), overlap.shares(shares)]
            if shares
            else []
        ),
        words("h2", "Who waits for whom"),
        words("p", f"{same}Point at a bar for its cost, and at a wait for its cause.", class_="note"),
        key(),
        *(_timeline(one, found, more=window is None) for one, found in zip(kept, windows, strict=True)),
        words("h3", "Waiting and its causes in whole runs"),
        *(_waiting_details(one) for one in kept),
    ]


def _kept(group: Group) -> _Kept | None:
    runs = [(run, run.spans) for run in group.runs if run.spans is not None]
    if not runs:
        return None
    parties = tuple(found for _, spans in runs if (found := read_parties(spans)) is not None)
    return _Kept(label=group.label, run=runs[0][0], spans=runs[0][1], parties=parties)


def _timeline(one: _Kept, window: Window | None, *, more: bool) -> str:
    """The chart of this time, and one ``more`` of the first failure where that is at another."""
    title = words("h3", one.label)
    if window is None:
        return title + words("p", "It has no spans in this time.", class_="note")
    failed = marks.failures(one.run)
    shown = title + _chart(one, window, failed)
    if more and failed and failed[0].time > window.end:
        when, length = failed[0].time, window.end - window.begin
        around = read_window(one.spans, when - length / 3, when + 2 * length / 3, len(window.sites))
        shown += _chart(one, around, failed, "around the first failure, ") if around is not None else ""
    return shown


def _chart(one: _Kept, window: Window, failed: Sequence[marks.Mark], where: str = "") -> str:
    end = max(one.run.figure("time") or 0.0, one.parties[0].end)
    return words("p", _caption(one.run, window, end, where), class_="note") + gantt(window, end, failed)


def _waiting_details(one: _Kept) -> str:
    waiting = read_waiting(one.spans)
    shares, waits = overlap.details(one.parties[0]) if one.parties else "", ""
    if waiting.total:
        waits = tables.causes(waiting, several=bool(one.parties) and one.parties[0].several)
    title = words("summary", f"{one.label}, seed {one.run.seed}")
    text = words("p", _waiting_text(one.run, waiting.total), class_="note")
    return tag("details", title + text + overlap.beside(shares, waits), open="")


def _caption(run: Run, window: Window, end: float, where: str = "") -> str:
    text = f"Seed {run.seed}, {where}virtual time {number(window.begin)} to {seconds(window.end)}"
    if window.active > len(window.sites):
        text += f"; the {len(window.sites)} busiest of {window.active} active sites"
    if not window.instants:
        text += "; what took no time is left out"
    if end < window.end:
        text += f"; the run ends at {seconds(end)}, and what had not ended by then has no bar"
    return f"{text}."


def _waiting_text(run: Run, waited: float) -> str:
    share = run.figure("idle_share")
    text = f"Waiting in the whole run: {seconds(waited)} over all sites"
    return text + (f"; the devices’ idle share is {percent(share)}." if share is not None else ".")


def _settings(runs: Sequence[Run], groups: Sequence[Group]) -> str:
    common = common_settings(runs)
    parts = [
        words("h2", "Settings"),
        tag("details", words("summary", "All runs") + tables.settings(common), open=""),
    ]
    for group in groups:
        own = own_settings(group, common)
        if own:
            parts.append(tag("details", words("summary", group.label) + tables.settings(own)))
    return "".join(parts)
