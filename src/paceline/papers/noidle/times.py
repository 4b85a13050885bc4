"""No One Idles (ICML 2023), Tables 1 and 2 and Figure 3: speed-ups by formula and by simulation, without training.

The paper prints T_l and T_g in Table 2 only; T_c and T_w are recovered from its speed-ups.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from paceline.papers.noidle.printed import DATASETS, FIGURE_3, ROUNDS, SPEEDUPS
from paceline.papers.pictures import new_figure, plain
from paceline.papers.result import Reproduction, Request, Row, by_reference, claimed, compared
from paceline.plans.overlap import (
    NAMES,
    Overlap,
    apfl_bounds,
    closed_forms,
    compare,
    simulated_cycle,
    simulated_round,
    spfl_of_table1,
)
from paceline.plans.pace import Pace

T_LOCAL = (4.0, 19.0, 185.0)
"""T_l of the three datasets, measured by the paper (Table 2, 5 epochs)."""
T_COMM, WAIT_RATIO = 6.0, 2.0
"""T_c and T_w/T_l: recovered from Table 1, stated nowhere so (NI-E1, NI-E4)."""
PRINTED = 0.005
"""Half of the last printed digit."""
SAME = 1e-6
"""Relative difference up to which formula and simulation are the same."""

BY_FORMULA = (
    "the reference is what the paper's formula gives for these times; ours is the event simulation of the"
    " shipped algorithm, and ok means equal to one part in a million"
)
BATCHING = (
    "NI-E7: the formula max(T_l + T_c, T_g) takes for granted that no upload meets a running aggregation; out of step"
    " it does, and waits for the next one. ok means: between max(a, g) and max(a, 2g), a = T_l + T_c, g = T_g"
)
OUT_OF_STEP = (
    "NI-E7: the printed speed-up is the formula's, which the simulation gives with all devices in step; with"
    " staggered starts the cycle is longer where T_g is not much below T_l + T_c (it is 1.5 T_g from two thirds of"
    " that on), and the speed-up smaller"
)
ABSENCES = (
    "the rows above set FedAvg with stragglers against APFL without, as the paper's formulas do (max(T_l + T_c, T_g)"
    " has no T_w): APFL's devices do not wait for others' absences, but their own still cost them time. Here devices"
    " of both straggle alike"
)
NI_E1 = "NI-E1: the text says T_w/T_l = 3, but the printed speed-ups need 2"
NI_E4 = "NI-E4: the stated bandwidth does not give T_c = 6 s for this network, so T_c is an input"


# -- Table 1 ------------------------------------------------------------------------------------------------------


def table1_paces(comm: float = T_COMM, wait_ratio: float = WAIT_RATIO) -> dict[str, Pace]:
    """The one set of times behind Table 1: T_g = T_l, T_w a multiple of T_l."""
    return {
        name: Pace(t_local=local, t_comm=comm, t_wait=wait_ratio * local, t_aggregate=local)
        for name, local in zip(DATASETS, T_LOCAL, strict=True)
    }


def table1(request: Request, comm: float = T_COMM, wait_ratio: float = WAIT_RATIO) -> Reproduction:
    """NI-T1, the column of speed-ups: by formula, then simulated."""
    found = {name: compare(pace) for name, pace in table1_paces(comm, wait_ratio).items()}
    rows = [
        _times(f"{name}: {NAMES[method]}, speed-up", printed[place], both.methods[method].speedup)
        for method, printed in SPEEDUPS.items()
        for place, (name, both) in enumerate(found.items())
    ]
    for place, (name, both) in enumerate(found.items()):
        rows += [_same(name, both, method) for method in NAMES if method != "apfl"]
        rows += _apfl_rows(name, both, SPEEDUPS["apfl"][place])
    return Reproduction(rows=rows, note=_table1_note(comm, wait_ratio))


def _same(name: str, found: Overlap, method: str) -> Row:
    """FedAvg, DGA, MIFA and SPFL: the simulation must give the formula's seconds."""
    one, what = found.methods[method], f"{name}: {NAMES[method]}, round simulated"
    within = SAME * one.closed_form
    return by_reference(compared(what, one.closed_form, one.simulated, within=within, unit="s", note=BY_FORMULA))


