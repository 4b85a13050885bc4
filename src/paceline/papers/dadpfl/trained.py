"""DA-DPFL (TNNLS): the experiments with training: Tables I and III, Figures 5, 6 and 7.

At the small scale only the paper's statements about which of two methods is ahead are judged, not its levels.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, TypeVar

from paceline.papers.dadpfl.costs import DENSE, EPOCHS, HALF, PAPER_TABLE2, SAM
from paceline.papers.dadpfl.costs import DIR as DA_DIR
from paceline.papers.dadpfl.costs import PAT as DA_PAT
from paceline.papers.dadpfl.costs import SPARSE as HALVED
from paceline.papers.dadpfl.scenes import (
    LEVEL,
    PAPER_FIG6,
    PAPER_FIG7,
    PAPER_SPARSITY,
    PAPER_TABLE1,
    PAPER_TABLE3,
    PAPER_TABLE3_SPARSITY,
    SERVED,
    Scene,
    apart,
    arrivals_row,
    best,
    costs,
    final,
    interval,
    not_worse,
    scenes,
    shown,
    zeros,
)
from paceline.papers.pfedavg.scenes import above, all_of, draw_lines, lines
from paceline.papers.result import Reproduction, Request, Row
from paceline.papers.trials import Finished, Laboratory, Trial, computed
from paceline.statistics import Interval, mean_interval, ratio_interval

DATASETS = {"cifar10": "CIFAR-10", "cifar100": "CIFAR-100", "ham10000": "HAM10000"}
GROUPS = {"fedavg": DENSE, "ditto": DENSE, "feddst": HALVED, "dispfl": HALVED, "gossipfl": HALF, "dfedavgm": HALF,
          "beer": HALF, "dfedsam": SAM}  # fmt: skip
"""Rows of Table II."""
SPLITS = ("dir", "pat")
Runs = Mapping[str, Sequence[Finished]]
K = TypeVar("K")


# -- Table I --------------------------------------------------------------------------------------------------------


def table1(request: Request) -> Reproduction:
    """DA-T1: nine methods on two splits: accuracy, and what it costs."""
    rows: list[Row] = []
    panels: dict[str, Runs] = {}
    with Laboratory(request) as laboratory:
        for scene in scenes(request):
            trials = {
                (split, method): [scene.trial(split, method, seed) for seed in range(request.seeds)]
                for split in SPLITS
                for method in scene.methods
            }
            found = _carry_out(laboratory, trials)
            for split in SPLITS:
                here = {method: found[split, method] for method in scene.methods}
                panels[f"{scene.data}, {split.capitalize()}"] = here
                rows += _table1_rows(laboratory, scene, split, here, paper=request.scale != "small")
        calls = laboratory.calls()
    return computed(calls, rows=rows, note=f"{NOTE} {TABLE1_NOTE}", figure=lambda: _draw(panels, "Table I"))


def _table1_rows(laboratory: Laboratory, scene: Scene, split: str, runs: Runs, *, paper: bool) -> list[Row]:
    case, place = f"{scene.data}, {split.capitalize()}", SPLITS.index(split)
    printed = {method: pair[place] for method, pair in PAPER_TABLE1.get(scene.data, {}).items()}
    return [
        *(Row(f"{case}: {name}, accuracy", printed.get(name), shown(one, best), "%") for name, one in runs.items()),
        *_cost_rows(laboratory, scene, split, runs, paper=paper),
        *_ahead_rows(case, runs, printed),
        *_issue_rows(case, runs),
    ]


def _cost_rows(laboratory: Laboratory, scene: Scene, split: str, runs: Runs, *, paper: bool) -> list[Row]:
    """Sparsity at the end; traffic, operations, energy and time of a round."""
    case = f"{scene.data}, {split.capitalize()}"
    unit, size = ("1e12", 1e12) if paper else ("1e6", 1e6)
    rows = [Row(f"{case}: {m}, sparsity", _printed_zeros(scene, split, m), shown(one, zeros), "zeros")
            for m, one in runs.items()]  # fmt: skip
    of = {
        m: {run.trial.seed: costs(laboratory, run) for run in one if run.status == "done"} for m, one in runs.items()
    }
    for method, seeds in of.items():
        printed = _printed_load(scene, split, method) if paper else None
        workers = scene.served if method in SERVED else scene.clients
        whole = float(printed[1]) if printed and scene.epochs == EPOCHS else None
        operations = [one.flops / workers / size for one in seeds.values()]
        figures = {
            "busiest traffic": (printed and printed[0], [one.traffic for one in seeds.values()], "MiB"),
            "operations of a client": (whole, operations, unit),
            "energy of all": (None, [one.joules for one in seeds.values()], "J"),
            "time": (None, [one.seconds for one in seeds.values()], "s"),
        }
        for name, (wanted, values, measure) in figures.items():
            ours = str(mean_interval(values)) if values else "diverged"
            rows.append(Row(f"{case}: {method}, {name}", wanted, ours, f"{measure} a round"))
    return rows


def _printed_zeros(scene: Scene, split: str, method: str) -> float | None:
    if scene.data not in PAPER_SPARSITY:
        return None
    if method == "da-dpfl":
        return PAPER_SPARSITY[scene.data][SPLITS.index(split)]
    return 0.5 if method in ("dispfl", "feddst") else 0.0


def _printed_load(scene: Scene, split: str, method: str) -> tuple[float, str] | None:
    """Table II's, where this is its dataset."""
    group = GROUPS.get(method, DA_DIR if split == "dir" else DA_PAT)
    return PAPER_TABLE2[group].get(DATASETS.get(scene.data, ""))


