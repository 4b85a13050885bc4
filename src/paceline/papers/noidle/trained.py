"""No One Idles (ICML 2023): the experiments with training: accuracies of Tables 1 and 2, Figure 4, and screening.

The paper states neither rounds nor when accuracies were read, and its two tables disagree by six points on the same
network (NI-E8): so differences between methods are compared, not levels. All methods make as many client visits.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from paceline.errors import SettingError, nearest
from paceline.papers.psfl.tables import draw_curves
from paceline.papers.result import Reproduction, Request, Row
from paceline.papers.trials import Column, Finished, Laboratory, Trial, computed
from paceline.runs.problem import is_here
from paceline.runs.until import Until
from paceline.statistics import Interval, mean_interval

# -- what the paper prints: accuracy in percent, (IID, non-IID) ------------------------------------------------------

PAPER_TABLE1 = {
    "mnist": {"fedavg": (93.21, 85.31), "dga": (92.12, 83.72), "mifa": (92.88, 84.73), "spfl": (93.14, 85.26),
              "apfl": (93.08, 85.13)},
    "cifar10": {"fedavg": (85.41, 75.26), "dga": (83.72, 73.24), "mifa": (85.14, 74.78), "spfl": (85.57, 75.31),
                "apfl": (85.34, 75.46)},
}  # fmt: skip
PAPER_TABLE2 = {
    "mnist": {5: (99.31, 99.18), 10: (98.17, 98.09), 15: (96.13, 96.24)},
    "cifar10": {5: (89.22, 89.13), 10: (87.81, 87.76), 15: (86.48, 86.37)},
}
"""Local epochs to the accuracies of FedAvg and PFL."""
ALIKE = 2.0
"""Points within which two methods count as equally good."""
SPLITS = {"iid": "iid", "non-iid": "dominant:0.3"}
METHODS = ("fedavg", "dga", "mifa", "spfl", "apfl", "feddf")


@dataclass(frozen=True, kw_only=True)
class Scene:
    """A dataset and how it is learned."""

    data: str
    overrides: tuple[str, ...]
    rate: float
    rounds: int
    epochs: int = 5
    """Local epochs that stand for the paper's five."""

    def trial(self, case: str, method: str, devices: int, seed: int, *more: str) -> Trial:
        """One run: so many rounds of all devices, or as many visits."""
        every = f"every={2 if method == 'apfl' else 1}"  # APFL aggregates about half of the devices' uploads at once
        fleet = (f"clients={devices}", "fedavg.length=1", f"fedavg.width={devices}", "fedavg.absence=wait")
        return Trial(
            case=f"{self.data}-{case}",
            method=method,
            rate=self.rate,
            seed=seed,
            overrides=(f"dataset={self.data}", *self.overrides, *fleet, *more, "rounds=1000000", every),
            until=Until(visits=float(self.rounds * devices)),
        )


SMALL = Scene(data="digits", overrides=("model=mlp:64", "local.batch=20"), rate=0.1, rounds=30)
RECIPE = ("model=resnet18", "local.batch=128", "local.momentum=0.9", "local.weight_decay=5e-4")
PAPER = {
    "mnist": Scene(data="mnist", overrides=RECIPE, rate=0.01, rounds=20),
    "cifar10": Scene(data="cifar10", overrides=(*RECIPE, "local.augment=crop-flip"), rate=0.01, rounds=100),
}
MIDDLE = {
    name: replace(PAPER["cifar10"], rounds=rounds, epochs=1)
    for name, rounds in (("table1", 12), ("table2", 6), ("fig4", 15))
}
"""ResNet-18 and CIFAR-10 as in the paper with a fifth of its local epochs and few rounds: minutes on a large GPU
instead of hours, and far from convergence."""
SCREENED = ("public=0.1", "algorithm.aggregation.rule=screen")
DISTILLED = ("public=0.1", "algorithm.aggregation.rule=distil")


