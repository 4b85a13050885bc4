"""P-FedAvg (ToN 2022): where its trained experiments take place, and how their curves are compared and drawn.

Rounds are synchronous, so what is learned does not depend on how long anything takes: models are trained once, with
free links, and the time of every round comes from a dry run of the same settings in the network that is asked about.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from paceline.errors import SettingError, nearest
from paceline.papers.pfedavg.iterations import LIKE_RECORDINGS, SPEED_SIGMA, recordings
from paceline.papers.pictures import new_figure, plain
from paceline.papers.result import Request, Row
from paceline.papers.trials import Column, Finished, Laboratory, Trial
from paceline.runs.driver import drive, make_executor
from paceline.runs.making import make_run
from paceline.runs.problem import is_here
from paceline.runs.settings import ExecutorSettings, make_settings
from paceline.runs.until import Until
from paceline.statistics import Interval, mean_interval

COMMON = (
    "local.steps=20",
    "local.batch=32",
    "local.schedule=inverse:10",
    "fleet.times=constant:1",
    "fleet.jitter=0",
    "p-fedavg.participants=4",
    "fedavg.width=36",
    "hierfavg.servers=9",
    "hierfavg.participants=4",
    "hierfavg.local.steps=10",
    "hierfavg.partial=2",
    "hierfavg.objective=clients",
    "dpsgd.topology=ring",
)
"""9 servers with 4 clients each a round, or 36 at one (PF-E8 for HierFAVG); the rate falls with the round (PF-E9)."""
SEARCH_SEED = 1000
"""The initial rate is searched for on a seed that is not reported."""
MEASURES = {"average": "accuracy", "servers": "accuracy_servers"}
"""The paper does not say which model it evaluates (PF-E9): the servers' average, and the mean of their accuracies."""


@dataclass(frozen=True, kw_only=True)
class Scene:
    """A dataset and how it is learned."""

    data: str
    overrides: tuple[str, ...]
    rates: tuple[float, ...]
    """Initial rates to choose from; the paper states none."""
    rounds: int
    every: int = 1
    target: float = 0.8
    sorted_target: float = 0.5
    """The same where every server has two classes of its own."""
    milliseconds: float = 2.38
    """Of an SGD step (Table IV)."""
    timed: tuple[str, ...] = ()
    """Settings for the dry runs that times come from: the paper's model, where a smaller one is trained."""

    def trial(self, case: str, method: str, seed: int, *more: str, rounds: int | None = None) -> Trial:
        """One run."""
        return Trial(
            case=f"{self.data}-{case}",
            method=method,
            rate=self.rates[0],
            seed=seed,
            overrides=(
                f"dataset={self.data}",
                *COMMON,
                *self.overrides,
                *more,
                f"rounds={rounds or self.rounds}",
                f"every={self.every}",
            ),
            until=Until(),
        )


PAPER = {
    "mnist": Scene(
        data="mnist",
        overrides=("clients=1000", "partition=powerlaw:1.5,2", "model=mlp:512"),
        rates=(0.03, 0.1, 0.3),
        rounds=100,
    ),
    "cifar10": Scene(
        data="cifar10",
        overrides=("clients=200", "partition=pathological:2", "model=cnn2-pfedavg"),
        rates=(0.01, 0.03, 0.1),
        rounds=100,
        every=5,
        target=0.5,
        sorted_target=0.3,
        milliseconds=23.25,
    ),
    "femnist": Scene(
        data="femnist",
        overrides=("clients=355", "partition=natural", "model=cnn1-pfedavg"),
        rates=(0.01, 0.03, 0.1),
        rounds=200,
        every=5,
        target=0.6,
        sorted_target=0.3,
        milliseconds=4.99,
    ),
}
"""As in the paper. MNIST in sizes that follow a power law (PF-E11); of FEMNIST's 3,550 writers ten are one client,
because DPSGD keeps a model for each, 94 GB of them."""
SMALL = {
    "mnist": Scene(
        data="mnist",
        overrides=("clients=108", "partition=powerlaw:1.5,2", "model=mlp:32"),
        rates=(0.1,),
        rounds=20,
        timed=("model=mlp:512",),
    ),
    "digits": Scene(
        data="digits",
        overrides=("clients=54", "partition=pathological:2", "model=mlp:64"),
        rates=(0.3,),
        rounds=20,
        timed=("model=mlp:5427",),  # as many weights as the paper's MLP
    ),
}
"""For two cores; the rates were searched for in the same way, among 0.03, 0.1 and 0.3."""
SORTED = ("clients=18", "partition=dominant:1", "p-fedavg.participants=2", "p-fedavg.layout=blocks")
"""Not the paper's: two clients a server, with one class each. In the paper's split every server has clients of all
classes, and servers differ by chance only."""