def _apfl_rows(name: str, found: Overlap, printed: float) -> list[Row]:
    """APFL: in step as the formula has it, out of step between the bounds."""
    apfl, fedavg = found.methods["apfl"], found.methods["fedavg"]
    together = fedavg.simulated / found.in_step
    return [
        _bounded(f"{name}: APFL, cycle simulated out of step", found.bounds, apfl.simulated),
        _times(f"{name}: APFL, speed-up simulated in step", printed, together),
        _times(f"{name}: APFL, speed-up simulated out of step", printed, apfl.speedup_simulated, OUT_OF_STEP),
        Row(
            f"{name}: APFL, speed-up simulated out of step, absences on both sides",
            None,
            fedavg.simulated / found.with_absences,
            "times",
            None,
            ABSENCES,
        ),
    ]


def _bounded(name: str, bounds: tuple[float, float], cycle: float) -> Row:
    least, most = bounds
    holds = least * (1 - SAME) <= cycle <= most * (1 + SAME)
    return by_reference(claimed(name, f"{least:g} to {most:g} s", f"{cycle:.4g} s", holds, BATCHING))


def _table1_note(comm: float, wait_ratio: float) -> str:
    other = closed_forms(table1_paces(comm, 3.0)["CIFAR-10"])
    three = "/".join(f"{other['fedavg'] / other[method]:.2f}" for method in ("mifa", "spfl", "apfl"))
    return (
        f"One set of times gives all nine printed speed-ups: T_l = {'/'.join(f'{t:g}' for t in T_LOCAL)} s (Table 2),"
        f" T_c = {comm:g} s, T_g = T_l, T_w = {wait_ratio:g} T_l. It was found by fitting, so the table shows that"
        f" the printed numbers are the formulas' for one set of times, not that the paper measured these. {NI_E1}; at"
        f" 3 the formulas give {three} for MIFA/SPFL/APFL on CIFAR-10. NI-E2: SPFL by max(T_l + T_c + T_w, T_g); the"
        " form that Table 1 prints, max(T_l + T_c, T_g) + T_w, is the same wherever T_g <= T_l + T_c, as in every row"
        f" here. {NI_E4}. NI-E5: the share of stragglers is in no formula, since a synchronous round waits in full if"
        " any device straggles (the introduction's lower figure, 1.77, follows from none of this); simulated are 10"
        " devices, 2 of them late at every visit. NI-E7: for APFL the simulation gives all printed speed-ups only if"
        f" all devices are in step. Tolerance: {PRINTED} for speed-ups."
    )


# -- Table 2 ------------------------------------------------------------------------------------------------------


def table2_pace(local: float, server: float) -> Pace:
    """Table 2: no stragglers, T_c left out."""
    return Pace(t_local=local, t_comm=0.0, t_wait=0.0, t_aggregate=server, dropout=0.0)


def table2(request: Request, slower: float = 1.0) -> Reproduction:
    """NI-T2, seconds and speed-ups; ``slower`` multiplies the server's times."""
    rows: list[Row] = []
    for name, (local, server, *printed) in ROUNDS.items():
        rows += _table2_rows(name, table2_pace(local, slower * server), printed)
    note = (
        "T_l and T_g are the paper's measurements, taken as given; FedAvg is T_l + T_g and PFL max(T_l, T_g), with"
        f" neither stragglers nor transfers. Tolerance: {PRINTED} for speed-ups, none for seconds by formula. The"
        " accuracies of the table need training and are not compared here."
    )
    return Reproduction(rows=rows, note=note)


def _table2_rows(name: str, pace: Pace, printed: Sequence[float]) -> list[Row]:
    formulas = closed_forms(pace)
    fedavg, spfl = (simulated_round(pace, method) for method in ("fedavg", "spfl"))
    together, apart = simulated_cycle(pace, in_step=True), simulated_cycle(pace)
    of_fedavg, of_pfl, speedup = printed
    return [
        compared(f"{name}: FedAvg, round", of_fedavg, formulas["fedavg"], within=0, unit="s"),
        compared(f"{name}: PFL, round", of_pfl, formulas["spfl"], within=0, unit="s"),
        _times(f"{name}: PFL, speed-up", speedup, formulas["fedavg"] / formulas["apfl"]),
        _all_equal(name, formulas, {"fedavg": fedavg, "spfl": spfl, "apfl": together}),
        _times(f"{name}: SPFL, speed-up simulated", speedup, fedavg / spfl),
        _times(f"{name}: APFL, speed-up simulated in step", speedup, fedavg / together),
        _bounded(f"{name}: APFL, cycle simulated out of step", apfl_bounds(pace), apart),
        _times(f"{name}: APFL, speed-up simulated out of step", speedup, fedavg / apart, OUT_OF_STEP),
    ]