def _ahead_rows(case: str, runs: Runs, printed: Mapping[str, float]) -> list[Row]:
    """How far DA-DPFL is ahead of each other method; ok if the sign is the paper's for certain."""
    rows = []
    for method in (name for name in runs if name != "da-dpfl"):
        lead = apart(runs["da-dpfl"], runs[method], best)
        wanted = printed["da-dpfl"] - printed[method] if printed else None
        found = above(lead)
        ok = found if wanted is None or wanted > 0 or found is None else not found
        rows.append(
            Row(f"{case}: da-dpfl - {method}", "above 0" if wanted is None else wanted, str(lead), "points", ok)
        )
    return rows


def _issue_rows(case: str, runs: Runs) -> list[Row]:
    """Sparser than DisPFL, and no worse."""
    sparser = apart(runs["da-dpfl"], runs["dispfl"], zeros)
    better = apart(runs["da-dpfl"], runs["dispfl"], final)
    return [
        Row(f"{case}: da-dpfl - dispfl, sparsity at the end", "sparser", str(sparser), "zeros", above(sparser)),
        Row(
            f"{case}: da-dpfl - dispfl, last tenth of the rounds",
            "no worse",
            str(better),
            "points",
            not_worse(better),
            f"ok: for certain not more than {LEVEL:g} point below",
        ),
    ]


# -- Table III ------------------------------------------------------------------------------------------------------


SMALL_GRAPH = 30
"""Clients at the small scale: a complete graph of 100 is 9,900 transfers a round."""


def table3(request: Request) -> Reproduction:
    """DA-T3: a ring and a complete graph."""
    rows: list[Row] = []
    panels: dict[str, Runs] = {}
    with Laboratory(request) as laboratory:
        for scene in scenes(request, ("cifar10",)):
            if request.scale == "small":
                scene = replace(scene, clients=SMALL_GRAPH)
            trials = {
                (graph, method): [
                    scene.trial(f"dir-{graph}", method, seed, *scene.linked(graph, _links(scene, graph)))
                    for seed in range(request.seeds)
                ]
                for graph in PAPER_TABLE3
                for method in scene.methods
                if method not in SERVED
            }
            found = _carry_out(laboratory, trials)
            for graph, printed in PAPER_TABLE3.items():
                here = {method: one for (where, method), one in found.items() if where == graph}
                panels[f"{scene.data}, {graph}"] = here
                rows += _table3_rows(scene, graph, here, printed if scene.data == "cifar10" else {})
            rows += _graph_rows(scene, panels)
        calls = laboratory.calls()
    return computed(calls, rows=rows, note=f"{NOTE} {TABLE3_NOTE}", figure=lambda: _draw(panels, "Table III"))


