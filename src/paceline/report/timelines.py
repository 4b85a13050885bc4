"""The part of the page about who waits for whom: its frame, its tables, and the spans that its script draws."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from paceline.report import overlap, tables
from paceline.report.packing import MOST_SPANS, pack
from paceline.report.parties import Parties, read_parties
from paceline.report.runs import Group, Run
from paceline.report.spans import NO_SITE, Waiting, read_waiting
from paceline.report.text import number, percent, seconds, site, tag, words

CAUSES_SHOWN = 6
_HOW = (
    "From far it is a heat map, from near each bar is one act. Click into it, then turn the wheel or press + and − to"
    " zoom in time (with Shift in devices), drag or press the arrows to move. Point at a wait and its cause lights"
    " up; click to keep both in sight."
)


@dataclass(frozen=True, kw_only=True)
class Kept:
    """A group of which some seed kept its spans: that seed is drawn."""

    label: str
    run: Run
    spans: Path
    parties: tuple[Parties, ...]
    """Of every seed that kept spans, the one drawn first."""


def kept(group: Group) -> Kept | None:
    """The seed of a group that is drawn; None where none kept its spans."""
    runs = [(run, run.spans) for run in group.runs if run.spans is not None]
    if not runs:
        return None
    parties = tuple(found for _, spans in runs if (found := read_parties(spans)) is not None)
    return Kept(label=group.label, run=runs[0][0], spans=runs[0][1], parties=parties)


def packed(found: Sequence[Kept], window: tuple[float, float] | None = None) -> list[dict[str, Any]]:
    """The timelines of these runs for the page's script; those without spans in this time are left out."""
    most = MOST_SPANS // max(len(found), 1)
    timelines = [pack(one.run, one.label, most, window) for one in found]
    return [one | {"told": held(one)} for one in timelines if one is not None]


def section(found: Sequence[Kept], timelines: Sequence[dict[str, Any]]) -> str:
    """Shares of time, the frame of the timeline, and the causes of waiting."""
    title = words("h2", "Who waits for whom", id="timeline")
    if not found:
        return title + words("p", "These runs kept no spans.", class_="note")
    shares = [(one.label, one.parties) for one in found if one.parties]
    used = words("h2", "How much of the time servers and devices are used") + overlap.shares(shares) if shares else ""
    if timelines:
        frame = words("p", _HOW, class_="note no-print") + tag("div", id="timeline-box", class_="timeline-box")
    else:
        frame = words("p", "It has no spans in this time.", class_="note")
    causes = words("h3", "Waiting and its causes in whole runs") + "".join(
        _waiting_details(one, alone=len(found) == 1) for one in found
    )
    return title + frame + causes + used


def held(one: dict[str, Any]) -> str:
    """What of a run the timeline holds."""
    text = f"{one['label']}, seed {one['seed']}, {len(one['sites']):,} sites: virtual time"
    text += f" {number(one['begin'])} to {seconds(one['end'])}"
    if one["missing"]:
        return (
            f"{text}, the first {one['count']:,} of the {one['count'] + one['missing']:,} spans in it: more begin at"
            " one instant than a page carries. A site without a bar may have been busy. Tables are of the whole run."
        )
    if one["whole"]:
        return f"{text}, all {one['count']:,} spans of the run."
    return (
        f"{text}, {one['count']:,} of the run’s {one['of']:,} spans: a page carries {MOST_SPANS:,} at most, so it is"
        " a whole stretch of time from which nothing is left out. Tables are of the whole run."
    )


def _waiting_details(one: Kept, *, alone: bool) -> str:
    waiting = read_waiting(one.spans)
    shares, waits = overlap.details(one.parties[0]) if one.parties else "", ""
    if waiting.total:
        waits = causes(waiting, several=bool(one.parties) and one.parties[0].several)
    title = words("summary", f"{one.label}, seed {one.run.seed}")
    text = words("p", _waiting_text(one.run, waiting.total), class_="note")
    opened = {"open": ""} if alone else {}
    return tag("details", title + text + overlap.beside(shares, waits), **opened)


def _waiting_text(run: Run, waited: float) -> str:
    share = run.figure("idle_share")
    text = f"Waiting in the whole run: {seconds(waited)} over all sites"
    return text + (f"; the devices’ idle share is {percent(share)}." if share is not None else ".")


def causes(waiting: Waiting, *, several: bool = False) -> str:
    """Who was waited for longest, with the share of all waiting; ``several`` servers are told apart."""
    head = [words("th", title, scope="col") for title in ("waited for", "time waited", "share of all waiting")]
    body = []
    for index, length in waiting.causes[:CAUSES_SHOWN]:
        share = length / waiting.total if waiting.total else 0.0
        meter = tag("span", tag("i", style=f"width:{100 * share:.1f}%"), class_="meter", aria_hidden="true")
        name = "no cause recorded" if index == NO_SITE else site(index, several=several)
        cells = (
            words("td", name),
            words("td", seconds(length)),
            tag("td", f"{percent(share)} {meter}"),
        )
        body.append("".join(cells))
    return tables.table(head, body)
