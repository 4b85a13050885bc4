"""How a federation stands, from the files of its server: what runs, how far it is, how its nodes have answered."""

from __future__ import annotations

import json
import socket
from collections import Counter, defaultdict
from collections.abc import Iterator
from pathlib import Path
from statistics import median
from typing import Any

from paceline.api.watched import describe
from paceline.errors import SettingError
from paceline.federation.conducting import TRIPS
from paceline.federation.config import ServerConfig, read_server, split
from paceline.federation.flower import local
from paceline.ledger.directory import EXPERIMENT
from paceline.ledger.lock import is_held, read_holder
from paceline.reading import cleaned, parse_object, read_text


def standing(place: Path) -> list[str]:
    """Lines about the federation whose ``server.toml`` this is, or is in there."""
    file = place / "server.toml" if place.is_dir() else place
    if not file.exists():
        raise SettingError(f"there is no {file}; name the directory of a server, or its file")
    config = read_server(file)
    return [_link(config), _run(config), *_metrics(config), *_nodes(config), *_notes(config)]


def _link(config: ServerConfig) -> str:
    host, port = split(local(config.superlink.address))
    try:
        with socket.create_connection((host, int(port)), timeout=2.0):
            return f"SuperLink: listens at {config.superlink.address}"
    except OSError as problem:
        return f"SuperLink: nobody listens at {config.superlink.address} ({problem.strerror or problem})"


def _run(config: ServerConfig) -> str:
    try:
        status = parse_object(read_text(config.out / EXPERIMENT), EXPERIMENT)["status"]
    except (FileNotFoundError, KeyError):
        return f"run: {config.run.algorithm} has not begun in {config.out}"
    holder = read_holder(config.out) if is_held(config.out) else None
    if status == "running" and holder is None:
        return f"run: {config.run.algorithm} in {config.out} was cut off; paceline serve goes on with it"
    by = f", by process {holder.pid}" if holder is not None else ""
    return f"run: {config.run.algorithm} in {config.out} is {status}{by}"


def _metrics(config: ServerConfig) -> list[str]:
    rows = list(_lines(config.out / "metrics.jsonl"))
    return [f"last: {describe(rows[-1])}"] if rows else []


def _nodes(config: ServerConfig) -> Iterator[str]:
    """For every node: trips, what they took and of what that was, and what went wrong."""
    trips: dict[int, list[dict[str, Any]]] = defaultdict(list)
    for trip in _lines(config.out / TRIPS):
        trips[int(trip["client"])].append(trip)
    for client in range(config.federation.nodes):
        done = [trip for trip in trips[client] if not trip["outcome"] and "arrived" in trip["times"]]
        wrong = Counter(str(trip["outcome"])[:60] for trip in trips[client] if trip["outcome"])
        if not trips[client]:
            yield f"client {client}: no trip yet"
            continue
        seconds = [trip["came"] - trip["sent"] for trip in done]
        worked = [trip["times"]["ended"] - trip["times"]["began"] for trip in done]
        up, down = (sum(int(trip[way]) for trip in trips[client]) for way in ("bytes_up", "bytes_down"))
        yield (
            f"client {client}: {len(done)} trips of {median(seconds or [0.0]):.1f} s (median), its worker's part"
            f" {median(worked or [0.0]):.1f} s; {down:,} bytes down, {up:,} up"
            + "".join(f"; {count} times {what!r}" for what, count in wrong.items())
        )


def _notes(config: ServerConfig) -> list[str]:
    try:
        notes = parse_object(read_text(config.out / "summary.json"), "summary.json").get("notes", [])
    except FileNotFoundError:
        return []
    return [f"t={note['time']:.1f} s: {cleaned(str(note['text']))}" for note in notes][-10:]


def _lines(path: Path) -> Iterator[dict[str, Any]]:
    """The whole lines of a file that may be growing."""
    if path.exists():
        text = read_text(path)
        for line in text[: text.rfind("\n") + 1].splitlines():
            yield json.loads(line)
