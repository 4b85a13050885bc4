"""PSFL (Zhou et al., INFOCOM 2025): where its trained experiments take place.

The paper states neither rates nor local steps nor how rates were chosen: every method's is tuned (``papers.tuning``).
"""

from __future__ import annotations

from collections.abc import Mapping

from paceline.papers.crossings import OVER
from paceline.papers.grid import Scene, Words, choose
from paceline.papers.result import Request
from paceline.runs.until import Until

STEPS = (5, 20)
"""Local steps."""
SMALL_STEPS = 1
"""At the small scale, so that the time to the target is long beside a round of sequential FL, which nothing can be
scored more often than."""
SPLIT, PARTICIPANTS = "partition=exdir:2,10", "algorithm.participants=20"
DIGITS: Words = ("dataset=digits", "clients=100", "fleet.times=discrete", "local.batch=20")
PAPER = ("clients=500", "fleet.times=discrete", "local.batch=20", "local.weight_decay=1e-4", "local.clip=10")
CIFAR = (*PAPER, "model=cnn-psfl", "local.augment=crop-flip")
DATA: dict[str, Words] = {
    "cifar10": (*CIFAR, "dataset=cifar10"),
    "cifar100": (*CIFAR, "dataset=cifar100"),
    "ham10000": (*PAPER, "dataset=ham10000:28", "model=cnn-ham"),
    "dermamnist": (*PAPER, "dataset=dermamnist", "model=cnn-ham"),
}
"""HAM10000 at 28 pixels a side: the paper does not state a size, and 500 clients have 16 images each. DermaMNIST is
the same images in another split."""
TARGETS = {
    "digits": (0.7, 0.8, 0.85, 0.9),
    "cifar10": (0.40, 0.45, 0.50, 0.55, 0.60),
    "cifar100": (0.10, 0.15, 0.20, 0.25),
    "ham10000": (0.67, 0.69, 0.70),
    "dermamnist": (0.67, 0.69, 0.70),
}
"""Accuracies to which times are counted (Figure 5); rates are tuned for the last one. The paper names 60 % only."""
HORIZONS = {
    "digits": (4000.0, 4000.0),
    "cifar10": (15_000.0, 6_000.0),
    "cifar100": (15_000.0, 6_000.0),
    "ham10000": (10_000.0, 10_000.0),
    "dermamnist": (10_000.0, 10_000.0),
}
"""Virtual seconds to wait for the target, with 5 and with 20 local steps."""
SMALL_TIME, TIME = 300.0, 6000.0
"""Virtual seconds after which accuracies are compared (Figures 8 and 9)."""


def scenes(request: Request) -> list[Scene]:
    """Of Figures 3 to 5: a dataset and a number of local steps each."""
    small = request.scale == "small"
    known = {"digits": DIGITS} if small else DATA
    return [
        Scene(
            name=f"{name}-{steps}-step" + "s" * (steps > 1),
            words=(*words, SPLIT, PARTICIPANTS, f"local.steps={steps}"),
            rates=(),
            until=Until(accuracy=TARGETS[name][-1], time=horizon, over=OVER),
            targets=TARGETS[name],
        )
        for name, words in choose(request, {name: (name, words) for name, words in known.items()})
        for steps, horizon in zip((SMALL_STEPS,) if small else STEPS, HORIZONS[name], strict=False)
    ]


def panels(request: Request, named: Mapping[str, Words]) -> list[Scene]:
    """Of Figures 8 and 9: digits or CIFAR-10 in splits or with participants by name, for so many virtual seconds."""
    small = request.scale == "small"
    known = {"digits": DIGITS} if small else {"cifar10": DATA["cifar10"]}
    (base,) = choose(request, known, [*known])
    return [
        Scene(
            name=name.replace("=", "-").replace(":", "-").replace(",", "-"),
            words=(*base, *words, "local.steps=5"),
            rates=(),
            until=Until(time=SMALL_TIME if small else TIME),
        )
        for name, words in named.items()
    ]


def structured(request: Request) -> Scene:
    """Where structures are compared: digits on two cores, or CIFAR-10 as in the paper."""
    if request.scale == "small":
        words, until = DIGITS, Until(accuracy=0.9, time=1500.0)
    else:
        words, until = (*DATA["cifar10"], PARTICIPANTS), Until(accuracy=0.60, time=15_000.0)
    return Scene(name="", words=(*words, SPLIT, "local.steps=5"), rates=(), until=until)
