"""What the laboratory can do to a run: each fault with the words that make it, and whom it can befall."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

from paceline.algorithms.base import Traits
from paceline.errors import SettingError, nearest

Group = Literal["devices", "messages", "machines"]
Way = Literal["simulated", "worker", "killed"]
STRIKES = 0.4
"""Of the time that a run takes undisturbed: when servers and links fail."""


@dataclass(frozen=True, kw_only=True)
class Injection:
    """One fault that can be injected into a run."""

    name: str
    group: Group
    text: str
    """What is done, in words that follow the name and a colon."""
    words: Callable[[Traits, float], str | None]
    """The setting that makes it, of a run with these traits that takes so long undisturbed; None: it has no such
    part. Nothing where no setting makes it."""
    way: Way = "simulated"


def _always(words: str) -> Callable[[Traits, float], str | None]:
    return lambda traits, seconds: words


def _crash(traits: Traits, seconds: float) -> str | None:
    return f"fleet.failures=server:1@{STRIKES * seconds:.3f}" if traits.servers else None


def _cut(traits: Traits, seconds: float) -> str | None:
    if not traits.links:
        return None
    one, other = min(traits.links)
    return f"fleet.failures=link:{one}-{other}@{STRIKES * seconds:.3f}"


def _plain(name: str, group: Group, words: str, text: str) -> Injection:
    return Injection(name=name, group=group, text=f"{text} (`{words}`)", words=_always(words))


INJECTIONS = {
    one.name: one
    for one in (
        _plain("drop-outs", "devices", "fleet.availability=dropout:0.2", "a fifth of all visits is broken off"),
        _plain(
            "stragglers",
            "devices",
            "fleet.availability=stragglers:0.25,10",
            "two of eight devices vanish for 10 s as soon as they have the model, each time two others",
        ),
        _plain("oversized", "devices", "faults=oversized:0.1", "a tenth of the devices' messages is too long"),
        _plain("nan", "devices", "faults=nan:0.1", "a tenth of the devices' messages holds NaN"),
        _plain("hostile", "devices", "hostile=sign-flip:0.25", "two of eight devices upload their update's opposite"),
        _plain("lost", "messages", "faults=lost:0.1", "a tenth of all messages never arrives"),
        _plain("duplicated", "messages", "faults=duplicated:0.1", "a tenth arrives twice"),
        _plain("delayed", "messages", "faults=delayed:0.1,5", "a tenth arrives 5 s late"),
        _plain("reordered", "messages", "faults=reordered:0.5", "half arrive up to 1 s late, each by its own time"),
        _plain("corrupted", "messages", "faults=corrupted:0.1", "a tenth arrives with bits flipped"),
        Injection(
            name="server crash",
            group="machines",
            text=f"the first server fails for good at {STRIKES:.0%} of the undisturbed time"
            " (`fleet.failures=server:1@SECONDS`)",
            words=_crash,
        ),
        Injection(
            name="overlay cut",
            group="machines",
            text="a link between servers fails for good then (`fleet.failures=link:1-2@SECONDS`)",
            words=_cut,
        ),
        Injection(
            name="dead worker",
            group="machines",
            text="with `--world local` and two workers, one process is killed after the first round",
            words=_always(""),
            way="worker",
        ),
        Injection(
            name="killed",
            group="machines",
            text="the whole process is killed twice (SIGKILL) and resumed each time; the result must be the same"
            " to the last bit",
            words=_always(""),
            way="killed",
        ),
    )
}
"""All faults, in the order of the table."""


def chosen(names: Sequence[str]) -> list[Injection]:
    """The faults of these names; all where none is named."""
    for name in names:
        if name not in INJECTIONS:
            raise SettingError(f"no fault is called {name!r}; {nearest(name, INJECTIONS)}")
    return [one for name, one in INJECTIONS.items() if not names or name in names]
