"""P-FedAvg (ToN 2022): where its trained experiments take place, and how long their rounds take.

Rounds are synchronous, so what is learned does not depend on how long anything takes: models are trained once, with
free links, and the time of every round comes from a dry run of the same settings in the network that is asked about.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from paceline.papers.claims import late
from paceline.papers.crossings import OVER
from paceline.papers.grid import Scene, Words, choose
from paceline.papers.pfedavg.iterations import LIKE_RECORDINGS, SPEED_SIGMA, recordings
from paceline.papers.result import Request, Row
from paceline.papers.trials import Column, Finished, Laboratory
from paceline.papers.tuning import TUNING
from paceline.runs.driver import drive, make_executor
from paceline.runs.making import make_run
from paceline.runs.settings import ExecutorSettings, make_settings

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


def _scene(
    data: str, words: str, rates: tuple[float, ...], rounds: int, targets: tuple[float, float], every: int = 1
) -> Scene:
    """Targets are of the paper's split, and of ``SORTED``; the paper states no initial rates."""
    given = (f"dataset={data}", *COMMON, *words.split())
    return Scene(name=data, words=given, rates=rates, rounds=rounds, every=every, targets=targets)


EASY, FEW, MORE = (0.8, 0.5), (0.01, 0.03, 0.1), (0.03, 0.1, 0.3)
PAPER = {
    "mnist": _scene("mnist", "clients=1000 partition=powerlaw:1.5,2 model=mlp:512", MORE, 100, EASY),
    "cifar10": _scene("cifar10", "clients=200 partition=pathological:2 model=cnn2-pfedavg", FEW, 100, (0.5, 0.3), 5),
    "femnist": _scene("femnist", "clients=355 partition=natural model=cnn1-pfedavg", FEW, 200, (0.6, 0.3), 5),
}
"""As in the paper. MNIST in sizes that follow a power law (PF-E11); of FEMNIST's 3,550 writers ten are one client,
because DPSGD keeps a model for each, 94 GB of them."""
SMALL = {
    "mnist": _scene("mnist", "clients=108 partition=powerlaw:1.5,2 model=mlp:32", (0.1,), 20, EASY),
    "digits": _scene("digits", "clients=54 partition=pathological:2 model=mlp:64", (0.3,), 20, EASY),
}
"""For two cores; the rates were searched for in the same way, among 0.03, 0.1 and 0.3."""
SLOWLY = ("local.steps=2", "hierfavg.local.steps=1", "local.schedule=inverse:100")
"""For races at the small scale: a tenth of the steps a round, so that an accuracy takes many more rounds than a mean
of several scores does."""
RACED = {"digits": 0.9}
"""The accuracy that they are to, where it is another: to 80 % most arrive before five scores can be averaged."""
SORTED = ("clients=18", "partition=dominant:1", "p-fedavg.participants=2", "p-fedavg.layout=blocks")
"""Not the paper's: two clients a server, with one class each. In the paper's split every server has clients of all
classes, and servers differ by chance only."""


def scenes(request: Request, names: Sequence[str]) -> list[Scene]:
    """Return the datasets of a figure; at the small scale the default is digits."""
    if request.scale == "small":
        return choose(request, SMALL, ["digits"])
    return choose(request, {name: PAPER[name] for name in names})


def courses(request: Request, names: Sequence[str], rounds: int) -> list[Scene]:
    """The datasets of a race, where rates are tuned for everybody, so that there are many runs: at the small scale
    digits unless another is asked for, in short rounds, of which there are so many."""
    if request.scale != "small":
        return scenes(request, names)
    return [
        replace(
            one,
            words=(*one.words, *SLOWLY),
            rounds=rounds,
            targets=(RACED.get(one.name, one.targets[0]), *one.targets[1:]),
        )
        for one in choose(request, SMALL, ["digits"])
    ]


