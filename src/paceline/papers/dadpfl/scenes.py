"""DA-DPFL (TNNLS): where its trained experiments take place, what a run costs, and how runs are compared.

All methods learn from the same clients with the same rate, batches and five local epochs, and are scored alike: the
mean over clients of the accuracy on test samples in each one's own proportions of labels. Devices are the paper's
(DA-T6): training at a fifth of 80 TFLOPS with 450 W, links of 1 Gbit/s with 1 W.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from paceline.errors import SettingError, nearest
from paceline.papers.dadpfl.costs import MIB
from paceline.papers.dadpfl.energy import GPU_FLOPS, GPU_WATTS, LINK_BITS, LINK_WATTS, SLOWER
from paceline.papers.pfedavg.scenes import above, gap, late
from paceline.papers.result import Request, Row
from paceline.papers.trials import Finished, Laboratory, Trial
from paceline.runs.problem import is_here
from paceline.runs.until import Until
from paceline.statistics import Interval, mean_interval

# -- what the paper prints ------------------------------------------------------------------------------------------

PAPER_TABLE1 = {
    "ham10000": {"fedavg": (65.92, 55.68), "ditto": (65.19, 80.17), "feddst": (66.11, 55.07),
                 "gossipfl": (72.92, 88.05), "dfedavgm": (68.30, 88.89), "dispfl": (71.56, 80.09),
                 "beer": (69.80, 88.75), "dfedsam": (73.74, 88.47), "da-dpfl": (76.32, 88.36)},
    "cifar10": {"fedavg": (79.30, 60.09), "ditto": (73.21, 85.78), "feddst": (78.47, 56.32),
                "gossipfl": (66.43, 86.60), "dfedavgm": (65.05, 85.34), "dispfl": (85.85, 90.45),
                "beer": (62.94, 85.48), "dfedsam": (75.74, 83.51), "da-dpfl": (89.08, 91.87)},
    "cifar100": {"fedavg": (46.21, 41.26), "ditto": (34.83, 64.41), "feddst": (46.01, 41.42),
                 "gossipfl": (45.09, 66.03), "dfedavgm": (24.11, 57.41), "dispfl": (51.05, 72.22),
                 "beer": (27.79, 58.71), "dfedsam": (47.86, 71.76), "da-dpfl": (53.53, 74.91)},
}  # fmt: skip
"""DA-T1: accuracy in percent, Dir and Pat."""
PAPER_SPARSITY = {"ham10000": (0.61, 0.56), "cifar10": (0.65, 0.73), "cifar100": (0.70, 0.73)}
"""DA-DPFL's at the end."""
PAPER_TABLE3 = {
    "ring": {"gossipfl": 66.12, "dfedavgm": 65.89, "dispfl": 67.65, "beer": 62.92, "dfedsam": 66.61,
             "da-dpfl": 69.83},
    "complete": {"gossipfl": 71.22, "dfedavgm": 69.89, "dispfl": 86.54, "beer": 68.77, "dfedsam": 79.63,
                 "da-dpfl": 89.11},
}  # fmt: skip
"""DA-T3: CIFAR-10, Dir(0.3)."""
PAPER_TABLE3_SPARSITY = {"ring": 0.65, "complete": 0.68}
PAPER_FIG6 = {"da-dpfl": 89.0, "dispfl": 83.27}
PAPER_FIG7 = {"cifar10": 1.87, "cifar100": 1.41}
"""Points from N = 0 to N = 10 (DA-T4)."""

# -- where ----------------------------------------------------------------------------------------------------------

METHODS = ("fedavg", "ditto", "feddst", "gossipfl", "dfedavgm", "dispfl", "beer", "dfedsam", "da-dpfl")
"""In the order of Table I."""
SERVED = ("fedavg", "ditto", "feddst")
"""Those with a server (CFL)."""
SPARSE = ("da-dpfl", "dispfl", "feddst")
LEVEL = 1.0
"""Points of accuracy within which two methods count as equally good."""
SLOPE = 0.5
"""BEER's rate relative to the others' (0.05 to 0.1 in the reference code)."""
MBPS = LINK_BITS / 1e6
COMMON = (
    "personal=true",
    f"fleet.times=flops:{GPU_FLOPS / SLOWER:g}",
    f"fleet.watts={GPU_WATTS:g}",
    "fleet.jitter=0",
    f"fleet.links=rate:{MBPS:g},{MBPS:g}",
    f"fleet.link_watts={LINK_WATTS:g}",
    "fleet.receive_watts=0",
    "local.weight_decay=5e-4",
    "local.schedule=exponential:0.998",
    "dfedavgm.base=trained",  # as the reference code adds what comes
    *(f"{name}.accounting=weights" for name in SPARSE),
)


