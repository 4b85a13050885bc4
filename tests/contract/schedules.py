"""Random small dry runs, and what must hold in the ledger of every one of them.

``case`` makes the words of a run from a seed (``schedule_words``), ``perform_case`` runs them, ``faults`` says what
is wrong with what came of it. Only ``prepare_case`` and ``perform_case`` know the program's own names. By hand, from
the root of the repository:

    python -m tests.contract.schedules 17 18     # the cases of these seeds: their commands, what came of them
"""

from __future__ import annotations

import hashlib
import math
import signal
import sys
from bisect import bisect_right
from collections import Counter, defaultdict, deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from paceline.algorithms.homes import Homes
from paceline.errors import Deadlock, PacelineError
from paceline.runs.driver import drive, make_executor
from paceline.runs.experiment import make_experiment
from paceline.runs.making import make_run
from paceline.runs.run import Run
from paceline.runs.until import Until
from paceline.worlds.simulation.presence import SimulatedPresence
from tests.contract.schedule_words import TIME, case, command, horizon, known

__all__ = ["Ended", "PastBudget", "case", "command", "faults", "perform_case", "prepare_case", "verdict"]

STEPS = 100_000
"""Steps of the loop after which a run is taken never to end. The longest that do end, twenty clients on a complete
graph for eight rounds, make half as many; most make a few hundred."""
PROCESSOR_SECONDS = 20.0
"""The same for what never comes back to the loop. Of this process alone: a busy machine fails nothing."""
EXACT = 1e-9
"""Relative to the time at which it happens."""


# -- a run ----------------------------------------------------------------------------------------------------------


class PastBudget(BaseException):
    """A run that seems never to end; no Exception, lest somebody on the way takes it for one of its own."""


class Steps(deque[Any]):
    """What is ready to run in a loop, counted as it runs. Past the budget it says so once: tasks must still end."""

    def __init__(self, budget: int) -> None:
        super().__init__()
        self.budget = budget
        self.made = 0

    def popleft(self) -> Any:
        """The next, unless these were too many."""
        self.made += 1
        if self.made == self.budget:
            raise PastBudget(f"still going after {self.budget} steps of the loop")
        return super().popleft()


@dataclass(frozen=True, kw_only=True)
class Ended:
    """What the checks look at, of a run that has ended."""

    name: str
    clients: int
    spans: dict[str, NDArray[Any]]
    """Columns of the ledger: numbers, but ``kind`` in words."""
    rows: list[dict[str, Any]]
    notes: list[tuple[float, str]]
    time: float
    bytes: float
    visits: int
    wanted: int
    """Rounds that were asked for."""
    made: int
    error: BaseException | None
    ended: str | None
    """Why it ended before its last round, where that is no failure."""
    homes: list[list[int]]
    """The clients of every server, where servers have clients of their own."""
    away: Callable[[int, float], bool]
    """Whether a client is away at a time."""
    steps: int
    horizon: float = TIME
    """The virtual time at which it ends in any case."""

    @property
    def fingerprint(self) -> str:
        """All that must be the same when the same words are run again."""
        digest = hashlib.sha256(repr((self.rows, self.notes, self.time, str(self.error))).encode())
        for column in self.spans.values():
            digest.update(column.tobytes())
        return digest.hexdigest()


class Absences:
    """When clients left in mid-visit, and when they were back: an availability has no memory of that."""

    def __init__(self) -> None:
        self._leaves: dict[int, list[float]] = defaultdict(list)
        self._backs: dict[int, list[float]] = defaultdict(lambda: [-math.inf])
        """The latest so far; the first is of nobody."""

    def add(self, client: int, leave: float, back: float) -> None:
        """Later ones come later."""
        self._leaves[client].append(leave)
        self._backs[client].append(max(back, self._backs[client][-1]))

    def at(self, client: int, when: float) -> bool:
        """Whether it had left by then and was not back."""
        return when < self._backs[client][bisect_right(self._leaves[client], when)]


