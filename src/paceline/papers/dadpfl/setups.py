"""DA-DPFL (TNNLS): where its trained experiments take place.

All methods learn from the same clients with the same rate, batches and five local epochs, and are scored alike: the
mean over clients of the accuracy on test samples in each one's own proportions of labels. Devices are the paper's
(DA-T6): training at a fifth of 80 TFLOPS with 450 W, links of 1 Gbit/s with 1 W.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from paceline.papers.dadpfl.energy import GPU_FLOPS, GPU_WATTS, LINK_BITS, LINK_WATTS, SLOWER
from paceline.papers.dadpfl.printed import SERVED
from paceline.papers.grid import Grid, Scene, Variant, Words, by_variant, choose
from paceline.papers.result import Request
from paceline.papers.trials import Finished, Laboratory

SPARSE = ("da-dpfl", "dispfl", "feddst")
RATE, SLOPE = 0.1, 0.5
"""The learning rate, and BEER's relative to it (0.05 to 0.1 in the reference code)."""
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
class Setup:
    """The clients of a dataset: how many, who hears whom, how they learn and prune."""

    data: str
    words: Words
    splits: Mapping[str, str]
    """Partitions by the paper's names, Dir and Pat."""
    rounds: int
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

    @property
    def scene(self) -> Scene:
        """What all methods have in common, and what single ones are told: 3 and 2 of 5 epochs for Ditto (DA-E10)."""
        personal = max(1, round(0.4 * self.epochs))
        return Scene(
            name=self.data,
            words=(
                f"dataset={self.data}",
                *COMMON,
                *self.words,
                f"clients={self.clients}",
                f"local.batch={self.batch}",
                f"local.epochs={self.epochs}",
                *(f"{name}.participants={self.served}" for name in SERVED),
                f"ditto.local.epochs={max(1, self.epochs - personal)}",
                f"ditto.personal.epochs={personal}",
                f"ditto.personal.batch={self.batch}",
                f"ditto.personal.lr={RATE:g}",
                *self.linked("random", self.degree),
                f"da-dpfl.wait={self.degree}",
                f"da-dpfl.pruning.threshold={self.threshold:g}",
                f"da-dpfl.pruning.target={self.stop:g}",
            ),
            rates=(RATE,),
            slower={"beer": SLOPE},
            rounds=self.rounds,
            every=self.every,
        )

    def linked(self, graph: str, degree: int) -> Words:
        """Who hears whom. GossipFL meets in groups: of M+1 as in the reference code, in pairs of neighbours where
        the graph is a ring, all together where it is complete. BEER needs a fixed graph."""
        named = ("da-dpfl", "dispfl", "dfedavgm", "dfedsam")
        group = {"ring": 2, "complete": self.clients}.get(graph, degree + 1)
        fixed = "circulant" if graph == "random" else graph
        return (
            *(f"{name}.neighbours.graph={graph}" for name in named),
            *(f"{name}.neighbours.degree={degree}" for name in named),
            f"gossipfl.group={min(group, self.clients)}",
            *(["gossipfl.graph=ring"] if graph == "ring" else []),
            f"beer.graph={fixed}",
            f"beer.degree={degree}",
        )

    def variant(self, name: str, case: str = "", *more: str, split: str = "", method: str = "") -> Variant:
        """A variant in one of the splits, without another word in that of the ablations."""
        split = split or self.ablation
        words = (f"partition={self.splits[split]}", *more)
        return Variant(name, f"{split}-{case}" if case else split, words, (method,) if method else None)

    def ladder(self, letter: str, words: Mapping[int, Words]) -> list[Variant]:
        """DA-DPFL with each value of a setting; the one that Table I has too is its own runs."""
        known = {v: (f"{letter}{v}", *more) if v != self.degree else () for v, more in words.items()}
        return [self.variant(f"{letter} = {v}", *more, method="da-dpfl") for v, more in known.items()]

    def ablate(self, laboratory: Laboratory, seeds: int, variants: Sequence[Variant]) -> dict[str, list[Finished]]:
        """DA-DPFL in several variants, and DisPFL where one is made for it."""
        grid = Grid(scenes=[self.scene], methods=("da-dpfl", "dispfl"), variants=variants, seeds=seeds)
        return by_variant(grid.carry_out(laboratory)[self.data])


PAT, DIR = "pathological:2,equal", "dirichlet:0.3,equal"
OVERSAMPLED = "*18,12,6,53,44,1,6"
"""Of HAM10000's classes akiec, bcc, bkl, df, mel, nv and vasc, as the reference code has it: the factors of melanoma
and vascular lesions are exchanged there (DA-E8)."""
CIFAR10 = Setup(
    data="cifar10", words=("model=resnet18", "local.augment=crop-flip"), splits={"dir": DIR, "pat": PAT}, rounds=500
)
PAPER = {
    "cifar10": CIFAR10,
    "cifar100": replace(
        CIFAR10,
        data="cifar100",
        words=("model=vgg11", "local.augment=crop-flip", "da-dpfl.regrow=0.5", "da-dpfl.pruning.scale=1.4"),
        splits={"dir": DIR, "pat": "pathological:10,equal"},
        targets=(0.45,),
    ),
    "ham10000": replace(
        CIFAR10,
        data="ham10000",
        words=("model=alexnet", "local.schedule=exponential:0.997", "da-dpfl.pruning.scale=1.4"),
        splits={"dir": f"dirichlet:0.5,equal{OVERSAMPLED}", "pat": f"{PAT}{OVERSAMPLED}"},
        rounds=300,
        threshold=0.022,
        targets=(0.65,),
        stop=0.7,
    ),
}
"""As in the paper and its scripts (docs/papers/dadpfl.md#reference-code); HAM10000 oversampled (DA-E8)."""
FIRST = (*CIFAR10.words, "da-dpfl.pruning.first=5")
MIDDLE = {"cifar10": replace(CIFAR10, words=FIRST, rounds=16, epochs=1, batch=32, every=4, targets=(0.5,))}
"""ResNet-18 and CIFAR-10 as in the paper with a fifth of its local epochs and few rounds, for one large GPU.

Batches are a quarter of the paper's: with its own a client makes four steps a round and learns nothing in few rounds.
In so few learning does not settle either, so t* is given: a third of the rounds, as the paper found (DA-T4).
"""
DIGITS = Setup(
    data="digits",
    words=("model=mlp:64",),
    splits={"dir": DIR, "pat": PAT},
    rounds=30,
    batch=5,
    every=1,
    threshold=0.06,
    targets=(0.97, 0.975),
    ablation="pat",
)
SMALL = {
    "digits": DIGITS,
    "mnist": replace(
        DIGITS,
        data="mnist",
        words=("model=mlp:32",),
        rounds=15,
        epochs=1,
        batch=50,
        threshold=0.15,
        targets=(0.97, 0.98),
    ),
}
"""For two cores; targets were chosen on a seed that is not reported, and so were thresholds: with them the first
pruning is at 30 to 40 % of the rounds (DA-T4)."""


def setups(request: Request, names: Sequence[str] = tuple(PAPER)) -> list[Setup]:
    """The datasets of an experiment that are here; at the small scale digits unless another is asked for."""
    if request.scale == "small":
        return choose(request, SMALL, ["digits"])
    known = PAPER if request.scale == "paper" else MIDDLE
    return choose(request, {name: known[name] for name in known if name in names})