def _links(scene: Scene, graph: str) -> int:
    return 2 if graph == "ring" else scene.clients - 1


def _table3_rows(scene: Scene, graph: str, runs: Runs, printed: Mapping[str, float]) -> list[Row]:
    case = f"{scene.data}, {graph}"
    wanted = PAPER_TABLE3_SPARSITY[graph] if printed else None
    return [
        *(Row(f"{case}: {name}, accuracy", printed.get(name), shown(one, best), "%") for name, one in runs.items()),
        Row(f"{case}: da-dpfl, sparsity", wanted, shown(runs["da-dpfl"], zeros), "zeros"),
        *_ahead_rows(case, runs, printed),
    ]


def _graph_rows(scene: Scene, panels: Mapping[str, Runs]) -> list[Row]:
    """In the paper every method is better on the complete graph."""
    ring, full = (panels[f"{scene.data}, {graph}"] for graph in ("ring", "complete"))
    rows = list[Row]()
    for method in ring:
        better = apart(full[method], ring[method], best)
        complete, two = (PAPER_TABLE3[graph][method] for graph in ("complete", "ring"))
        wanted = complete - two if scene.data == "cifar10" else "above 0"
        rows.append(Row(f"{scene.data}: {method}, complete - ring", wanted, str(better), "points", above(better)))
    return rows


# -- Figures 5, 6 and 7 ---------------------------------------------------------------------------------------------

NEIGHBOURS = (5, 10, 20)
MORE = (10, 20)
"""The two that the paper compares."""


def fig5(request: Request) -> Reproduction:
    """DA-T4: more neighbours M, all of which may be waited for."""
    rows: list[Row] = []
    panels: dict[str, Runs] = {}
    with Laboratory(request) as laboratory:
        for scene in scenes(request):
            trials = {
                M: [
                    _with(scene, f"M{M}", s, *scene.linked("random", M), f"da-dpfl.wait={M}", same=scene.degree == M)
                    for s in range(request.seeds)
                ]
                for M in NEIGHBOURS
            }
            found = _carry_out(laboratory, trials)
            times = {M: {run.trial.seed: costs(laboratory, run).seconds for run in found[M]} for M in NEIGHBOURS}
            panels[scene.data] = {f"M = {M}": found[M] for M in NEIGHBOURS}
            rows += _fig5_rows(scene, found, times)
        calls = laboratory.calls()
    return computed(calls, rows=rows, note=f"{NOTE} {FIG5_NOTE}", figure=lambda: _draw(panels, "Figure 5"))


def _fig5_rows(
    scene: Scene, found: Mapping[int, Sequence[Finished]], times: Mapping[int, Mapping[int, float]]
) -> list[Row]:
    rows, name = list[Row](), scene.data
    for M in NEIGHBOURS:
        rows.append(Row(f"{name}, M = N = {M}: accuracy", None, shown(found[M], best), "%"))
        rows.append(Row(f"{name}, M = N = {M}: time", None, str(mean_interval([*times[M].values()])), "s a round"))
    few, many = MORE
    lead = apart(found[many], found[few], best)
    note = f"ok: for certain not more than {LEVEL:g} point below"
    rows.append(Row(f"{name}: M = {many} - M = {few}", "slightly above", str(lead), "points", not_worse(lead), note))
    seeds = sorted(set(times[few]) & set(times[many]))
    longer = ratio_interval([times[many][s] for s in seeds], [times[few][s] for s in seeds])
    mirrored = Interval(-longer.value, -longer.high, -longer.low)
    ok = all_of([above(longer, 1.5), above(mirrored, -2.5)])
    rows.append(Row(f"{name}: time of M = {many} / M = {few}", "about 2", str(longer), "", ok, "ok: 1.5 to 2.5"))
    return rows


