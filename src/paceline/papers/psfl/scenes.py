"""PSFL (Zhou et al., INFOCOM 2025): where its trained experiments take place.

The paper states neither rates nor local steps nor how rates were chosen. So every method is run over the same grid of
rates, and the figures are given both ways: with one rate shared by all methods, and with each method's own best.
"""

from __future__ import annotations

from collections.abc import Mapping

from paceline.papers.grid import Scene, Words, choose
from paceline.papers.result import Request
from paceline.runs.until import Until

GRID = (0.00316, 0.01, 0.0316, 0.1, 0.316)
"""Half decades from 10^-2.5 to 10^-0.5, as the work that the paper builds on (its reference 25) searched."""
DIGIT_RATES = (0.0316, 0.1, 0.316, 1.0)
STEPS = (5, 20)
"""Local steps."""
SPLIT, PARTICIPANTS = "partition=exdir:2,10", "algorithm.participants=20"
DIGITS: Words = ("dataset=digits", "clients=100", "fleet.times=discrete", "local.batch=20")
PAPER = ("clients=500", "fleet.times=discrete", "local.batch=20", "local.weight_decay=1e-4", "local.clip=10")
DATA: dict[str, Words] = {
    "cifar10": (*PAPER, "dataset=cifar10", "model=cnn-psfl", "local.augment=crop-flip"),
    "dermamnist": (*PAPER, "dataset=dermamnist", "model=cnn-ham"),
}
TARGETS = {"digits": 0.9, "cifar10": 0.60, "dermamnist": 0.70}
HORIZONS = {"digits": (2000.0, 2000.0), "cifar10": (15_000.0, 6_000.0), "dermamnist": (10_000.0, 10_000.0)}
"""Virtual seconds to wait for the target, with 5 and with 20 local steps."""


def scenes(request: Request) -> list[Scene]:
    """Of Figures 3 to 5: a dataset and a number of local steps each."""
    small = request.scale == "small"
    known = {"digits": DIGITS} if small else DATA
    return [
        Scene(
            name=f"{name}-{steps}-steps",
            words=(*words, SPLIT, PARTICIPANTS, f"local.steps={steps}"),
            rates=DIGIT_RATES if small else GRID,
            until=Until(accuracy=TARGETS[name], time=horizon),
        )
        for name, words in choose(request, {name: (name, words) for name, words in known.items()})
        for steps, horizon in zip(STEPS, HORIZONS[name], strict=False)
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
            rates=DIGIT_RATES if small else GRID,
            until=Until(time=300.0 if small else 6000.0),
        )
        for name, words in named.items()
    ]


def methods(request: Request) -> dict[str, Words]:
    """With rounds between evaluations: about as many virtual seconds for each."""
    every = (10, 1, 5) if request.scale == "paper" else (1, 1, 1)
    return {name: (f"every={count}",) for name, count in zip(("fedavg", "sfl", "psfl"), every, strict=True)}


def structured(request: Request) -> Scene:
    """Where structures are compared: digits on two cores, or CIFAR-10 as in the paper, at two rates.

    Evaluations are counted for sequences of one client; longer ones are evaluated so many times more often.
    """
    if request.scale == "small":
        words, rates, until, every = DIGITS, (0.1, 0.316), Until(accuracy=0.9, time=1500.0), 1
    else:
        words, rates, every = (*DATA["cifar10"], PARTICIPANTS), (0.0316, 0.1), 10
        until = Until(accuracy=TARGETS["cifar10"], time=15_000.0)
    return Scene(name="", words=(*words, SPLIT, "local.steps=5"), rates=rates, until=until, every=every)