def tuned(laboratory: Laboratory, wanted: Sequence[Scene]) -> tuple[list[Scene], list[Row]]:
    """Every scene with the one initial rate, for all methods, that served FedAvg best; and rows that say so."""
    found = laboratory.carry_out(
        [
            scene.trial("rate", "fedavg", SEARCH_SEED, f"rounds={max(1, scene.rounds // 2)}", rate=rate)
            for scene in wanted
            if len(scene.rates) > 1
            for rate in scene.rates
        ]
    )
    chosen, rows = [], []
    for scene in wanted:
        runs = {run.trial.rate: late(run.accuracy) for run in found if run.trial.case == f"{scene.name}-rate"}
        best = max(runs, key=lambda rate: runs[rate]) if runs else scene.rates[0]
        chosen.append(replace(scene, rates=(best,)))
        if runs:
            listed = ", ".join(f"{rate:g}: {100 * value:.1f} %" for rate, value in runs.items())
            note = f"by FedAvg on another seed: {listed}"
            rows.append(Row(f"{scene.name}: initial rate", None, best, "", None, note))
    return chosen, rows


# -- time -----------------------------------------------------------------------------------------------------------

MILLISECONDS = {"mnist": 2.38, "digits": 2.38, "cifar10": 23.25, "femnist": 4.99}
"""Of an SGD step on the paper's GPU (Table IV)."""
TIMED = {"mnist": ("model=mlp:512",), "digits": ("model=mlp:5427",)}
"""Settings for the dry runs that times come from: the paper's model, or as many weights, whatever is trained."""
SERVER_MBPS = 152
"""What a server's clients share, each way: the paper does not say, and this is what pfedavg-table5 fits to FedAvg's
6190 ms for an iteration on MNIST, with fair sharing."""


def network(scene: Scene, backbone: str, method: str = "p-fedavg", *, recorded: bool = False) -> Words:
    """Settings of time as in pfedavg-table5: clients' links are steady, with the mean and spread of 4G recordings.

    Or they are the recordings themselves, silences included. Clients are faster and slower than the paper's GPU.
    """
    law = f"lognormal,{LIKE_RECORDINGS.median:.4g},{LIKE_RECORDINGS.sigma:g}"
    visit = (10 if method == "hierfavg" else 20) * MILLISECONDS[scene.name] / 1000
    return (
        f"fleet.links=trace:{recordings()},same" if recorded else f"fleet.links=rate:{law}/{law}",
        "fleet.sharing=fair",
        f"fleet.server_mbps={SERVER_MBPS}",
        f"fleet.backbone={backbone}",
        f"fleet.times=lognormal:{visit:g},{SPEED_SIGMA:g}",
        "fleet.jitter=0",
    )


def round_times(scene: Scene, trained: Sequence[Finished], here: Words, rounds: int) -> list[Column]:
    """The virtual second at which each of so many rounds is over in a network, for every run, from dry runs."""
    runs = []
    for trial in (run.trial for run in trained):
        words = [*trial.overrides, f"local.lr={trial.rate}", f"seed={trial.seed}", *TIMED.get(scene.name, ()), *here]
        settings = make_settings(trial.method, [*words, f"rounds={rounds}", "every=1"])
        runs.append(make_run(settings, dry=True, keep_spans=False))
    drive(runs, make_executor(ExecutorSettings(device="cpu", threads=1)))
    for run in runs:
        if run.failure is not None:
            raise run.failure
    return [np.array([row["time"] for row in run.rows], float) for run in runs]


_COMMON_NOTE = (
    "Gaps are means over pairs with the same seed, ratios are geometric means of such pairs, with 95 % intervals"
    " (Student's t): ok is yes or no where the interval decides, and open where it does not. E = 20 local steps of 32"
    " samples, the rate falls as 1/(1 + round/10) (PF-E9). At the small scale, MNIST among 108 clients and a network"
    " with 32 hidden units, or digits among 54."
)
NOTE = _COMMON_NOTE + (
    " The paper does not state its initial rates: one for each dataset and all methods was searched for with FedAvg."
)
RACE_NOTE = _COMMON_NOTE + (
    " The paper does not state its initial rates: everybody has its own, of quarter decades, that took the fewest"
    f" rounds with seeds {', '.join(map(str, TUNING))}, which are not reported. Scores are thinned out until all"
    f" lie as far apart in virtual time; 'smoothed' is where the mean of {OVER} scores in a row crosses the target,"
    " 'first' the first score that does. At the small scale these races have rounds of two local steps, and the rate"
    " falls as 1/(1 + round/100)."
)
TIME_NOTE = (
    "Learning does not depend on time in these synchronous methods: models are trained once, and the time of each"
    " round comes from a dry run in the network, with the paper's model size at any scale. A client's link is steady,"
    " with the mean and spread of recorded 4G rates; a server's clients share"
    f" {SERVER_MBPS} Mbit/s (pfedavg-table5). "
)
