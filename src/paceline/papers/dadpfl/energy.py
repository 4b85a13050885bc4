"""DA-DPFL (TNNLS), Figures 3 and 4: the cost of a round in time and energy, and from which
weighting on DA-DPFL is cheapest.

The loads are Table II's, once as the paper prints them, which are inputs then and said to be, and once as they are
counted here.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from paceline.papers.dadpfl.costs import MIB, NEIGHBOURS, SETTINGS, TERA, Load, loads
from paceline.papers.dadpfl.printed import DENSE, DIR, HALF, PAT, SAM, SPARSE, TABLE2
from paceline.papers.pictures import new_figure, plain
from paceline.papers.result import Reproduction, Request, Row, claimed, compared
from paceline.plans.neighbours import Peers
from paceline.plans.peers import simulate

CLIENTS, PARTICIPANTS = 100, 10
"""K, and the clients of a round under a server."""
GPU_FLOPS, GPU_WATTS, SLOWER = 80e12, 450.0, 5.0
"""The paper's client: its peak, its power, and by how much training is slower than the peak."""
LINK_BITS, LINK_WATTS = 1e9, 1.0
PAPER_CROSSING, ABOUT = 0.2, 0.05
"""From this θ on DA-DPFL is said to be cheapest; about means: rounds to it."""
PAPER_SAVING = 5
"""Times less energy than DFL baselines, at most."""
WAIT_DRAWS = 2000


@dataclass(frozen=True)
class Cost:
    """Seconds and joules of a client's round (DA-T6)."""

    seconds: float
    joules: float

    def at(self, theta: Any) -> Any:
        """C of DA-T6; the weights are applied once (DA-E9)."""
        return (1 - theta) * self.seconds + theta * self.joules


def cost(load: Load, waits: float = 1.0, *, whole: bool = True) -> Cost:
    """``waits`` multiplies the seconds of the round: all of them, or of the computing alone."""
    computing = SLOWER * (load.flops + load.regrowth) / GPU_FLOPS
    moving = 8 * load.bytes / LINK_BITS
    seconds = waits * (computing + moving) if whole else waits * computing + moving
    return Cost(seconds, GPU_WATTS * computing + LINK_WATTS * moving)


def crossing(slow: Cost, fast: Cost) -> float:
    """θ from which the first, which takes more time and less energy, costs less; NaN if there is none."""
    later, saved = slow.seconds - fast.seconds, fast.joules - slow.joules
    return later / (later + saved) if later >= 0 and saved > 0 else float("nan")


def printed_loads(dataset: str) -> dict[str, Load]:
    """Table II as printed: an input of the paper's Figure 3."""
    return {name: Load(row[dataset][0] * MIB, float(row[dataset][1]) * TERA) for name, row in TABLE2.items()}


def mean_longest_wait(seeds: int) -> float:
    """Figure 9's for M = N = 10."""
    (found,) = simulate(Peers(clients=CLIENTS, neighbours=NEIGHBOURS), [None], draws=WAIT_DRAWS * seeds)
    return float(found.max_wait.mean())