def prepare_case(name: str, words: Sequence[str]) -> Run:
    """A run that has not begun; a PacelineError is a refusal."""
    until = Until.parse([f"time={horizon(words):g}"])
    experiment = make_experiment([name], overrides=words, dry=True, until=until)
    return make_run(experiment.settings[0], until=experiment.until, dry=True, keep_spans=True)


def perform_case(name: str, words: Sequence[str], budget: int = STEPS) -> Ended:
    """Run it dry, with so many steps at most; a PacelineError from here is a refusal."""
    run = prepare_case(name, words)
    settings, world, absences = run.settings, run.world, Absences()
    machines = getattr(world.machines, "_machines", world.machines)  # inside of those that have faults
    homes: list[Homes] = []
    world.loop._ready = steps = Steps(budget)

    def left(presence: SimulatedPresence, device: int, back: float) -> None:
        absences.add(device, world.now(), back)

    def away(site: int, when: float) -> bool:
        return absences.at(site, when) or machines.fleet.availability.next_online(site, when) > when

    error: BaseException | None
    belong = _seen(Homes, "__init__", lambda made, *_: homes.append(made))
    with _seen(SimulatedPresence, "left", left), belong, _limited():
        try:
            drive([run], make_executor(settings.executor))
            error = run.failure
        except PastBudget as problem:
            error = problem
    table = world.ledger.table()
    return Ended(
        name=name,
        clients=settings.clients,
        spans={
            key: np.array(table[key].to_pylist(), str) if key == "kind" else table[key].to_numpy()
            for key in table.column_names
        },
        rows=run.rows,
        notes=[(note.time, note.text) for note in world.chronicle.events],
        time=world.now(),
        bytes=world.ledger.bytes,
        visits=world.ledger.visits,
        wanted=settings.algorithm.rounds,
        made=world.progress,
        error=error,
        ended=run.ended,
        homes=homes[-1]._lists if homes else [],
        away=away,
        steps=steps.made,
        horizon=horizon(words),
    )


@contextmanager
def _seen(kind: type, method: str, see: Callable[..., None]) -> Iterator[None]:
    """Let somebody see every call of a method, after it."""
    original = getattr(kind, method)

    def call(self: Any, *given: Any, **named: Any) -> Any:
        result = original(self, *given, **named)
        see(self, *given)
        return result

    setattr(kind, method, call)
    try:
        yield
    finally:
        setattr(kind, method, original)


@contextmanager
def _limited() -> Iterator[None]:
    """End what never comes back to the loop."""

    def over(*_: object) -> None:
        raise PastBudget(f"still going after {PROCESSOR_SECONDS:g} s of processor time")

    before = signal.signal(signal.SIGVTALRM, over)
    signal.setitimer(signal.ITIMER_VIRTUAL, PROCESSOR_SECONDS, 1.0)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0.0)
        signal.signal(signal.SIGVTALRM, before)


# -- what must hold -------------------------------------------------------------------------------------------------

Fault = tuple[str, str]
"""A kind of fault, and where it is."""
Span = tuple[float, float, str]


def verdict(name: str, words: Sequence[str]) -> list[str]:
    """What is wrong with a case: in its ledger, or because it is another one when it is repeated."""
    run = perform_case(name, words)
    found = faults(run)
    if not isinstance(run.error, PastBudget) and perform_case(name, words).fingerprint != run.fingerprint:
        found.append("not repeatable: the same words twice give other rows or spans")
    return found


def faults(run: Ended) -> list[str]:
    """What is wrong with a run, one line for each kind: ``kind: the first place (and how many more)``."""
    found: dict[str, list[str]] = defaultdict(list)
    waits = no_waits_while_away, no_waits_for_itself
    for check in (ending, rounds, no_client_lost, possible_spans, no_overlaps, *waits, same_bytes):
        for kind, place in check(run):
            found[kind].append(place)
    more = {kind: f" (and {len(places) - 1} more)" if len(places) > 1 else "" for kind, places in found.items()}
    return [f"{kind}: {places[0]}{more[kind]}" for kind, places in found.items()]


