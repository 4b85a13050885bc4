"""No One Idles (ICML 2023): the experiments with training: accuracies of Tables 1 and 2, Figure 4, and screening.

The paper states neither rounds nor when accuracies were read, and its two tables disagree by six points on the same
network (NI-E8): so differences between methods are compared, not levels. All methods make as many client visits.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import product

import numpy as np

from paceline.papers.claims import Claim, above, below, by_seed, final, gap, late, percent, percentage, table
from paceline.papers.grid import ENDLESS, Found, Grid, Scene, Variant, Words, by_variant, choose
from paceline.papers.noidle.printed import DISTILLED, SCREENED, TABLED
from paceline.papers.pictures import draw_curves
from paceline.papers.result import Reproduction, Request, Row
from paceline.papers.trials import Finished, Laboratory, trained
from paceline.runs.until import Until
from paceline.statistics import Interval

METHODS: Mapping[str, Words] = {"fedavg": (), "dga": (), "mifa": (), "spfl": (), "apfl": ("every=2",)}
"""APFL aggregates about half of the devices' uploads at once, so that two of its rounds are as long as one."""
ALIKE = 2.0
"""Points within which two methods count as equally good."""


# -- where ----------------------------------------------------------------------------------------------------------


def _scene(data: str, rate: float, rounds: int, *words: str) -> Scene:
    return Scene(name=data, words=(f"dataset={data}", *words), rates=(rate,), rounds=rounds)


SMALL = {
    "digits": _scene("digits", 0.1, 30, "model=mlp:64", "local.batch=20"),
    "mnist": _scene("mnist", 0.1, 12, "model=mlp:32", "local.batch=50"),
}
"""For two cores."""
RECIPE = ("model=resnet18", "local.batch=128", "local.momentum=0.9", "local.weight_decay=5e-4")
PAPER = {
    "mnist": _scene("mnist", 0.01, 20, *RECIPE),
    "cifar10": _scene("cifar10", 0.01, 100, *RECIPE, "local.augment=crop-flip"),
    "tiny-imagenet": _scene("tiny-imagenet", 0.01, 100, *RECIPE, "local.augment=crop-flip"),
}
SMALL_DISTILLED = 10
"""Rounds at the small scale with distillation, of which asynchronous methods have one for every few uploads."""
MIDDLE_ROUNDS = {"table1": 12, "table2": 6, "fig4": 15}
"""ResNet-18 and CIFAR-10 as in the paper with a fifth of its local epochs and few rounds: minutes on a large GPU
instead of hours, and far from convergence."""


def scenes(request: Request, devices: int, experiment: str = "") -> list[Scene]:
    """Return the datasets of an experiment; at the small scale the default is digits.

    All methods make as many client visits as all devices make in the scene's rounds.
    """
    if request.scale == "middle":
        middle = replace(PAPER["cifar10"], rounds=MIDDLE_ROUNDS[experiment])
        chosen = choose(request, {"cifar10": middle}, ["cifar10"])
    else:
        chosen = choose(request, SMALL, ["digits"]) if request.scale == "small" else choose(request, PAPER)
    if request.scale == "small" and experiment == "table2":
        chosen = [replace(one, rounds=min(SMALL_DISTILLED, one.rounds)) for one in chosen]
    fleet = (f"clients={devices}", "fedavg.length=1", f"fedavg.width={devices}", "fedavg.absence=wait")
    return [
        replace(one, words=(*one.words, *fleet), rounds=ENDLESS, until=Until(visits=float(one.rounds * devices)))
        for one in chosen
    ]


def epochs(request: Request, papers: int = 5) -> str:
    """Local epochs that stand for the paper's."""
    return f"local.epochs={papers // 5 if request.scale == 'middle' else papers}"


def times(local: float) -> Words:
    """The recovered timing set: T_l, T_c = 6 s, T_g = T_l, two of ten devices away for T_w = 2 T_l."""
    return (
        f"fleet.times=constant:{local:g}",
        "fleet.jitter=0.05",
        "fleet.links=seconds:3,3",
        f"fleet.server=constant:{local:g}",
        f"fleet.availability=stragglers:0.2,{2 * local:g}",
    )


# -- Tables 1 and 2 -------------------------------------------------------------------------------------------------