@dataclass(frozen=True, kw_only=True)
class Scene:
    """A dataset and how it is learned."""

    data: str
    overrides: tuple[str, ...]
    splits: Mapping[str, str]
    """Partitions by the paper's names, Dir and Pat."""
    rounds: int
    rate: float = 0.1
    batch: int = 128
    epochs: int = 5
    clients: int = 100
    served: int = 10
    """Clients of a round under a server."""
    degree: int = 10
    """M, which is N too."""
    every: int = 5
    threshold: float = 0.02
    """delta_pr of the vote for pruning."""
    targets: tuple[float, ...] = (0.8,)
    """Accuracies to which rounds are counted."""
    ablation: str = "dir"
    """The split of Figures 5 to 7."""
    stop: float = 0.8
    """s*, the share of zeros at which pruning stops."""
    methods: tuple[str, ...] = METHODS

    def trial(self, case: str, method: str, seed: int, *more: str, rounds: int | None = None) -> Trial:
        """One run; ``case`` begins with the split."""
        split = self.splits[case.partition("-")[0]]
        rate = self.rate * (SLOPE if method == "beer" else 1.0)
        return Trial(
            case=f"{self.data}-{case}",
            method=method,
            rate=rate,
            seed=seed,
            overrides=(
                f"dataset={self.data}",
                *COMMON,
                *self.overrides,
                f"partition={split}",
                f"clients={self.clients}",
                f"local.batch={self.batch}",
                f"local.epochs={self.epochs}",
                *self.words(),
                *more,
                f"rounds={rounds or self.rounds}",
                f"every={self.every}",
            ),
            until=Until(),
        )

    def words(self) -> tuple[str, ...]:
        """What single methods are told: as many neighbours for all, 3 and 2 of 5 epochs for Ditto (DA-E10)."""
        personal = max(1, round(0.4 * self.epochs))
        return (
            *(f"{name}.participants={self.served}" for name in SERVED),
            f"ditto.local.epochs={max(1, self.epochs - personal)}",
            f"ditto.personal.epochs={personal}",
            f"ditto.personal.batch={self.batch}",
            f"ditto.personal.lr={self.rate:g}",
            *self.linked("random", self.degree),
            f"da-dpfl.wait={self.degree}",
            f"da-dpfl.pruning.threshold={self.threshold:g}",
            f"da-dpfl.pruning.target={self.stop:g}",
        )

    def linked(self, graph: str, degree: int) -> tuple[str, ...]:
        """Who hears whom. GossipFL meets in groups: of M+1 as in the reference code, in pairs where the graph is a
        ring (its two links are used one at a time), all together where it is complete. BEER needs a fixed graph."""
        named = ("da-dpfl", "dispfl", "dfedavgm", "dfedsam")
        group = {"ring": 2, "complete": self.clients}.get(graph, degree + 1)
        fixed = "circulant" if graph == "random" else graph
        return (
            *(f"{name}.neighbours.graph={graph}" for name in named),
            *(f"{name}.neighbours.degree={degree}" for name in named),
            f"gossipfl.group={min(group, self.clients)}",
            f"beer.graph={fixed}",
            f"beer.degree={degree}",
        )


PAT, DIR = "pathological:2,equal", "dirichlet:0.3,equal"
CIFAR10 = Scene(
    data="cifar10",
    overrides=("model=resnet18", "local.augment=crop-flip"),
    splits={"dir": DIR, "pat": PAT},
    rounds=500,
)
PAPER = {
    "cifar10": CIFAR10,
    "cifar100": replace(
        CIFAR10,
        data="cifar100",
        overrides=("model=vgg11", "local.augment=crop-flip", "da-dpfl.regrow=0.5", "da-dpfl.pruning.scale=1.4"),
        splits={"dir": DIR, "pat": "pathological:10,equal"},
        targets=(0.45,),
    ),
    "ham10000": replace(
        CIFAR10,
        data="ham10000",
        overrides=("model=alexnet", "local.schedule=exponential:0.997", "da-dpfl.pruning.scale=1.4"),
        splits={"dir": "dirichlet:0.5,equal", "pat": PAT},
        rounds=300,
        threshold=0.022,
        targets=(0.65,),
        stop=0.7,
    ),
}
"""As in the paper and its scripts (docs/papers/dadpfl.md#reference-code); HAM10000 not oversampled (DA-E8)."""
MIDDLE = {
    "cifar10": replace(
        CIFAR10,
        overrides=(*CIFAR10.overrides, "da-dpfl.pruning.first=5"),
        rounds=16,
        epochs=1,
        batch=32,
        every=4,
        targets=(0.5,),
    )
}
"""ResNet-18 and CIFAR-10 as in the paper with a fifth of its local epochs and few rounds, for one large GPU.

Batches are a quarter of the paper's: with its own a client makes four steps a round and learns nothing in few rounds.
In so few learning does not settle either, so t* is given: a third of the rounds, as the paper found (DA-T4).
"""
SMALL = {
    "digits": Scene(
        data="digits",
        overrides=("model=mlp:64",),
        splits={"dir": DIR, "pat": PAT},
        rounds=30,
        batch=5,
        every=1,
        threshold=0.06,
        targets=(0.97, 0.975),
        ablation="pat",
    ),
    "mnist": Scene(
        data="mnist",
        overrides=("model=mlp:32",),
        splits={"dir": DIR, "pat": PAT},
        rounds=15,
        epochs=1,
        batch=50,
        every=1,
        threshold=0.15,
        targets=(0.97, 0.98),
        ablation="pat",
    ),
}
"""For two cores; targets were chosen on a seed that is not reported, and so were thresholds: with them the first
pruning is at 30 to 40 % of the rounds (DA-T4)."""
SCALES = {"small": SMALL, "middle": MIDDLE, "paper": PAPER}