def ending(run: Ended) -> Iterator[Fault]:
    """A run ends, and if by an error, by one that the program means."""
    error = run.error
    cause = getattr(error, "__cause__", None)  # a run wraps what it did not expect
    if isinstance(error, PastBudget):
        yield "runs on for ever", f"{error}, at t={run.time:g} s with {run.visits} visits, {run.made} rounds"
    elif isinstance(error, Deadlock):
        yield "deadlock", " | ".join(line.strip() for line in str(error).splitlines())
    elif error is not None and not isinstance(error, PacelineError):
        yield "foreign exception", f"{type(error).__name__}: {error}"
    elif cause is not None and not isinstance(cause, PacelineError):
        yield "foreign exception", f"{type(cause).__name__}: {error}"


def rounds(run: Ended) -> Iterator[Fault]:
    """A run that is done has made its rounds or says why not, and somebody has done something in it."""
    if run.error is not None:
        return
    if run.made < run.wanted and not says_why(run):
        yield "ends early and does not say why", f"{run.made} of {run.wanted} rounds, t={run.time:g} s"
    if not run.visits:
        yield "done without a visit", f"{run.made} of {run.wanted} rounds, t={run.time:g} s"
    # Whoever was sent the model and left before it began has taken part: time has passed.
    begun = set(run.spans["round"][run.spans["kind"] != "wait"].tolist())
    for round in range(run.made):
        if round not in begun and not known(run.name)[1].arrivals:
            yield "phantom round", f"nobody did anything in round {round + 1} of {run.wanted}"


def says_why(run: Ended) -> bool:
    """The time is over, or nobody is left."""
    return run.time >= run.horizon or run.ended is not None


def no_client_lost(run: Ended) -> Iterator[Fault]:
    """Where servers have clients, every client has exactly one."""
    counts = Counter(client for clients in run.homes for client in clients)
    for client in range(run.clients if run.homes else 0):
        if counts[client] != 1:
            yield "client lost", f"client {client} belongs to {counts[client]} servers"


def possible_spans(run: Ended) -> Iterator[Fault]:
    """Spans begin at 0 or later, take no negative time, and end by the end."""
    columns = (run.spans[key].tolist() for key in ("site", "kind", "start", "end", "bytes", "flops"))
    for site, kind, start, end, size, flops in zip(*columns, strict=True):
        place = f"{who(site)}, {kind} from {start!r} to {end!r} s of {run.time!r}"
        if not (math.isfinite(start) and math.isfinite(end)):
            yield "infinite span", place
        elif start < 0:
            yield "span before 0", place
        elif end < start:
            yield "negative span", place
        elif end > run.time + slack(run.time):
            yield "span after the end", place
        if size < 0 or flops < 0:
            yield "negative cost", f"{place}: {size:g} bytes, {flops:g} FLOPs"


def no_overlaps(run: Ended) -> Iterator[Fault]:
    """A site computes one thing at a time, each lane carries one transfer, and who waits does nothing else.

    A server's transfers are no business of its waits: it carries any number, whatever else it does.
    """
    for site, tracks in _tracks(run).items():
        computing = sorted(tracks["train", 0] + tracks["work", 0])
        waits = sorted(tracks["wait", 0])
        yield from _within(site, computing)
        for (kind, _), spans in tracks.items():
            if kind in ("send", "receive"):
                yield from _within(site, sorted(spans))
        yield from _within(site, waits)
        transfers = [span for (kind, _), spans in tracks.items() if kind in ("send", "receive") for span in spans]
        yield from _between(site, waits, computing + (transfers if site >= 0 else []))


def _tracks(run: Ended) -> dict[int, dict[tuple[str, int], list[Span]]]:
    """Spans by site, kind and lane."""
    tracks: dict[int, dict[tuple[str, int], list[Span]]] = defaultdict(lambda: defaultdict(list))
    columns = (run.spans[key].tolist() for key in ("site", "kind", "lane", "start", "end"))
    for site, kind, lane, start, end in zip(*columns, strict=True):
        tracks[site][kind, lane if kind in ("send", "receive") else 0].append((start, end, kind))
    return tracks