STEPS = (0.5, 1.0, 1.5)
"""Thresholds of the vote, relative to the scene's: the paper's 0.01, 0.02 and 0.03."""


def fig6(request: Request) -> Reproduction:
    """DA-T4: twice the rounds, pruning to 80 % zeros by several thresholds; DisPFL has 80 % from the start."""
    rows: list[Row] = []
    panels: dict[str, Runs] = {}
    with Laboratory(request) as laboratory:
        for scene in scenes(request, ("cifar10",)):
            levels = [scene.threshold * step for step in STEPS]
            more = {
                f"threshold {level:g}": ("da-dpfl", f"long-{level:g}", f"da-dpfl.pruning.threshold={level:g}")
                for level in levels
            }
            more["dispfl"] = ("dispfl", "long", f"dispfl.sparsity={scene.stop:g}")
            trials = {
                name: [
                    scene.trial(f"{scene.ablation}-{case}", method, seed, word, rounds=2 * scene.rounds)
                    for seed in range(request.seeds)
                ]
                for name, (method, case, word) in more.items()
            }
            panels[scene.data] = _carry_out(laboratory, trials)
            rows += _fig6_rows(scene, panels[scene.data])
        calls = laboratory.calls()
    return computed(calls, rows=rows, note=f"{NOTE} {FIG6_NOTE}", figure=lambda: _draw(panels, "Figure 6"))


def _fig6_rows(scene: Scene, runs: Runs) -> list[Row]:
    paper = PAPER_FIG6 if scene.data == "cifar10" else {}
    rows, ours = list[Row](), {name: one for name, one in runs.items() if name != "dispfl"}
    for name, one in ours.items():
        rows.append(Row(f"{scene.data}, {name}: accuracy", paper.get("da-dpfl"), shown(one, best), "%"))
        rows.append(Row(f"{scene.data}, {name}: sparsity", None, shown(one, zeros), "zeros"))
        rows.append(_first_row(f"{scene.data}, {name}: first pruning", one, 2 * scene.rounds))
    rows.append(Row(f"{scene.data}, dispfl: accuracy", paper.get("dispfl"), shown(runs["dispfl"], best), "%"))
    top = max(ours, key=lambda name: interval(ours[name], best).value)
    lead = apart(ours[top], runs["dispfl"], best)
    wanted = paper["da-dpfl"] - paper["dispfl"] if paper else "above 0"
    note = "the threshold is chosen on the same seeds"
    rows.append(Row(f"{scene.data}: {top} - dispfl", wanted, str(lead), "points", above(lead), note))
    least, *larger = sorted(ours, key=lambda name: float(name.split()[1]))
    better = max(larger, key=lambda name: interval(ours[name], best).value)
    gap = apart(ours[better], ours[least], best)
    title = f"{scene.data}: {better} - the least threshold"
    rows.append(Row(title, "above 0", str(gap), "points", above(gap), "the paper: 0.02 to 0.03 of 0.01 to 0.03"))
    return rows


def _first_row(name: str, runs: Sequence[Finished], rounds: int) -> Row:
    """t* as a share of all rounds."""
    firsts = [note["figures"]["first"] / rounds for run in runs for note in run.notes if "first" in note["figures"]]
    note = f"{len(firsts)} of {len(runs)} seeds voted for it"
    if not firsts:
        return Row(name, "0.3 to 0.4", "never", "of all rounds", None, note)
    return Row(name, "0.3 to 0.4", str(mean_interval(firsts)), "of all rounds", None, note)


WAITS = (0, 1, 2, 5, 10)