def scenes(request: Request, names: Sequence[str] | None = None) -> list[Scene]:
    """The datasets of an experiment that are here; at the small scale digits unless another is asked for."""
    scale = request.scale or "small"
    known = {k: scene for k, scene in SCALES[scale].items() if scale == "small" or names is None or k in names}
    default = ["digits"] if scale == "small" else [name for name in known if is_here(name)]
    if request.data is not None and request.data not in known:
        raise SettingError(f"--data is {request.data!r}; {nearest(request.data, known)}")
    wanted = [request.data] if request.data else default
    if not wanted:
        raise SettingError(f"none of {', '.join(known)} is here; `paceline data` says how to get them")
    return [known[name] for name in wanted]


# -- what runs found ------------------------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class Costs:
    """Of a run, per round."""

    traffic: float
    """MiB that the busiest site moves in one direction, as DA-T2 counts: half of what it sends and receives."""
    flops: float
    """Of all clients."""
    joules: float
    """Of all clients and their links."""
    seconds: float


def costs(laboratory: Laboratory, run: Finished) -> Costs:
    """From the run's own summary."""
    found = json.loads((laboratory.root / run.trial.name / "summary.json").read_text(encoding="utf-8"))
    rounds = max(1, found["rounds"])

    def number(name: str) -> float:
        return math.nan if found[name] is None else float(found[name]) / rounds

    return Costs(
        traffic=number("busiest_bytes") / 2 / MIB,
        flops=number("flops"),
        joules=number("joules"),
        seconds=number("time"),
    )


def best(run: Finished) -> float:
    """The best accuracy of a run in percent, as the paper reports."""
    return 100 * float(np.max(run.accuracy))


def final(run: Finished) -> float:
    """The mean of the last tenth of the measurements in percent."""
    return 100 * late(run.accuracy)


def zeros(run: Finished) -> float:
    """The mean share of zeros at the end; dense models have none."""
    return float(run.columns["sparsity"][-1]) if "sparsity" in run.columns else 0.0


def rounds_to(run: Finished, target: float) -> float:
    """The first measured round at a target; infinite if it never came."""
    met = np.flatnonzero(run.accuracy >= target)
    return float(run.columns["round"][met[0]]) if len(met) else math.inf


def by_seed(runs: Sequence[Finished], figure: Callable[[Finished], float]) -> dict[int, float]:
    """A figure of each run that did not diverge."""
    return {run.trial.seed: figure(run) for run in runs if run.status == "done" and len(run.accuracy)}


def interval(runs: Sequence[Finished], figure: Callable[[Finished], float]) -> Interval:
    """Its mean."""
    return mean_interval([*by_seed(runs, figure).values()])


def apart(one: Sequence[Finished], other: Sequence[Finished], figure: Callable[[Finished], float]) -> Interval:
    """The mean difference of pairs with the same seed."""
    return gap(by_seed(one, figure), by_seed(other, figure))


def not_worse(difference: Interval, by: float = LEVEL) -> bool | None:
    """Whether what is compared lies at most so far below; None where the interval does not tell."""
    return above(difference, -by)


def shown(runs: Sequence[Finished], figure: Callable[[Finished], float]) -> str:
    """The mean with its interval, or that nothing is left to average."""
    found = by_seed(runs, figure)
    return str(mean_interval([*found.values()])) if found else "diverged"


def arrivals_row(name: str, one: Sequence[Finished], other: Sequence[Finished], target: float) -> Row:
    """Rounds to a target of two settings, pair by pair; ok if the first needs fewer for certain."""
    mine, theirs = (by_seed(runs, lambda run: rounds_to(run, target)) for runs in (one, other))
    both = sorted(seed for seed in set(mine) & set(theirs) if math.isfinite(mine[seed] + theirs[seed]))
    alone = [sum(math.isfinite(x) for x in found.values()) for found in (mine, theirs)]
    note = f"rounds to {100 * target:g} %; {alone[0]} of {len(mine)} seeds arrived, and {alone[1]} of {len(theirs)}"
    if not both:
        return Row(name, "fewer", "no seed has both", "rounds", None, note)
    saved = mean_interval([theirs[seed] - mine[seed] for seed in both])
    ok = above(saved) if len(both) == len(mine) == len(theirs) else None
    fewer = Interval(0.0 - saved.value, 0.0 - saved.high, 0.0 - saved.low)
    return Row(name, "fewer", str(fewer), "rounds", ok, note)
