"""What decided a comparison: why each run stopped, who took part, over which links, who was away, which model."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from paceline.report.runs import Group, Run
from paceline.report.text import number

_UNITS = {"rate": "Mbit/s", "seconds": "s a transfer"}
_RULES = {"skip": "who is away is left out", "wait": "who is away is waited for"}


def facts(group: Group) -> dict[str, str]:
    """What a reader must know of a group before its figures, by name."""
    run = group.runs[0]
    return {
        "stopped": stopped(group),
        "participants": participants(run),
        "links": links(run),
        "absence": absence(run),
        "model": model(run),
    }


def shared_facts(groups: Sequence[Group]) -> dict[str, str]:
    """The facts on which all groups agree; why runs stopped is always told of each."""
    first, *rest = [facts(group) for group in groups]
    return {key: text for key, text in first.items() if key != "stopped" and all(o[key] == text for o in rest)}


def stopped(group: Group) -> str:
    """Why the runs of a group stopped, and how many for each reason."""
    reasons = Counter(reason(run) for run in group.runs)
    if len(group.runs) == 1:
        return next(iter(reasons))
    return "; ".join(f"{count} of {len(group.runs)} {why}" for why, count in reasons.most_common())


def reason(run: Run) -> str:
    """Why one run stopped."""
    status, ended = str(run.summary.get("status", "done")), run.summary.get("ended")
    if status in ("running", "interrupted"):
        return "still running, as far as its files tell" if status == "running" else "interrupted"
    if status.startswith("failed"):
        return status
    if run.figure("target", "time") is not None:
        asked = [f"{key} {number(level)}" for key in ("accuracy", "loss") if (level := run.figure("target", key))]
        return f"met the target ({' or '.join(asked)})"
    if isinstance(ended, str) and ended:
        return f"ended early: {ended}"
    for key, words in (("time", "its time was over"), ("visits", "it had made its visits")):
        most = run.figure("until", key)
        if most is not None and (run.figure(key) or 0.0) >= most:
            return f"{words} ({number(most)}{' s' * (key == 'time')})"
    done = f"made all {number(run.figure('rounds'))} rounds"
    return f"{done} without meeting the target" if isinstance(run.summary.get("target"), dict) else done


def participants(run: Run) -> str:
    """How many clients take part in a round, or at a time where there is no such thing as a round for all."""
    clients = run.settings.get("clients") or run.settings.get("fleet.size") or "unknown"
    clients = f"{int(clients):,}" if clients.isdecimal() and len(clients) < 16 else clients
    width, length, asked, busy = (_option(run, key) for key in ("width", "length", "participants", "concurrency"))
    if width is not None and length is not None:
        return f"{width} sequences of {length} clients a round, {clients} in all"
    if asked is not None and (_option(run, "topology") or _option(run, "servers")):
        return f"{asked} clients of each server at a time, {clients} in all"
    if busy is not None and busy != run.settings.get("clients"):
        return f"{busy} of {clients} clients at a time"
    if asked is None or asked == run.settings.get("clients"):
        return f"all {clients} clients"
    free = "options.width" in run.settings and width is length is None  # the structure is chosen by itself
    return f"{'up to ' * free}{asked} of {clients} clients a round"


def _option(run: Run, name: str) -> str | None:
    value = run.settings.get(f"options.{name}", "null")
    return None if value == "null" else value


def links(run: Run) -> str:
    """What transfers cost in time."""
    names = ("file", "links", "latency", "server_mbps", "sharing", "backbone")
    of = {key: run.settings.get(f"fleet.{key}", "") for key in names}
    if of["file"]:
        return f"those of {of['file']}"
    parts = [_way(of["links"])]
    if of["latency"] not in ("", "0.0", "0", "null"):
        parts.append(f"latency {of['latency']} s")
    if of["server_mbps"] not in ("", "null"):
        parts.append(f"server {of['server_mbps']} Mbit/s")
    if of["sharing"] not in ("", "none"):
        parts.append(f"shared ({of['sharing']})")
    if of["backbone"] not in ("", "free"):
        parts.append(f"backbone {of['backbone']}")
    return ", ".join(parts)


def _way(links: str) -> str:
    """The setting ``fleet.links`` in words, where it is a simple one."""
    if links == "free":
        return "free: transfers take no time"
    kind, _, rates = links.partition(":")
    unit = _UNITS.get(kind)
    up, _, down = rates.partition(",")
    if unit is None or not _is_plain(up) or not _is_plain(down):
        return links or "unknown"
    return f"{up} {unit} up, {down} {unit} down"


def _is_plain(word: str) -> bool:
    """Whether it is a number such as 2.5, and no law that numbers are drawn from."""
    return bool(word) and not set(word) - set("0123456789.")


def absence(run: Run) -> str:
    """Whether devices are ever away, and what is done then."""
    pattern = run.settings.get("fleet.availability", "always")
    if pattern == "always":
        return "nobody is ever away"
    rule = str(run.summary.get("absence", run.settings.get("absence", "")))
    return f"{pattern}; {_RULES.get(rule, rule)}"


def model(run: Run) -> str:
    """The model that was trained, by the name that was resolved, and its size."""
    name, size = run.summary.get("model"), run.figure("parameters")
    found = name if isinstance(name, str) and name else run.settings.get("model", "unknown")
    return f"{found} ({number(size, 9)} parameters)" if size else found