def fig3(request: Request) -> Reproduction:
    """DA-T6: the total cost over θ, and from where on DA-DPFL is cheapest."""
    waits = mean_longest_wait(request.seeds)
    printed, counted = printed_loads("CIFAR-10"), loads("CIFAR-10")
    rows = [
        Row("M = N = 10: mean longest wait, which multiplies DA-DPFL's time", None, waits, "trainings"),
        _crossing_row("Table II as printed, Dir over DisPFL", printed, DIR, waits),
        _crossing_row("the same, own visit counted too", printed, DIR, waits + 1),
        _crossing_row("the same, Pat over DisPFL", printed, PAT, waits),
        *_assumptions(printed, waits),
        *(_crossing_row(f"Table II as printed, Dir over {name}", printed, DIR, waits, name) for name in (HALF, SAM)),
        _crossing_row("loads counted here, Dir over DisPFL", counted, DIR, waits, note=COUNTED),
        _crossing_row("loads counted here, Pat over DisPFL", counted, PAT, waits),
        *_savings(),
        *_server_rows(),
    ]
    note = (
        f"T_comp = {SLOWER:g} FLOP/{GPU_FLOPS / TERA:g} TFLOPS at {GPU_WATTS:g} W, T_comm = bytes/1 Gbps at"
        f" {LINK_WATTS:g} W, C = (1-θ) time + θ energy, each weight applied once (DA-E9). The paper does not say how"
        " waiting enters; its 0.2 follows if the mean longest wait multiplies the whole round, transfers included,"
        " and energy is that of one client. All rounds are taken to be alike, so that their number cancels."
        f" ok: within {ABOUT} of {PAPER_CROSSING}. Rows 'as printed' take Table II's numbers as inputs;"
        " those 'counted here' take dadpfl-table2's, with the dense batch and the paper's final sparsities."
    )
    return Reproduction(rows=rows, note=note, figure=lambda: _draw("CIFAR-10", printed, counted, waits))


def fig4(request: Request) -> Reproduction:
    """DA-T6: the same on CIFAR-100."""
    waits = mean_longest_wait(request.seeds)
    printed, counted = printed_loads("CIFAR-100"), loads("CIFAR-100")
    rows = [
        _crossing_row("Table II as printed, Dir over DisPFL", printed, DIR, waits, note=FIGURE4),
        _crossing_row("Table II as printed, Pat over DisPFL", printed, PAT, waits, note=FIGURE4),
        *(_crossing_row(f"Table II as printed, Dir over {name}", printed, DIR, waits, name) for name in (HALF, SAM)),
        _crossing_row("loads counted here, Dir over DisPFL", counted, DIR, waits, note=COUNTED),
        _crossing_row("loads counted here, Pat over DisPFL", counted, PAT, waits, note=COUNTED),
        *_at_rows(printed, waits),
    ]
    note = "As dadpfl-fig3 in everything but the loads, which are Table II's for CIFAR-100 and VGG-11."
    return Reproduction(rows=rows, note=note, figure=lambda: _draw("CIFAR-100", printed, counted, waits))


def _at_rows(of: dict[str, Load], waits: float) -> list[Row]:
    """The cost itself at a few θ, as the figure shows it."""
    costs = {"DisPFL": cost(of[SPARSE]), "DFedSAM": cost(of[SAM]), HALF: cost(of[HALF])}
    costs |= {name: cost(of[name], waits) for name in (DIR, PAT)}
    return [
        Row(f"cost at θ = {theta:g}: {name}", None, float(one.at(theta)), "$ a round")
        for theta in (0.0, 0.5, 1.0)
        for name, one in costs.items()
    ]


COUNTED = (
    "with every layer pruned by the same share, DA-DPFL computes more than the 4.1 that Table II prints; so it saves"
    " less energy, and the crossing comes later"
)
FIGURE4 = (
    "the text says 0.2 of both figures; VGG-11 computes less, so there is less energy to be saved, and by the same"
    " formula the crossing comes later"
)


def _crossing_row(
    title: str, of: dict[str, Load], ours: str, waits: float, other: str = SPARSE, note: str = ""
) -> Row:
    theta = crossing(cost(of[ours], waits), cost(of[other]))
    if other != SPARSE:
        return Row(f"θ of the crossing: {title}", None, theta, note="DisPFL is the baseline that is overtaken last")
    return compared(f"θ of the crossing: {title}", PAPER_CROSSING, theta, within=ABOUT, note=note)