def _times(name: str, paper: float, ours: float, note: str = "") -> Row:
    return compared(name, paper, ours, within=PRINTED, unit="times", note=note)


def _all_equal(name: str, formulas: Mapping[str, float], simulated: Mapping[str, float]) -> Row:
    """That what the speed-ups are made of is the same by formula and in the simulation."""
    wanted = {method: formulas[method] for method in simulated}
    holds = all(abs(simulated[method] - wanted[method]) <= SAME * wanted[method] for method in simulated)
    paper, ours = (", ".join(f"{seconds:g}" for seconds in some.values()) for some in (wanted, simulated))
    title = f"{name}: FedAvg, SPFL, APFL in step, simulated"
    return by_reference(claimed(title, f"{paper} s", f"{ours} s", holds, BY_FORMULA))


# -- Figure 3 -----------------------------------------------------------------------------------------------------

SWEEPS = {"waits": (1.0, 2.0, 3.0, 4.0, 5.0), "servers": (0.25, 0.5, 1.0, 2.0, 4.0)}
"""The ratios T_w/T_l (with T_g = T_l) and T_g/T_l (with T_w = T_l)."""
CURVES = ("apfl", "mifa", "spfl")
AXES = {"waits": "T_w/T_l", "servers": "T_g/T_l"}


def fig3_pace(sweep: str, ratio: float, local: float = T_LOCAL[1], comm: float = T_COMM) -> Pace:
    """A point of a sweep, with CIFAR-10's times."""
    wait, server = (ratio, 1.0) if sweep == "waits" else (1.0, ratio)
    return Pace(t_local=local, t_comm=comm, t_wait=wait * local, t_aggregate=server * local)


def fig3(request: Request, comm: float = T_COMM) -> Reproduction:
    """NI-T3: the speed-ups over how long stragglers are away, and over how slow the server is."""
    found = {
        sweep: {ratio: compare(fig3_pace(sweep, ratio, comm=comm)) for ratio in ratios}
        for sweep, ratios in SWEEPS.items()
    }
    rows = [
        _fig3_row(sweep, method, ratio, both.methods[method].speedup)
        for sweep, points in found.items()
        for method in CURVES
        for ratio, both in points.items()
    ]
    for sweep, points in found.items():
        rows += _fig3_simulated(sweep, points)
    rows += [*_largest(found["servers"], comm), *_other_form(found["servers"])]
    note = (
        "The paper names three numbers of the figure, the others are ours. T_c/T_l = 6/19, CIFAR-10's in Table 1;"
        " FedAvg by T_l + T_c + T_w + T_g. NI-E3: the captions repeat symbols; the left sweep fixes T_g/T_l = 1, the"
        f" right one T_w/T_l = 1, as the numbers confirm. {NI_E1} in Table 1; here T_w is swept. NI-E2: SPFL by"
        f" max(T_l + T_c + T_w, T_g). {NI_E4}. NI-E5: the share of stragglers is in no formula. Tolerance: {PRINTED}."
    )
    return Reproduction(rows=rows, note=note, figure=lambda: _draw(found, comm))


def _fig3_row(sweep: str, method: str, ratio: float, speedup: float) -> Row:
    name = f"{AXES[sweep]} = {ratio:g}: {NAMES[method]}, speed-up"
    printed = FIGURE_3.get((sweep, method, ratio))
    return Row(name, None, speedup, "times") if printed is None else _times(name, printed, speedup)


def _fig3_simulated(sweep: str, points: Mapping[float, Overlap]) -> list[Row]:
    """That the simulation gives the same curves, and what becomes of APFL's."""
    off = max(
        abs(both.methods[method].simulated / both.methods[method].closed_form - 1)
        for both in points.values()
        for method in ("fedavg", "mifa", "spfl")
    )
    name = f"{AXES[sweep]}: simulated rounds of FedAvg, MIFA, SPFL"
    rows = [by_reference(claimed(name, "the formulas'", f"within {off:.1g}, relative", off <= SAME, BY_FORMULA))]
    for ratio, both in points.items():
        at = f"{AXES[sweep]} = {ratio:g}: APFL"
        apfl = both.methods["apfl"]
        rows += [
            _bounded(f"{at}, cycle simulated out of step", both.bounds, apfl.simulated),
            Row(f"{at}, speed-up simulated out of step", None, apfl.speedup_simulated, "times", None, OUT_OF_STEP),
        ]
    return rows