def fig7(request: Request) -> Reproduction:
    """DA-T4: how many neighbours are waited for."""
    rows: list[Row] = []
    panels: dict[str, Runs] = {}
    with Laboratory(request) as laboratory:
        for scene in scenes(request):
            seeds = range(request.seeds)
            trials = {
                f"N = {N}": [_with(scene, f"N{N}", s, f"da-dpfl.wait={N}", same=scene.degree == N) for s in seeds]
                for N in WAITS
            }
            trials["dispfl"] = [scene.trial(scene.ablation, "dispfl", seed) for seed in seeds]
            panels[scene.data] = _carry_out(laboratory, trials)
            rows += _fig7_rows(scene, panels[scene.data])
        calls = laboratory.calls()
    return computed(calls, rows=rows, note=f"{NOTE} {FIG7_NOTE}", figure=lambda: _draw(panels, "Figure 7"))


def _fig7_rows(scene: Scene, runs: Runs) -> list[Row]:
    rows = [Row(f"{scene.data}, {name}: accuracy", None, shown(one, best), "%") for name, one in runs.items()]
    none, all_ = runs["N = 0"], runs[f"N = {WAITS[-1]}"]
    wanted = PAPER_FIG7.get(scene.data, "above 0")
    lead = apart(all_, none, best)
    title = f"{scene.data}: N = {WAITS[-1]} - N = 0"
    rows.append(Row(title, wanted, str(lead), "points", above(lead)))
    rows += [arrivals_row(f"{title}, rounds to {100 * target:g} %", all_, none, target) for target in scene.targets]
    fixed = apart(none, runs["dispfl"], best)
    rows.append(Row(f"{scene.data}: N = 0 - dispfl", "above 0", str(fixed), "points", above(fixed)))
    return rows


# -- what they share ------------------------------------------------------------------------------------------------


def _with(scene: Scene, name: str, seed: int, *more: str, same: bool = False) -> Trial:
    """DA-DPFL in the scene of the ablations; what changes nothing is Table I's own run, and is not done twice."""
    if same:
        return scene.trial(scene.ablation, "da-dpfl", seed)
    return scene.trial(f"{scene.ablation}-{name}", "da-dpfl", seed, *more)


def _carry_out(laboratory: Laboratory, trials: Mapping[K, Sequence[Trial]]) -> dict[K, list[Finished]]:
    """All of them together; what they found by the same names."""
    found = iter(laboratory.carry_out([one for group in trials.values() for one in group]))
    return {key: [next(found) for _ in group] for key, group in trials.items()}


def _draw(panels: Mapping[str, Runs], title: str) -> Any:
    drawn = {case: {name: lines(one, "accuracy") for name, one in runs.items()} for case, runs in panels.items()}
    return draw_lines(drawn, f"DA-DPFL: {title}", "round")


NOTE = (
    "Accuracies are a run's best, as in the paper, of personal models or of one model for all: the mean over clients"
    " of that on test samples in each one's own proportions of labels. Differences are means over pairs with the same"
    " seed, with 95 % intervals (Student's t): ok is yes or no where the interval decides, and open where not."
    " Levels are not the paper's at the small scale, which has other data and networks."
)
TABLE1_NOTE = (
    "Traffic is half of what the busiest site sends and receives in a round, a mean over all rounds; sparse models"
    " count by weights only, as in Table II. Operations include the dense batch by which weights grow back, and a"
    " server's additions. Energy is that of all clients: 450 W while they compute at 16 TFLOPS (a fifth of the peak,"
    " DA-T6), 1 W while they send at 1 Gbit/s; a server's is not counted. Time is that of a whole round with all"
    " waiting and queueing for links."
)
TABLE3_NOTE = (
    "GossipFL has no graph here: it meets in random pairs for the ring, and all together for the complete graph. At"
    " the small scale 30 clients."
)
FIG5_NOTE = "N = M; the paper's delay is compared with a whole round's time, transfers included."
FIG6_NOTE = (
    "Twice the rounds of Table I. DA-DPFL begins with half of the weights, DisPFL has the target's share of zeros"
    " from the start. Thresholds are half, once and one and a half times the scene's."
)
FIG7_NOTE = "At the small scale clients have two classes each, elsewhere the split is Dir."