def _scenes(request: Request, experiment: str = "") -> list[Scene]:
    if request.scale == "middle":
        known, default = {"cifar10": MIDDLE[experiment]}, ["cifar10"]
    elif request.scale == "small":
        known, default = {"digits": SMALL, "mnist": _small_mnist()}, ["digits"]
    else:
        known, default = PAPER, [name for name in PAPER if is_here(name)]
    if request.data is not None and request.data not in known:
        raise SettingError(f"--data is {request.data!r}; {nearest(request.data, known)}")
    wanted = [request.data] if request.data else default
    if not wanted:
        raise SettingError(f"none of {', '.join(known)} is here; `paceline data` says how to get them")
    return [known[name] for name in wanted]


def _small_mnist() -> Scene:
    """MNIST with a small network, for two cores."""
    return Scene(data="mnist", overrides=("model=mlp:32", "local.batch=50"), rate=0.1, rounds=12)


def times(local: float) -> tuple[str, ...]:
    """The recovered timing set: T_l, T_c = 6 s, T_g = T_l, two of ten devices away for T_w = 2 T_l."""
    return (
        f"fleet.times=constant:{local:g}",
        "fleet.jitter=0.05",
        "fleet.links=seconds:3,3",
        f"fleet.server=constant:{local:g}",
        f"fleet.availability=stragglers:0.2,{2 * local:g}",
    )


def table1(request: Request) -> Reproduction:
    """NI-T1: final accuracies of five methods with screening at the server, IID and not."""
    rows: list[Row] = []
    with Laboratory(request) as laboratory:
        for scene in _scenes(request, "table1"):
            trials = [
                scene.trial(
                    split,
                    method,
                    10,
                    seed,
                    f"partition={SPLITS[split]}",
                    *times(19.0),
                    *SCREENED,
                    f"local.epochs={scene.epochs}",
                )
                for split in SPLITS
                for method in METHODS[:5]
                for seed in range(request.seeds)
            ]
            found = laboratory.carry_out(trials)
            for place, split in enumerate(SPLITS):
                here = [one for one in found if one.trial.case == f"{scene.data}-{split}"]
                paper = PAPER_TABLE1.get(scene.data, {})
                rows += _against_fedavg(f"{scene.data}, {split}", here, {m: v[place] for m, v in paper.items()})
        calls = laboratory.calls()
    return computed(calls, rows=rows, note=NOTE, figure=lambda: _curves(found, "Accuracy over virtual time"))


def _against_fedavg(case: str, found: Sequence[Finished], paper: dict[str, float]) -> list[Row]:
    """Final accuracy in percent, and its distance from FedAvg's, pair by pair."""
    final = {method: _finals([one for one in found if one.trial.method == method]) for method in METHODS}
    rows = []
    for method, accuracies in final.items():
        if not accuracies:
            continue
        rows.append(Row(f"{case}: {method}", paper.get(method), str(mean_interval([*accuracies.values()])), "%"))
        if method != "fedavg":
            gap = _gap(accuracies, final["fedavg"])
            printed = paper[method] - paper["fedavg"] if paper else None
            ok = _alike(gap, printed or 0.0)
            rows.append(
                Row(f"{case}: {method} - fedavg", printed, str(gap), "points", ok, f"ok: within {ALIKE:g} points")
            )
    return rows


def _alike(gap: Interval, wanted: float) -> bool | None:
    """Whether a gap is the wanted one within the tolerance; None where seeds scatter by more than that."""
    if np.isnan(gap.low) or gap.high - gap.low > 2 * ALIKE:
        return None
    return bool(abs(gap.value - wanted) <= ALIKE)


def _finals(runs: Sequence[Finished]) -> dict[int, float]:
    """Accuracy in percent by seed: the mean of the last tenth of the measurements, since single rounds scatter."""
    good = [run for run in runs if len(run.accuracy) and run.status == "done"]
    return {run.trial.seed: 100 * _late(run.accuracy) for run in good}