@trained
def table1(request: Request, laboratory: Laboratory) -> Reproduction:
    """NI-T1: final accuracies of five methods with screening at the server, IID and not."""
    screened = (*times(19.0), "public=0.1", "algorithm.aggregation.rule=screen", epochs(request))
    found = Grid(
        scenes=scenes(request, 10, "table1"),
        methods=METHODS,
        variants=[
            Variant("iid", words=("partition=iid", *screened)),
            Variant("non-iid", words=("partition=dominant:0.3", *screened)),
        ],
        seeds=request.seeds,
    ).carry_out(laboratory)
    return _against_fedavg(found, SCREENED, "Accuracy over virtual time")


@trained
def table2(request: Request, laboratory: Laboratory) -> Reproduction:
    """NI-T2: distillation at the server, no stragglers; FedAvg and the parallel ones, by local epochs."""
    fleet = ("fleet.times=constant:4", "fleet.jitter=0", "fleet.server=constant:4", "partition=iid")
    distilled = (*fleet, "public=0.1", "algorithm.aggregation.rule=distil")
    words = {f"{n} epochs": (*distilled, epochs(request, n)) for n in (5, 10, 15)}
    cases = {name: "-".join(reversed(name.split())) for name in words}
    methods = {method: METHODS[method] for method in ("fedavg", "spfl", "apfl")}
    found = Grid(
        scenes=scenes(request, 10, "table2"),
        methods=methods,
        variants=[
            *(Variant(name, cases[name], those) for name, those in words.items()),
            *(
                Variant(f"{name}{TABLED}", f"{cases[name]}-table", (*those, "apfl.table=true"), ("apfl",))
                for name, those in words.items()
            ),
        ],
        seeds=request.seeds,
    ).carry_out(laboratory)
    joined = {
        data: {name: here[name] | {TABLED: here[f"{name}{TABLED}"]["apfl"]} for name in words}
        for data, here in found.items()
    }
    return _against_fedavg(joined, DISTILLED, "Accuracy with distillation", f" {TABLE2_NOTE}")


TABLE2_NOTE = (
    "The paper calls what it compares with FedAvg PFL and prints one number for it, which stands beside SPFL's and"
    " both forms of APFL: as Algorithm 1 has it, where one upload at a time leaves nothing to distil, and with a"
    " table of all devices' last models, as the reference code has it (NI-E12)."
)


def _against_fedavg(
    found: Mapping[str, Found],
    printed: Mapping[tuple[str, str], Mapping[str, float]],
    title: str,
    note: str = "",
) -> Reproduction:
    """Final accuracy in percent, and its distance from FedAvg's, pair by pair: as far as in the paper."""
    rows = []
    for data, variants in found.items():
        for variant, runs in variants.items():
            case, known = f"{data}, {variant}", printed.get((data, variant), {})
            values = {method: by_seed(those, final) for method, those in runs.items()}
            for method, mine in values.items():
                if mine:
                    rows += table(case, {method: mine}, printed=known)
                if mine and method != "fedavg":
                    gain = known[method] - known["fedavg"] if known else None
                    verdict, level = partial(alike, wanted=gain or 0.0), f"ok: within {ALIKE:g} points"
                    claim = Claim(method, "fedavg", gain, verdict, note=level)
                    rows.append(claim.row(case, values))
    return _told(rows, found, title, note)


def _told(rows: Sequence[Row], found: Mapping[str, Found], title: str, note: str = "") -> Reproduction:
    """With a picture of the last dataset's first four panels, each named as its directory."""
    last = [*found.values()][-1]
    panels = {next(iter(runs.values()))[0].trial.case: runs for runs in [*last.values()][:4]}
    return Reproduction(rows=rows, note=NOTE + note, figure=lambda: draw_curves(panels, f"No One Idles: {title}"))


def alike(found: Interval, wanted: float = 0.0) -> bool | None:
    """Whether a gap is the wanted one within the tolerance; None where seeds scatter by more than that."""
    if np.isnan(found.low) or found.high - found.low > 2 * ALIKE:
        return None
    return bool(abs(found.value - wanted) <= ALIKE)


# -- Figure 4 -------------------------------------------------------------------------------------------------------


@trained
def fig4(request: Request, laboratory: Laboratory) -> Reproduction:
    """NI-T1, Figure 4: 20 devices; parallel methods are behind and noisier early, and level at the end."""
    found = Grid(
        scenes=scenes(request, 20, "fig4"),
        methods={method: METHODS[method] for method in ("fedavg", "spfl", "apfl")},
        variants=[Variant("convergence", words=("partition=dominant:0.3", *times(19.0), "local.epochs=1"))],
        seeds=request.seeds,
    ).carry_out(laboratory)
    rows = []
    for data, variants in found.items():
        for when, share, said, verdict in (("early", 0.1, "behind", behind), ("late", 1.0, "level", alike)):
            values = {
                method: by_seed(those, partial(_after, share=share))
                for method, those in variants["convergence"].items()
            }
            claims = [Claim(one, "fedavg", said, verdict) for one in ("spfl", "apfl")]
            rows += [claim.row(f"{data}, {when}", values) for claim in claims]
    return _told(rows, found, "Accuracy over virtual time, 20 devices")


