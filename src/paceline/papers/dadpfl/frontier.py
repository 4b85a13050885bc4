"""Beyond DA-DPFL's paper: which wait cap N is worth its time, over the accuracy wanted and what transfers cost.

Figure 7 shows accuracy over N per round. But who waits for neighbours has longer rounds, by an amount that depends on
how long a model takes to arrive compared with how long it takes to train one. Here training takes one second on
average, the dense models of all M neighbours take a given number of seconds on a client's link, and the virtual time
to several accuracies is measured. The frontier has the N that no other N beats to some accuracy.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from itertools import product

from paceline.data.registry import parse_name
from paceline.papers.claims import Runs, by_seed, shown
from paceline.papers.crossings import Arrivals, arrivals, smooth_crossing
from paceline.papers.dadpfl.setups import Setup, setups
from paceline.papers.dadpfl.trained import draw, per_round
from paceline.papers.grid import Variant, Words
from paceline.papers.result import Reproduction, Request, Row
from paceline.papers.trials import Laboratory, trained
from paceline.runs.problem import make_space
from paceline.statistics import Interval, ratio_interval
from paceline.system.traces import BYTES_PER_MBIT

WAITS = (0, 1, 2, 5, 10)
COSTS = (0.0, 1.0, 7.0)
"""Seconds that the models of all neighbours take on a client's link, where training takes one: none, as long, and as
on the paper's devices with ResNet-18 (3.6 s of transfers, 0.5 s of training; DA-T6)."""
TARGETS = {"digits": (0.95, 0.97, 0.98, 0.985), "mnist": (0.95, 0.97, 0.98)}
"""At the small scale; elsewhere the setup's."""
SPREAD = "uniform:0.5,1.5"


@dataclass(frozen=True)
class Reached:
    """Where the runs of every N reached one accuracy."""

    target: float
    by_wait: Mapping[str, Arrivals]

    @property
    def complete(self) -> dict[str, Arrivals]:
        """Those of which every seed arrived."""
        return {name: found for name, found in self.by_wait.items() if found.complete}

    @property
    def first(self) -> str | None:
        """The N with the least mean time among them."""
        found = self.complete
        return min(found, key=lambda name: found[name].mean.value) if found else None

    def over(self, name: str, other: str) -> Interval:
        """One N's time over another's, over pairs with the same seed."""
        mine, theirs = self.by_wait[name].seconds, self.by_wait[other].seconds
        both = sorted(set(mine) & set(theirs))
        return ratio_interval([mine[seed] for seed in both], [theirs[seed] for seed in both])


@trained
def frontier(request: Request, laboratory: Laboratory) -> Reproduction:
    """Time to several accuracies over N, where transfers take no, as much and much more time than training."""
    rows, panels = list[Row](), dict[str, Runs]()
    for setup in setups(request):
        variants = [_variant(setup, cost, N) for cost, N in product(COSTS, WAITS)]
        found = setup.ablate(laboratory, request.seeds, variants)
        for cost in COSTS:
            case = f"{setup.data}, transfers {cost:g} s"
            panels[case] = {f"N = {N}": found[_named(cost, N)] for N in WAITS}
            rows += frontier_rows(case, panels[case], TARGETS.get(setup.data, setup.targets))
    return Reproduction(rows=rows, note=FRONTIER_NOTE, figure=lambda: draw(panels, "DA-DPFL over N"))


def _named(cost: float, N: int) -> str:
    return f"cost{cost:g}-N{N}"


def _variant(setup: Setup, cost: float, N: int) -> Variant:
    name = _named(cost, N)
    return setup.variant(name, name, *_priced(setup, cost), f"da-dpfl.wait={N}", method="da-dpfl")


def _priced(setup: Setup, cost: float) -> Words:
    """Devices that train for a second on average, with links on which all neighbours' dense models take so long."""
    times = (f"fleet.times={SPREAD}", "fleet.jitter=0.1")
    if not cost:
        return (*times, "fleet.links=free")
    model = next(word.partition("=")[2] for word in setup.words if word.startswith("model="))
    spec, _ = parse_name(setup.data)
    megabits = make_space(model, spec.shape, spec.classes, "float32").nbytes / BYTES_PER_MBIT
    rate = f"{setup.degree * megabits / cost:.6g}"
    return (*times, f"fleet.links=rate:{rate},{rate}")


def frontier_rows(case: str, runs: Runs, targets: tuple[float, ...]) -> list[Row]:
    """Seconds of a round by N; for every accuracy the time of each N, and which is first."""
    rows = [
        Row(f"{case}, {name}: time", None, shown(by_seed(those, per_round("time"))), "s a round")
        for name, those in runs.items()
    ]
    for target in targets:
        crossing = partial(smooth_crossing, level=target)
        reached = Reached(target, {name: arrivals(those, crossing) for name, those in runs.items()})
        rows += [_time_row(case, name, reached) for name in runs]
        rows.append(_first_row(case, reached))
    return rows


def _time_row(case: str, name: str, reached: Reached) -> Row:
    found = reached.by_wait[name]
    what = f"{case}, {name}: time to {100 * reached.target:g} %"
    if not found.crossings:
        return Row(what, None, "not reached", "s")
    some = "" if found.complete else f"{len(found.crossings)} of {found.tried} seeds"
    return Row(what, None, shown(found.seconds), "s", None, some)


def _first_row(case: str, reached: Reached) -> Row:
    what, first = f"{case}: first at {100 * reached.target:g} %", reached.first
    if first is None:
        return Row(what, None, "no N with all seeds")
    others = {name: reached.over(name, first) for name in reached.complete if name != first}
    level = [name for name, more in others.items() if not (more.tells and more.low > 1)]
    told = ", ".join(f"{name} x{more}" for name, more in others.items())
    return Row(what, None, " or ".join([first, *level]), "", None, f"time over that of {first}: {told}")


FRONTIER_NOTE = (
    "Virtual seconds until the mean of five measurements in a row crosses an accuracy; training takes 0.5 to 1.5 s,"
    " by device, and the dense models of all M = 10 neighbours 0, 1 or 7 s on a client's link (sparse ones half or"
    " less). Ratios are geometric means over pairs with the same seed, with 95 % intervals; where N are told with"
    " 'or', those after the first cannot be told from it."
)