def _assumptions(of: dict[str, Load], waits: float) -> list[Row]:
    """The same crossing under other readings."""
    slow, fast = cost(of[DIR], waits), cost(of[SPARSE])
    computing = crossing(cost(of[DIR], waits, whole=False), fast)
    everybody = crossing(Cost(slow.seconds, CLIENTS * slow.joules), Cost(fast.seconds, CLIENTS * fast.joules))
    odds = crossing(slow, fast) / (1 - crossing(slow, fast))
    return [
        Row("θ if waiting multiplies the computing alone", None, computing),
        Row(f"θ if the energy is that of all {CLIENTS} clients", None, everybody),
        Row("θ if the weights are applied twice", None, float(np.sqrt(odds) / (1 + np.sqrt(odds))), note=TWICE),
    ]


TWICE = "DA-E9: the text also gives (1-θ) $/s and θ $/J as exchange rates"


def _savings() -> list[Row]:
    """How many times less energy DA-DPFL takes than another DFL method, at most."""
    rows = []
    for title, make in (("as printed", printed_loads), ("counted here", loads)):
        found = {
            (dataset, ours): cost(make(dataset)[SAM]).joules / cost(make(dataset)[ours]).joules
            for dataset in SETTINGS
            for ours in (DIR, PAT)
        }
        where, most = max(found.items(), key=lambda item: item[1])
        note = f"the largest is {where[1]} on {where[0]}, over DFedSAM; ok: rounds to {PAPER_SAVING}"
        rows.append(compared(f"energy saved, {title}", PAPER_SAVING, most, within=0.5, unit="times", note=note))
    return rows


def _server_rows() -> list[Row]:
    """Transfers in one direction and clients that train, under a server and without one."""
    moved, trained = 100 * PARTICIPANTS / (CLIENTS * NEIGHBOURS), 100 * PARTICIPANTS / CLIENTS
    return [
        claimed("communication of CFL, relative to DFL", "1 %", f"{moved:g} %", round(moved) == 1),
        claimed("computation of CFL, relative to DFL", "10 %", f"{trained:g} %", round(trained) == 10),
    ]


def _draw(dataset: str, printed: dict[str, Load], counted: dict[str, Load], waits: float) -> Any:
    figure = new_figure((10, 4.2), f"DA-DPFL, cost of a round on {dataset} over θ")
    panels = figure.subplots(1, 2, sharey=True)
    for axes, title, of in zip(panels, ("Table II as printed", "counted here"), (printed, counted), strict=True):
        _draw_costs(axes, of, waits)
        axes.set_title(title, fontsize=10, loc="left")
        axes.set(xlabel="θ: 0 only time counts, 1 only energy", xlim=(0, 1))
        plain(axes)
        axes.legend(frameon=False, fontsize=8)
    panels[0].set(ylabel="cost, $", ylim=(0, None))
    return figure


def _draw_costs(axes: Any, of: dict[str, Load], waits: float) -> None:
    """DFL in solid lines, CFL dotted, as the paper does; under a server fewer clients train and send."""
    theta = np.linspace(0, 1, 201)
    styles = {SAM: ("C4", "DFedSAM"), HALF: ("C2", HALF), SPARSE: ("C0", "DisPFL")}
    for name, (color, label) in styles.items():
        axes.plot(theta, cost(of[name]).at(theta), color=color, label=label)
    for name, color in ((DIR, "C3"), (PAT, "C1")):
        slow = cost(of[name], waits)
        cross = crossing(slow, cost(of[SPARSE]))
        axes.plot(theta, slow.at(theta), color=color, label=f"{name}, below DisPFL from {cross:.2f} on")
        axes.plot([cross], [slow.at(cross)], "o", color=color)
    for name, color, label in ((DENSE, "0.4", DENSE), (SPARSE, "C0", "FedDST")):
        load, trained = of[name], PARTICIPANTS / CLIENTS
        share = Load(load.bytes * trained / NEIGHBOURS, load.flops * trained, load.regrowth * trained)
        cheap = Cost(cost(load).seconds, cost(share).joules)
        axes.plot(theta, cheap.at(theta), ":", color=color, label=label)
