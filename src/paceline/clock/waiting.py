"""Who waits for what: the text of a deadlock."""

from __future__ import annotations

import asyncio
import linecache
from collections.abc import Iterable
from types import FrameType
from typing import Any, Protocol

SHOWN = 12


class Clocked(Protocol):
    """Anything with a virtual time."""

    def time(self) -> float:
        """The virtual time in seconds."""
        ...


def describe_waiting(clock: Clocked, tasks: Iterable[asyncio.Task[Any]]) -> str:
    """One line per waiting task: its name, and the source line at which it waits."""
    waiting = sorted((task.get_name(), place_of(task)) for task in tasks)
    lines = [f"  {name} waits at {place}" for name, place in waiting[:SHOWN]]
    if len(waiting) > SHOWN:
        lines.append(f"  ... and {len(waiting) - SHOWN} more")
    head = f"deadlock at t={clock.time():g}: nothing is due, and {len(waiting)} still wait"
    return "\n".join([head, *lines, "  hint: something they await is never sent, set or finished"])


def place_of(task: asyncio.Task[Any]) -> str:
    """The innermost line of a task that is not inside the standard library."""
    frames = list(_frames(task.get_coro()))
    ours = [frame for frame in frames if "asyncio" not in frame.f_code.co_filename] or frames
    if not ours:
        return "an unknown place"
    frame = ours[-1]
    code = frame.f_code
    line = linecache.getline(code.co_filename, frame.f_lineno).strip()
    return f"{code.co_qualname} line {frame.f_lineno}: {line}"


def _frames(awaitable: Any) -> Iterable[FrameType]:
    while awaitable is not None:
        frame = getattr(awaitable, "cr_frame", None) or getattr(awaitable, "ag_frame", None)
        if frame is not None:
            yield frame
        following = getattr(awaitable, "cr_await", None)
        awaitable = following if following is not None else getattr(awaitable, "ag_await", None)