def scenes(request: Request, names: Sequence[str]) -> list[Scene]:
    """The datasets of a figure that are here; at the small scale one, digits where MNIST is not."""
    if request.scale == "small":
        known, default = dict(SMALL), ["mnist" if is_here("mnist") else "digits"]
    else:
        known = {name: PAPER[name] for name in names}
        default = [name for name in names if is_here(name)]
    if request.data is not None and request.data not in known:
        raise SettingError(f"--data is {request.data!r}; {nearest(request.data, known)}")
    wanted = [request.data] if request.data else default
    if not wanted:
        raise SettingError(f"none of {', '.join(known)} is here; `paceline data` says how to get them")
    return [known[name] for name in wanted]


def tuned(laboratory: Laboratory, wanted: Sequence[Scene]) -> tuple[list[Scene], list[Row]]:
    """Every scene with the one initial rate, for all methods, that served FedAvg best; and rows that say so."""
    trials = [
        replace(scene.trial("rate", "fedavg", SEARCH_SEED, rounds=max(1, scene.rounds // 2)), rate=rate)
        for scene in wanted
        if len(scene.rates) > 1
        for rate in scene.rates
    ]
    found = laboratory.carry_out(trials) if trials else []
    chosen, rows = [], []
    for scene in wanted:
        runs = {run.trial.rate: late(run.accuracy) for run in found if run.trial.case == f"{scene.data}-rate"}
        best = max(runs, key=lambda rate: runs[rate]) if runs else scene.rates[0]
        chosen.append(replace(scene, rates=(best,)))
        if runs:
            listed = ", ".join(f"{rate:g}: {100 * value:.1f} %" for rate, value in runs.items())
            rows.append(
                Row(f"{scene.data}: initial rate", None, best, "", None, f"by FedAvg on another seed: {listed}")
            )
    return chosen, rows


# -- time -----------------------------------------------------------------------------------------------------------


SERVER_MBPS = 152
"""What a server's clients share, each way: the paper does not say, and this is what pfedavg-table5 fits to FedAvg's
6190 ms for an iteration on MNIST, with fair sharing."""


def network(
    backbone: str, milliseconds: float = 2.38, method: str = "p-fedavg", *, recorded: bool = False
) -> tuple[str, ...]:
    """Settings of time as in pfedavg-table5: clients' links are steady, with the mean and spread of 4G recordings.

    Or they are the recordings themselves, silences included. ``milliseconds`` are those of an SGD step on the paper's
    GPU (Table IV); clients are faster and slower than that.
    """
    law = f"lognormal,{LIKE_RECORDINGS.median:.4g},{LIKE_RECORDINGS.sigma:g}"
    visit = (10 if method == "hierfavg" else 20) * milliseconds / 1000
    return (
        f"fleet.links=trace:{recordings()},same" if recorded else f"fleet.links=rate:{law}/{law}",
        "fleet.sharing=fair",
        f"fleet.server_mbps={SERVER_MBPS}",
        f"fleet.backbone={backbone}",
        f"fleet.times=lognormal:{visit:g},{SPEED_SIGMA:g}",
        "fleet.jitter=0",
    )


def round_times(trials: Sequence[Trial], *more: str, rounds: int) -> list[Column]:
    """The virtual second at which each of so many rounds is over, of every trial, from dry runs."""
    runs = []
    for trial in trials:
        words = [*trial.overrides, f"local.lr={trial.rate}", f"seed={trial.seed}", *more]
        settings = make_settings(trial.method, [*words, f"rounds={rounds}", "every=1"])
        runs.append(make_run(settings, dry=True, keep_spans=False))
    drive(runs, make_executor(ExecutorSettings(device="cpu", threads=1)))
    for run in runs:
        if run.failure is not None:
            raise run.failure
    return [np.array([row["time"] for row in run.rows], float) for run in runs]


# -- curves ---------------------------------------------------------------------------------------------------------


def late(values: Column) -> float:
    """The mean of the last tenth of the measurements, since single rounds scatter; below all where there is none."""
    return float(values[-max(1, len(values) // 10) :].mean()) if len(values) else -1.0


def whole(values: Column) -> float:
    """The mean over all measurements: the larger, the faster the convergence."""
    return float(values.mean()) if len(values) else -1.0


def first_round(run: Finished, measure: str, target: float) -> int | None:
    """The first measured round at which a target is met."""
    if measure not in run.columns:
        return None
    met = np.flatnonzero(run.columns[measure] >= target)
    return int(run.columns["round"][met[0]]) if len(met) else None


def arrivals(timed: Sequence[tuple[Finished, Column]], measure: str, target: float) -> dict[int, float]:
    """Seconds to a target by seed, of those that met it; ``timed`` has each round's end."""
    rounds = {run.trial.seed: (first_round(run, measure, target), clock) for run, clock in timed}
    return {seed: float(clock[found - 1]) for seed, (found, clock) in rounds.items() if found is not None}


def by_seed(runs: Sequence[Finished], measure: str, figure: Any) -> dict[int, float]:
    """A figure of each seed's curve, in percent; runs that diverged have none."""
    good = [run for run in runs if run.status == "done" and measure in run.columns]
    return {run.trial.seed: 100 * figure(run.columns[measure]) for run in good}


def of_case(found: Sequence[Finished], case: str, method: str = "p-fedavg") -> list[Finished]:
    """The runs of a case."""
    return [run for run in found if (run.trial.case, run.trial.method) == (case, method)]


def gap(one: Mapping[int, float], other: Mapping[int, float]) -> Interval:
    """The mean difference over the seeds that both have."""
    return mean_interval([one[seed] - other[seed] for seed in sorted(set(one) & set(other))])


def above(interval: Interval, level: float = 0.0) -> bool | None:
    """Whether a value lies above a level; None where its interval does not tell."""
    if interval.low > level:
        return True
    return False if interval.high < level else None


def all_of(verdicts: Iterable[bool | None]) -> bool | None:
    """One contradiction refutes; one doubt leaves it open."""
    known = list(verdicts)
    if False in known:
        return False
    return None if None in known else True


Lines = Sequence[tuple[Column, Column]]


def lines(runs: Sequence[Finished], measure: str) -> Lines:
    """Rounds and a measure of every run that has it."""
    return [(run.columns["round"], run.columns[measure]) for run in runs if measure in run.columns]


def draw_lines(panels: Mapping[str, Mapping[str, Lines]], title: str, xlabel: str) -> Any:
    """A panel per case, two in a row, a colour per line: its seeds thin, their mean thick while all of them last."""
    across, down = min(2, len(panels)), -(-len(panels) // 2)
    figure = new_figure((max(5.0 * across, 6.0), 3.6 * down + 0.4), title)
    axes = list(figure.subplots(down, across, squeeze=False).flat)
    for ax, (case, named) in zip(axes, panels.items(), strict=False):
        for place, (label, seeds) in enumerate(named.items()):
            _draw_line(ax, seeds, f"C{place}", label)
        ax.set_title(case, loc="left", fontsize=10)
        ax.set(xlabel=xlabel, ylabel="test accuracy / %")
        ax.xaxis.get_major_locator().set_params(integer=True)
        ax.legend(frameon=False, loc="lower right", fontsize=8)
        plain(ax)
    for ax in axes[len(panels) :]:
        ax.set_visible(False)
    return figure


def _draw_line(ax: Any, seeds: Lines, color: str, label: str) -> None:
    for x, y in seeds:
        ax.plot(x, 100 * y, color=color, linewidth=0.5, alpha=0.4)
    if seeds:
        grid = np.linspace(max(x[0] for x, _ in seeds), min(x[-1] for x, _ in seeds), 200)
        middle = np.mean([np.interp(grid, x, y) for x, y in seeds], axis=0)
        ax.plot(grid, 100 * middle, color=color, linewidth=1.6, label=label)


NOTE = (
    "Gaps are means over pairs with the same seed, ratios are geometric means of such pairs, with 95 % intervals"
    " (Student's t): ok is yes or no where the interval decides, and open where it does not. E = 20 local steps of 32"
    " samples, the rate falls as 1/(1 + round/10) (PF-E9). The paper does not state its initial rates: one for each"
    " dataset and all methods was searched for with FedAvg. At the small scale, MNIST among 108 clients and a network"
    " with 32 hidden units."
)
TIME_NOTE = (
    "Learning does not depend on time in these synchronous methods: models are trained once, and the time of each"
    " round comes from a dry run in the network, with the paper's model size at any scale. A client's link is steady,"
    " with the mean and spread of recorded 4G rates; a server's clients share"
    f" {SERVER_MBPS} Mbit/s (pfedavg-table5). "
)
