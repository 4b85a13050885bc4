"""What is wrong with the cases of many seeds: by algorithm and kind of fault, each with a small command to show it.

For seeds from 0 to below 400 (minutes, where much is wrong): python -m tests.contract.findings 0 400
"""

from __future__ import annotations

import sys
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence

from paceline.errors import PacelineError
from tests.contract.schedules import STEPS, case, command, faults, perform_case, verdict

PLAIN = {"fleet.times": "constant:1", "fleet.links": "rate:1,10", "fleet.availability": "always"}
"""What a word becomes before it is left out."""
TRIES = 200
"""After which a case is small enough."""


def main(first: int, last: int) -> None:
    """The table."""
    groups: dict[tuple[str, str], list[int]] = defaultdict(list)
    ends: Counter[str] = Counter()
    for seed in range(first, last):
        name, words = case(seed)
        try:
            found = verdict(name, words)
        except PacelineError as refusal:
            ends["refused"] += 1
            print(f"seed {seed} refused: {refusal}", flush=True)
            continue
        ends["wrong" if found else "fine"] += 1
        for fault in found:
            groups[name, fault.partition(":")[0]].append(seed)
    print(dict(ends))
    for (name, kind), seeds in sorted(groups.items()):
        words, fault = smallest(name, kind, seeds)
        print(
            f"{name} | {kind} | {len(seeds)} | seeds {seeds[:6]}\n    {command(name, words)}\n    {fault}", flush=True
        )


def smallest(name: str, kind: str, seeds: Sequence[int]) -> tuple[list[str], str]:
    """Of the case with the fewest words, what is left when nothing can be left out or made simpler."""
    first = min((case(seed)[1] for seed in seeds), key=lambda words: len(" ".join(words)))
    for budget in (STEPS // 10, STEPS):  # with the full one right away it would take minutes
        words = shrunk(name, kind, first, budget)
        if fault := shows(name, words, kind, STEPS):
            return words, fault
    return first, shows(name, first, kind, STEPS)


def shrunk(name: str, kind: str, words: list[str], budget: int) -> list[str]:
    """Simpler words that show the same."""
    candidates = simplified(words)
    for _ in range(TRIES):
        candidate = next(candidates, None)
        if candidate is None:
            break
        if shows(name, candidate, kind, budget):
            words, candidates = candidate, simplified(candidate)
    return words


def shows(name: str, words: Sequence[str], kind: str, budget: int) -> str:
    """The fault of this kind that a case has, or nothing."""
    try:
        found = faults(perform_case(name, words, budget)) if kind != "not repeatable" else verdict(name, words)
    except PacelineError:
        return ""
    return next((fault for fault in found if fault.partition(":")[0] == kind), "")


def simplified(words: Sequence[str]) -> Iterator[list[str]]:
    """Every way to make one word simpler; the boldest first."""
    for place, word in enumerate(words):
        key, _, value = word.partition("=")
        if key not in ("clients", "rounds", "partition"):
            yield [*words[:place], *words[place + 1 :]]
    for place, word in enumerate(words):
        key, _, value = word.partition("=")
        for other in _simpler(key, value):
            yield [*words[:place], f"{key}={other}", *words[place + 1 :]]


def _simpler(key: str, value: str) -> Iterator[str]:
    if key in PLAIN and value != PLAIN[key]:
        yield PLAIN[key]
    if key == "fleet.availability":
        yield from (part for part in value.split("+") if part != value)
        if "windows:" in value:  # which others cannot read off a command
            yield from ("dropout:0.9,forever", "duty:7,0.1")
    if value.isdecimal():
        yield from (str(smaller) for smaller in (0, 1, 2, 3, 5, 8, 12) if smaller < int(value))


if __name__ == "__main__":
    main(*map(int, sys.argv[1:3]))