def behind(found: Interval) -> bool | None:
    """Whether a gap is below 0 for certain; None of one seed."""
    return None if np.isnan(found.low) else bool(below(found))


def _after(run: Finished, share: float) -> float:
    """Accuracy in percent after a share of the visits, between measurements by a straight line."""
    visits = run.columns["visits"]
    return 100 * float(np.interp(share * visits[-1], visits, run.accuracy))


# -- hostile devices, and three architectures -----------------------------------------------------------------------

ATTACKS = ("sign-flip:0.2,5", "scaled:0.2,-10", "random:0.2,50", "label-flip:0.2")
RULES = ("mean", "screen", "median", "trimmed", "krum")


@trained
def screening(request: Request, laboratory: Laboratory) -> Reproduction:
    """20 % hostile devices of each kind: what screening keeps of the clean accuracy, and plain averaging does not."""
    base = ("partition=dominant:0.3", "public=0.1", "fleet.times=constant:4", "local.epochs=2")
    cases = [("none", "mean"), *product(ATTACKS, RULES)]
    found = Grid(
        scenes=scenes(request, 20),
        methods=("fedavg",),
        variants=[
            Variant(
                f"{attack.partition(':')[0]}-{rule}",
                words=(*base, f"hostile={attack}", f"algorithm.aggregation.rule={rule}"),
            )
            for attack, rule in cases
        ],
        seeds=request.seeds,
    ).carry_out(laboratory)
    rows = []
    for data, variants in found.items():
        finals = [by_seed(runs, final) for runs in by_variant(variants).values()]
        rows += _screening_rows(data, dict(zip(cases, finals, strict=True)))
    return _told(rows, found, "Accuracy under attack")


def _screening_rows(data: str, finals: Mapping[tuple[str, str], Mapping[int, float]]) -> list[Row]:
    clean = finals["none", "mean"]
    rows = table(data, {"clean, mean": clean})
    for (attack, rule), accuracies in [*finals.items()][1:]:
        lost = gap(accuracies, clean)
        said, ok = {
            "screen": ("within 2 points", above(lost, -ALIKE)),
            "mean": ("more than 2 points", below(lost, -ALIKE) if accuracies else True),
        }.get(rule, (None, None))
        ours = str(lost) if accuracies else "diverged"
        rows.append(Row(f"{data}: {attack}, {rule} - clean", said, ours, "points", ok))
    return rows


@trained
def architectures(request: Request, laboratory: Laboratory) -> Reproduction:
    """Devices of three architectures: every student taught by all, against each architecture alone."""
    kinds = ("logistic", "mlp:64", "mlp:32,16") if request.scale == "small" else ("resnet18", "cnn2-pfedavg", "lenet")
    learned = ("partition=dirichlet:0.5", "public=0.1", "local.epochs=2", f"model={'+'.join(kinds)}")
    base = (*learned, "fleet.times=constant:4", "feddf.participants=15")
    found = Grid(
        scenes=scenes(request, 30),
        methods=("feddf",),
        variants=[
            Variant("taught by all", "teach-true", (*base, "feddf.teach=true")),
            Variant("alone", "teach-false", (*base, "feddf.teach=false")),
        ],
        seeds=request.seeds,
    ).carry_out(laboratory)
    rows = []
    for (data, variants), (place, kind) in product(found.items(), enumerate(kinds)):
        measure = percent(late, "accuracy" if place == 0 else f"accuracy_{place + 1}_{kind}")
        values = {what: by_seed(runs, measure) for what, runs in by_variant(variants).items()}
        better = gap(*values.values())
        rows += [Row(f"{data}: {kind}, {what}", None, percentage(mine), "%") for what, mine in values.items()]
        rows.append(Row(f"{data}: {kind}, taught - alone", "better", str(better), "points", above(better)))
    return _told(rows, found, "Three architectures")


NOTE = (
    "All methods make as many client visits (DGA's extra ones count, so it makes half as many rounds). Accuracies are"
    " means of the last tenth of the measurements, in percent;"
    " gaps are means over pairs with the same seed, with 95 % intervals (Student's t). Levels are not the paper's at"
    " the small scale (another dataset and network); its tables disagree among themselves (NI-E8)."
)