def _within(site: int, spans: Sequence[Span]) -> Iterator[Fault]:
    """Overlaps in a sorted track."""
    last: Span | None = None
    for span in spans:
        if last is not None and overlap(last, span):
            yield f"{last[2]} overlaps {span[2]}", f"{who(site)}, {_said(last)} and {_said(span)}"
        if last is None or span[1] > last[1]:
            last = span


def _between(site: int, waits: Sequence[Span], others: Sequence[Span]) -> Iterator[Fault]:
    """Overlaps of waits with something else: all of it at once, for a run that never ends has many."""
    starts, ends = np.array([span[0] for span in others]), np.array([span[1] for span in others])
    for wait in waits:
        for place in np.flatnonzero((starts < wait[1]) & (ends > wait[0])).tolist():
            if overlap(wait, other := others[place]):
                yield f"wait overlaps {other[2]}", f"{who(site)}, {_said(wait)} and {_said(other)}"


def no_waits_while_away(run: Ended) -> Iterator[Fault]:
    """Time away is nobody's waiting: looked at in the middle of every wait and at its quarters."""
    columns = (run.spans[key].tolist() for key in ("site", "kind", "start", "end", "peer"))
    for site, kind, start, end, peer in zip(*columns, strict=True):
        if site < 0 or kind != "wait" or end - start <= slack(end):
            continue
        for part in (0.5, 0.25, 0.75):
            if run.away(site, start + part * (end - start)):
                whom = "itself" if peer == site else who(peer)
                yield "waits while away", f"{who(site)}, from {start:g} to {end:g} s, for {whom}"
                break


def no_waits_for_itself(run: Ended) -> Iterator[Fault]:
    """Who waits, waits for somebody else."""
    columns = (run.spans[key].tolist() for key in ("site", "kind", "start", "end", "peer"))
    for site, kind, start, end, peer in zip(*columns, strict=True):
        if kind == "wait" and peer == site:
            yield "waits for itself", f"{who(site)}, from {start:g} to {end:g} s"


def same_bytes(run: Ended) -> Iterator[Fault]:
    """What was sent was received, between any two sites, and is what the ledger says."""
    pairs: dict[tuple[int, int], list[float]] = defaultdict(lambda: [0.0, 0.0])
    columns = (run.spans[key].tolist() for key in ("site", "kind", "peer", "bytes"))
    for site, kind, peer, size in zip(*columns, strict=True):
        if kind == "send":
            pairs[site, peer][0] += size
        elif kind == "receive":
            pairs[peer, site][1] += size
    for (source, target), (sent, received) in pairs.items():
        if not math.isclose(sent, received, rel_tol=EXACT):
            yield "sent is not received", f"{who(source)} to {who(target)}: {sent:g} and {received:g} bytes"
    total = math.fsum(sent for sent, _ in pairs.values())
    if not math.isclose(total, run.bytes, rel_tol=EXACT):
        yield "bytes of the ledger", f"{run.bytes:g}, but its spans have {total:g}"


def slack(time: float) -> float:
    """By how much two times may differ and be the same."""
    return EXACT * max(1.0, abs(time))


def overlap(one: Span, other: Span) -> bool:
    """Whether two spans share more than a rounding."""
    end = min(one[1], other[1])
    return end - max(one[0], other[0]) > slack(end)


def who(site: int) -> str:
    """A site in words."""
    return f"client {site}" if site >= 0 else "nobody" if site < -1000 else f"server {-site}"


def _said(span: Span) -> str:
    return f"{span[2]} {span[0]:.6g} to {span[1]:.6g} s"


def main(seeds: Iterable[str]) -> None:
    """Cases by hand."""
    for seed in map(int, seeds):
        name, words = case(seed)
        print(f"seed {seed}: {command(name, words)}")
        try:
            run = perform_case(name, words)
        except PacelineError as refusal:
            print(f"  refused: {refusal}")
            continue
        print(f"  {run.made} of {run.wanted} rounds, {run.visits} visits, t={run.time:g} s, {run.steps} steps")
        print(f"  {type(run.error).__name__ if run.error else 'done'}: {run.error or ''}".rstrip(": "))
        for fault in verdict(name, words):
            print(f"  FAULT {fault}")


if __name__ == "__main__":
    main(sys.argv[1:])
