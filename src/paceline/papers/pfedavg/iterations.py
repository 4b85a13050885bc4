"""What a global iteration takes in P-FedAvg's experiments: dry runs of the shipped algorithms in stated networks.

The paper names its sources (recorded 4G rates, OFDMA, the capacities of two backbones) and not how they were put
together (PF-E10). What is taken for granted here:

- *Clients' links.* A client has the mean rate of one of the recordings, both ways, for good; without the recordings,
  a draw from a lognormal law with their mean and spread. Table V is linear in the model's size, which transfers
  through recordings with their silences are not: ``RECORDED`` shows those.
- *A server's side.* A server has b Mbit/s for its clients each way, and b is the one constant that is fitted: to
  FedAvg's cell for MNIST, where the server matters most. Everything else follows.
- *How the two meet.* As PF-10 writes it, a transfer takes the server's share and then the client's link,
  K_i s/b + s/b_j (``PF10``); PF-10 counts that once, here it counts down and up, and ``UPLOADS`` has it as written.
  Or transfers run side by side, max-min fairly through both (``FAIR``).
- *Clients' speed.* The milliseconds that the paper measured, times a lognormal factor of median 1.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from paceline.algorithms.base import Algorithm
from paceline.algorithms.dpsgd import DPSGD
from paceline.algorithms.hierfavg import HierFAVG
from paceline.algorithms.pfedavg import PFedAvg
from paceline.algorithms.psfl import PSFL
from paceline.data.files import data_root
from paceline.learn.space import Space
from paceline.ledger import Ledger
from paceline.runs.dry import dry
from paceline.runs.problem import make_space
from paceline.system import AlwaysOn, Cost, Fleet, FreeServer, LawTimes
from paceline.system.cost import FREE
from paceline.system.laws import Discrete, Law, LogNormal
from paceline.system.links import Links, RateLinks, TraceLinks
from paceline.system.network import Network, Sharing, parse_backbone
from paceline.system.traces import BYTES_PER_MBIT, Trace, read_traces
from paceline.worlds.problem import Problem

RECORDINGS = "traces/ghent_4g_lte.csv"
"""Under the data root: 40 downloads over 4G/LTE in Ghent (van der Hooft et al. 2016), the paper's reference 45."""
LIKE_RECORDINGS = LogNormal(median=31.4 * math.exp(-(0.273**2) / 2), sigma=0.273)
"""Where they are absent: their means have a mean of 31.4 Mbit/s and a standard deviation of 8.7."""
SPEED_SIGMA = 0.5
"""Spread of the clients' speed: two thirds of them between 0.6 and 1.6 times the paper's milliseconds."""
SUBCARRIERS = 1200
"""Of 15 kHz in LTE's 20 MHz."""
SERVERS, PER_SERVER = 9, 4
ACTIVE = SERVERS * PER_SERVER

RARER = 3
"""Every change of a recorded rate is an event: so many times fewer rounds are simulated."""

PF10, UPLOADS, FAIR, RECORDED, OFDMA = "PF-10", "uploads", "fair", "recorded", "ofdma"
WORDS = {
    PF10: "server's share, then client's link",
    UPLOADS: "the same, uploads only",
    FAIR: "shared fairly side by side",
    RECORDED: "as recorded, shared fairly",
}


@dataclass(frozen=True)
class Task:
    """A model of the paper and the clients that train it (docs/papers/pfedavg.md#models-data-and-networks)."""

    name: str
    model: str
    shape: tuple[int, ...]
    classes: int
    milliseconds: float
    """Of one local iteration, by the paper."""
    clients: int
    rounds: int
    """Simulated for one seed, where rates are steady."""

    def space(self) -> Space:
        """Return the model's architecture."""
        return make_space(self.model, self.shape, self.classes, "float32")

    @property
    def mbit(self) -> float:
        """Return the model's size in megabits."""
        return self.space().nbytes * 8e-6


TASKS = (
    Task("MNIST", "mlp:512", (1, 28, 28), 10, 2.38, 1000, 12),
    Task("FEMNIST", "cnn1-pfedavg", (1, 28, 28), 62, 4.99, 3550, 6),
    Task("CIFAR-10", "cnn2-pfedavg", (3, 32, 32), 10, 23.25, 200, 6),
)


@dataclass(frozen=True)
class Method:
    """A column of Table V."""

    name: str
    kind: str
    backbone: str = "free"

    def algorithm(self, rounds: int) -> Algorithm:
        """With as many clients a round as the others: 36."""
        if self.kind == "fedavg":
            return PSFL(rounds=rounds, participants=ACTIVE, width=ACTIVE, length=1, sampler="uniform")
        if self.kind == "hierfavg":
            return HierFAVG(rounds=rounds, servers=SERVERS, participants=PER_SERVER, partial=2)
        if self.kind == "dpsgd":
            return DPSGD(rounds=rounds, topology="ring")
        return PFedAvg(rounds=rounds, topology="torus:3x3", participants=PER_SERVER)

    @property
    def steps(self) -> int:
        """Local iterations of a visit: HierFAVG's clients are visited twice."""
        return 10 if self.kind == "hierfavg" else 20

    @property
    def at_server(self) -> int:
        """How many clients take part at each server, the paper's K_i."""
        return ACTIVE if self.kind == "fedavg" else PER_SERVER

    def clients(self, task: Task) -> int:
        """DPSGD has no one to choose among: its clients are those that are active."""
        return ACTIVE if self.kind == "dpsgd" else task.clients