def _late(values: Column) -> float:
    return float(values[-max(1, len(values) // 10) :].mean())


def _gap(one: dict[int, float], other: dict[int, float]) -> Interval:
    return mean_interval([one[seed] - other[seed] for seed in sorted(set(one) & set(other))])


def table2(request: Request) -> Reproduction:
    """NI-T2: distillation at the server, no stragglers; FedAvg and the parallel one, by local epochs."""
    rows: list[Row] = []
    with Laboratory(request) as laboratory:
        for scene in _scenes(request, "table2"):
            epochs = tuple(PAPER_TABLE2["mnist"])
            fleet = ("fleet.times=constant:4", "fleet.jitter=0", "fleet.server=constant:4", "partition=iid")
            found = laboratory.carry_out(
                [
                    scene.trial(
                        f"epochs-{count}",
                        method,
                        10,
                        seed,
                        *fleet,
                        *DISTILLED,
                        f"local.epochs={count * scene.epochs // 5}",
                    )
                    for count in epochs
                    for method in ("fedavg", "spfl")
                    for seed in range(request.seeds)
                ]
            )
            for count in epochs:
                here = [one for one in found if one.trial.case == f"{scene.data}-epochs-{count}"]
                paper = PAPER_TABLE2.get(scene.data, {}).get(count)
                printed = {} if paper is None else dict(zip(("fedavg", "spfl"), paper, strict=True))
                rows += _against_fedavg(f"{scene.data}, {count} epochs", here, printed)
        calls = laboratory.calls()
    return computed(calls, rows=rows, note=NOTE, figure=lambda: _curves(found, "Accuracy with distillation"))


def fig4(request: Request) -> Reproduction:
    """NI-T1, Figure 4: 20 devices; parallel methods are behind and noisier early, and level at the end."""
    rows: list[Row] = []
    with Laboratory(request) as laboratory:
        for scene in _scenes(request, "fig4"):
            found = laboratory.carry_out(
                [
                    scene.trial(
                        "convergence", method, 20, seed, "partition=dominant:0.3", *times(19.0), "local.epochs=1"
                    )
                    for method in ("fedavg", "spfl", "apfl")
                    for seed in range(request.seeds)
                ]
            )
            rows += _early_and_late(scene, found)
        calls = laboratory.calls()
    return computed(
        calls, rows=rows, note=NOTE, figure=lambda: _curves(found, "Accuracy over virtual time, 20 devices")
    )


def _early_and_late(scene: Scene, found: Sequence[Finished]) -> list[Row]:
    """At a tenth of the visits and at the end."""
    rows = []
    for when, share in (("early", 0.1), ("late", 1.0)):
        at = {
            method: {run.trial.seed: 100 * _after(run, share) for run in found if run.trial.method == method}
            for method in ("fedavg", "spfl", "apfl")
        }
        for method in ("spfl", "apfl"):
            gap = _gap(at[method], at["fedavg"])
            if when == "early":
                claim, ok = "behind", None if np.isnan(gap.low) else bool(gap.high < 0)
            else:
                claim, ok = "level", _alike(gap, 0.0)
            rows.append(Row(f"{scene.data}, {when}: {method} - fedavg", claim, str(gap), "points", ok))
    return rows


def _after(run: Finished, share: float) -> float:
    """Accuracy after a share of the visits, between measurements by a straight line."""
    visits = run.columns["visits"]
    return float(np.interp(share * visits[-1], visits, run.accuracy))


ATTACKS = ("sign-flip:0.2,5", "scaled:0.2,-10", "random:0.2,50", "label-flip:0.2")
RULES = ("mean", "screen", "median", "trimmed", "krum")


def screening(request: Request) -> Reproduction:
    """20 % hostile devices of each kind: what screening keeps of the clean accuracy, and plain averaging does not."""
    rows: list[Row] = []
    with Laboratory(request) as laboratory:
        for scene in _scenes(request):
            base = ("partition=dominant:0.3", "public=0.1", "fleet.times=constant:4", "local.epochs=2")
            trials = {
                (attack, rule): [
                    scene.trial(
                        f"{attack.partition(':')[0]}-{rule}", "fedavg", 20, seed, *base, f"hostile={attack}",
                        f"algorithm.aggregation.rule={rule}",
                    )
                    for seed in range(request.seeds)
                ]
                for attack in ("none", *ATTACKS)
                for rule in (RULES if attack != "none" else ("mean",))
            }  # fmt: skip
            found = laboratory.carry_out([trial for group in trials.values() for trial in group])
            finals = {
                key: _finals([one for one in found if one.trial.case == group[0].case])
                for key, group in trials.items()
            }
            rows += _screening_rows(scene.data, finals)
        calls = laboratory.calls()
    return computed(calls, rows=rows, note=NOTE, figure=lambda: _curves(found, "Accuracy under attack"))


def _screening_rows(data: str, finals: dict[tuple[str, str], dict[int, float]]) -> list[Row]:
    clean = finals["none", "mean"]
    rows = [Row(f"{data}: clean, mean", None, str(mean_interval([*clean.values()])), "%")]
    for (attack, rule), accuracies in finals.items():
        if attack == "none":
            continue
        gap = _gap(accuracies, clean) if accuracies else Interval(float("nan"), float("nan"), float("nan"))
        name, ours = f"{data}: {attack}, {rule} - clean", str(gap) if accuracies else "diverged"
        if rule == "screen":
            rows.append(Row(name, "within 2 points", ours, "points", bool(gap.value >= -ALIKE)))
        elif rule == "mean":
            rows.append(Row(name, "more than 2 points", ours, "points", not accuracies or bool(gap.value < -ALIKE)))
        else:
            rows.append(Row(name, None, ours, "points"))
    return rows


KINDS = "logistic+mlp:64+mlp:32,16"


def architectures(request: Request) -> Reproduction:
    """Devices of three architectures: every student taught by all, against each architecture alone."""
    rows: list[Row] = []
    with Laboratory(request) as laboratory:
        for scene in _scenes(request):
            kinds = KINDS if request.scale == "small" else "resnet18+cnn2-pfedavg+lenet"
            base = ("partition=dirichlet:0.5", "public=0.1", "fleet.times=constant:4", "local.epochs=2")
            trials = {
                teach: [
                    scene.trial(
                        f"teach-{teach}", "feddf", 30, seed, *base, f"model={kinds}", f"feddf.teach={teach}",
                        "feddf.participants=15",
                    )
                    for seed in range(request.seeds)
                ]
                for teach in ("true", "false")
            }  # fmt: skip
            found = laboratory.carry_out([trial for group in trials.values() for trial in group])
            taught, alone = ([one for one in found if one.trial.case == group[0].case] for group in trials.values())
            rows += _student_rows(scene.data, kinds.split("+"), taught, alone)
        calls = laboratory.calls()
    return computed(calls, rows=rows, note=NOTE, figure=lambda: _curves(found, "Three architectures"))


def _student_rows(
    data: str, kinds: Sequence[str], taught: Sequence[Finished], alone: Sequence[Finished]
) -> list[Row]:
    rows = []
    for place, kind in enumerate(kinds):
        name = "accuracy" if place == 0 else f"accuracy_{place + 1}_{kind}"
        both = [{run.trial.seed: 100 * _late(run.columns[name]) for run in runs} for runs in (taught, alone)]
        gap = _gap(*both)
        for what, values in zip(("taught by all", "alone"), both, strict=True):
            rows.append(Row(f"{data}: {kind}, {what}", None, str(mean_interval([*values.values()])), "%"))
        ok = None if np.isnan(gap.low) or gap.low <= 0 <= gap.high else bool(gap.low > 0)
        rows.append(Row(f"{data}: {kind}, taught - alone", "better", str(gap), "points", ok))
    return rows


def _curves(found: Sequence[Finished], title: str) -> Any:
    cases = list({one.trial.case: None for one in found})[:4]
    panels = {
        case: {
            method: [one for one in found if (one.trial.case, one.trial.method) == (case, method)]
            for method in METHODS
            if any((one.trial.case, one.trial.method) == (case, method) for one in found)
        }
        for case in cases
    }
    return draw_curves(panels, f"No One Idles: {title}")


NOTE = (
    "All methods make as many client visits (DGA's extra ones count, so it makes half as many rounds). Accuracies are"
    " means of the last tenth of the measurements, in percent;"
    " gaps are means over pairs with the same seed, with 95 % intervals (Student's t). Levels are not the paper's at"
    " the small scale (another dataset and network); its tables disagree among themselves (NI-E8)."
)