def _largest(points: Mapping[float, Overlap], comm: float) -> list[Row]:
    """Between the points that the paper draws, the maximum is another one."""
    best = max(points, key=lambda ratio: points[ratio].methods["apfl"].speedup)
    most = _speedup(fig3_pace("servers", (T_LOCAL[1] + comm) / T_LOCAL[1], comm=comm), "apfl")
    note = "the largest over all T_g is at T_g = T_l + T_c, which the paper's sweep has no point at"
    return [
        claimed("T_g/T_l of APFL's largest speed-up, of those drawn", "1", f"{best:g}", best == 1.0),
        Row("T_g = T_l + T_c: APFL, speed-up", None, most, "times", None, note),
    ]


def _other_form(points: Mapping[float, Overlap]) -> list[Row]:
    """NI-E2: where the two forms of SPFL's time differ, the simulation says which one is right."""
    rows = []
    for ratio, both in points.items():
        other, spfl = spfl_of_table1(both.pace), both.methods["spfl"]
        if abs(other - spfl.closed_form) <= SAME * other:
            continue
        fedavg = both.methods["fedavg"].closed_form
        note = (
            "NI-E2: max(T_l + T_c, T_g) + T_w, as Table 1 prints it; max(T_l + T_c + T_w, T_g) gives"
            f" {spfl.speedup:.2f} and the simulation {spfl.speedup_simulated:.2f}, so this form is wrong for slow"
            " servers"
        )
        name = f"T_g/T_l = {ratio:g}: SPFL by the other form, speed-up"
        rows.append(Row(name, None, fedavg / other, "times", None, note))
    return rows


def _draw(found: Mapping[str, Mapping[float, Overlap]], comm: float) -> Any:
    figure = new_figure((10, 4.2), "No One Idles, speed-up over FedAvg")
    panels = figure.subplots(1, 2)
    for axes, (sweep, points) in zip(panels, found.items(), strict=True):
        _draw_sweep(axes, sweep, points, comm)
    panels[0].plot([], [], ":", color="C2", label="SPFL, Table 1's form")
    panels[0].plot([], [], "o", color="0.4", fillstyle="none", label="simulated, APFL out of step")
    panels[0].set_ylim(top=1.15 * panels[0].get_ylim()[1])
    panels[0].legend(frameon=False, fontsize=9, loc="upper left")
    return figure


def _draw_sweep(axes: Any, sweep: str, points: Mapping[float, Overlap], comm: float) -> None:
    ends = min(points), max(points)
    ratios = np.geomspace(*ends, 200) if sweep == "servers" else np.linspace(*ends, 200)
    paces = [fig3_pace(sweep, float(ratio), comm=comm) for ratio in ratios]
    for place, method in enumerate(CURVES):
        axes.plot(ratios, [_speedup(pace, method) for pace in paces], color=f"C{place}", label=NAMES[method])
        simulated = [both.methods[method].speedup_simulated for both in points.values()]
        axes.plot(list(points), simulated, "o", color=f"C{place}", fillstyle="none")
    if sweep == "servers":
        other = [closed_forms(pace)["fedavg"] / spfl_of_table1(pace) for pace in paces]
        axes.plot(ratios, other, ":", color="C2")
        axes.set_xscale("log", base=2)
    marks = [(ratio, value) for (which, _, ratio), value in FIGURE_3.items() if which == sweep]
    axes.plot(*zip(*marks, strict=True), "x", color="0.2", label="printed in the paper")
    axes.set_xticks(list(points), [f"{ratio:g}" for ratio in points])
    axes.set(xlabel=f"${AXES[sweep]}$", ylabel="speed-up", ylim=(0.8, None))
    axes.set_title("$T_g = T_l$" if sweep == "waits" else "$T_w = T_l$", loc="left", fontsize=10)
    plain(axes)


def _speedup(pace: Pace, method: str) -> float:
    formulas = closed_forms(pace)
    return formulas["fedavg"] / formulas[method]