FEDAVG, DECENTRAL = Method("FedAvg", "fedavg"), Method("DPSGD", "dpsgd")
HIERARCHY = {b: Method(f"HierFAVG, {b.title()}", "hierfavg", b) for b in ("geant", "exodus")}
PARALLEL = {b: Method(f"P-FedAvg, {b.title()}", "p-fedavg", b) for b in ("geant", "exodus")}
METHODS = (FEDAVG, *HIERARCHY.values(), DECENTRAL, *PARALLEL.values())
"""In the order of Table V's columns."""


def in_order(backbone: str) -> tuple[Method, ...]:
    """The methods in the paper's order, fastest first."""
    return DECENTRAL, PARALLEL[backbone], HIERARCHY[backbone], FEDAVG


@dataclass(frozen=True)
class Form:
    """How transfers take their time, and b in Mbit/s."""

    kind: str
    mbps: float = math.inf


# -- links ----------------------------------------------------------------------------------------------------------


def recordings() -> Path | None:
    """The recorded rates, if they are there."""
    path = data_root() / RECORDINGS
    return path if path.is_file() else None


@lru_cache(maxsize=4)
def _traces(path: Path) -> tuple[Trace, ...]:
    both = read_traces(path).values()
    return tuple(trace for one in both if (trace := one.down or one.up) is not None)


def client_rates() -> Law:
    """Mbit/s of clients: the recordings' means, or a law like them."""
    path = recordings()
    return LIKE_RECORDINGS if path is None else Discrete(tuple(trace.mean_mbps for trace in _traces(path)))


class ShareThenLink:
    """T_ij = K_i Y_i¹ + Y_j² of PF-10, upward or each way: the server's share of b, then the client's link."""

    def __init__(self, links: RateLinks, form: Form, at_server: int) -> None:
        self._links = links
        self._at_server, self._bytes_per_second = at_server, form.mbps * BYTES_PER_MBIT
        self._both_ways = form.kind == PF10

    def cost(self, source: int, target: int, size: float, now: float) -> Cost:
        """Between a server and a client; who else talks to whom is the network's."""
        if source < 0 and not self._both_ways:
            return FREE
        shared = self._at_server * size / self._bytes_per_second
        return Cost(shared + size / self._links.up(max(source, target)), math.nan)


def connect(form: Form, method: Method, seed: int) -> tuple[Links, Network]:
    """The links, and what transfers of this form share."""
    backbone, law, path = parse_backbone(method.backbone), client_rates(), recordings()
    same = RateLinks(up=law, down=None, seed=seed)  # a client receives as fast as it sends
    if form.kind in (PF10, UPLOADS) and method.kind != "dpsgd":  # which has no server to share
        alone = ShareThenLink(same, form, method.at_server)
        return alone, Network(links=alone, backbone=backbone, seed=seed)
    links: Links = same
    if form.kind == RECORDED and path is not None:
        links = TraceLinks([(trace, trace) for trace in _traces(path)], seed=seed)
    mbps = None if math.isinf(form.mbps) else form.mbps
    sharing = Sharing(SUBCARRIERS if form.kind == OFDMA else None)
    return links, Network(links=links, sharing=sharing, backbone=backbone, seed=seed, server_mbps=mbps)


# -- iterations -----------------------------------------------------------------------------------------------------


def iteration(task: Task, method: Method, form: Form, seed: int) -> float:
    """Milliseconds of a global iteration, on average over a run."""
    links, shared = connect(form, method, seed)
    speed = LogNormal(method.steps * task.milliseconds / 1000, SPEED_SIGMA)
    compute, size = LawTimes(law=speed, seed=seed, jitter=0.0), method.clients(task)
    fleet = Fleet(
        size=size, compute=compute, links=links, availability=AlwaysOn(), server=FreeServer(), network=shared
    )
    problem, rounds = Problem(task.space(), "none", nominal=1), task.rounds // (RARER if form.kind == RECORDED else 1)
    timeline = dry(method.algorithm(rounds), fleet, seed=seed, problem=problem, ledger=Ledger(keep=False))
    return 1000 * timeline.seconds / rounds


def iterations(task: Task, method: Method, form: Form, seeds: int) -> list[float]:
    """Simulate one global iteration for each seed."""
    return [iteration(task, method, form, seed) for seed in range(seeds)]


def fit(kind: str, milliseconds: float, seeds: int) -> Form:
    """b with which FedAvg's iteration on the first task takes so long on average."""
    task = TASKS[0]
    models = (1 if kind == UPLOADS else 2) * ACTIVE * task.mbit

    def taken(form: Form) -> float:
        return math.fsum(iterations(task, FEDAVG, form, seeds)) / seeds / 1000

    wanted = milliseconds / 1000
    if kind in (PF10, UPLOADS):  # the server's share comes on top of what the clients take
        return Form(kind, models / (wanted - taken(Form(kind))))
    form = Form(kind, models / wanted)
    for _ in range(FITTING):
        form = Form(kind, form.mbps * taken(form) / wanted)
    return form


FITTING = 6
"""Corrections of b; the time is nearly inverse to it, and each leaves a small part of the error."""
