"""Lines of the trace event format (JSON), which Perfetto and Chrome read."""

from __future__ import annotations

import json
import math
from typing import Any

from paceline.report.spans import NO_SITE
from paceline.report.text import site as site_name
from paceline.tracing.causes import Slice

_encode = json.JSONEncoder(allow_nan=False, separators=(",", ":")).encode
_WHOM = {"send": "send to ", "receive": "receive from ", "wait": "wait for "}


def nanoseconds(seconds: float) -> int:
    """Virtual seconds as whole nanoseconds, the finest that viewers keep: so neighbours touch and never overlap."""
    return round(seconds * 1e9)


def micros(time: int) -> str:
    """Nanoseconds as the format's microseconds, exactly."""
    return f"{time // 1000}.{time % 1000:03d}"


def named(kind: str, pid: int, tid: int, name: str, rank: int) -> list[str]:
    """The name of a process or a thread, and where it stands among the others."""
    head = f'"ph":"M","pid":{pid},"tid":{tid}'
    return [
        f'{{{head},"name":"{kind}_name","args":{{"name":{_encode(name)}}}}}',
        f'{{{head},"name":"{kind}_sort_index","args":{{"sort_index":{rank}}}}}',
    ]


def span_event(pid: int, one: Slice, round: int, costs: dict[str, float], *, several: bool) -> str:
    """A span as a complete event; costs that are 0 or unknown are left out."""
    name = one.kind
    if one.kind in _WHOM and one.peer != NO_SITE:
        name = _WHOM[one.kind] + site_name(one.peer, several=several)
    told = "".join(f',"{key}":{value!r}' for key, value in costs.items() if value and math.isfinite(value))
    return (
        f'{{"ph":"X","cat":{_encode(one.kind)},"name":{_encode(name)},"pid":{pid},"tid":{one.tid},'
        f'"ts":{micros(one.start)},"dur":{micros(one.end - one.start)},"args":{{"round":{round}{told}}}}}'
    )


def flow_events(number: int, cause: Slice, cause_pid: int, wait: Slice, wait_pid: int) -> list[str]:
    """An arrow from what caused a wait to the wait.

    An end is bound to the span around it. The arrow ends where both were under way, and later than it begins:
    of two ends at the same instant, viewers may take the second for the first.
    """
    when = max(cause.start + 1, wait.start)
    head = f'"cat":"cause","name":"keeps waiting","id":{number}'
    return [
        f'{{"ph":"s",{head},"pid":{cause_pid},"tid":{cause.tid},"ts":{micros(cause.start)}}}',
        f'{{"ph":"f","bp":"e",{head},"pid":{wait_pid},"tid":{wait.tid},"ts":{micros(when)}}}',
    ]


def counter_event(pid: int, time: int, name: str, value: float) -> str:
    """A figure that changes with time."""
    return f'{{"ph":"C","name":{_encode(name)},"pid":{pid},"ts":{micros(time)},"args":{{"value":{value!r}}}}}'


def note_event(pid: int, time: int, text: str, kind: str) -> str:
    """Something that was decided, or that failed."""
    place = f'"pid":{pid},"tid":{pid},"ts":{micros(time)}'
    return f'{{"ph":"i","s":"p","cat":{_encode(kind)},"name":{_encode(text)},{place}}}'


def opening(about: dict[str, Any]) -> str:
    """The beginning of the file, up to the first event."""
    return f'{{"displayTimeUnit":"ms","otherData":{_encode(about)},"traceEvents":[\n'
