"""P-FedAvg (ToN 2022), Figure 2: the speed-up of parallel servers, by formula and through the scheduler.

``rounds`` says what is simulated; here it is set beside the formula.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from paceline.papers.pfedavg.rounds import ALONE, Point, Simulated, harmonic, simulate
from paceline.papers.pictures import new_figure, plain
from paceline.papers.result import Reproduction, Request, Row, by_reference, claimed, compared
from paceline.topology import Graph, parse_graph

SERVERS = 5
CLIENTS = (50, 100, 200, 500, 1000)
STEPS = (1, 5, 20)
BETA = (1, 5, 10, 20, 50)
SIMULATED_BETA = (10, 50)
"""Of the sweep over β; a point with 1000 clients is the dearest to simulate."""
VISITS = 3000
"""Client visits simulated for a point, an algorithm and a seed."""
FEWEST = 4
FAR = 7.0
"""Standard errors at which a simulated mean is called wrong."""
SAME = 1e-9
"""Relative difference up to which a round is the one of its draws: what adding up the clock's times may lose."""
BOUND = (
    "not compared: Theorem 3 adds expectations of separate maxima and so bounds a round from above, for FedAvg and"
    " P-FedAvg both; their quotient is no bound of anything"
)

RING = parse_graph(f"ring:{SERVERS}")


def speedup(clients: int, steps: int, beta: float, graph: Graph) -> float:
    """S_M of PF-11: times add up per server, and the slowest of each kind counts."""
    point = Point(clients, steps, beta)
    return point.bound(ALONE) / point.bound(graph)


@dataclass(frozen=True)
class Speedups:
    """FedAvg's time over P-FedAvg's at one point."""

    point: Point
    fedavg: Simulated
    parallel: Simulated

    @property
    def by_maxima(self) -> float:
        """Of the mean sums of maxima: what S_M is of expectations."""
        return float(self.fedavg.draws.sums().mean() / self.parallel.draws.sums().mean())

    @property
    def all_wait(self) -> float:
        """Of the rounds of Definition 5.1."""
        return float(self.fedavg.rounds.mean() / self.parallel.rounds.mean())

    @property
    def neighbours_wait(self) -> float:
        """Of the time that all rounds took."""
        return self.fedavg.pace / self.parallel.pace

    @property
    def far(self) -> tuple[float, float, float]:
        """Standard errors that FedAvg's sum, P-FedAvg's and their quotient are off; the last to first order."""
        both = self.fedavg.draws, self.parallel.draws
        relative = math.hypot(*(one.standard_error() / one.point.bound(one.graph) for one in both))
        wanted = self.point.bound(ALONE) / self.point.bound(RING)
        return self.fedavg.far(), self.parallel.far(), math.log(self.by_maxima / wanted) / relative

    def rows(self) -> list[Row]:
        """The quotient of sums of maxima against the formula, and besides it the two that can be seen."""
        wanted = self.point.bound(ALONE) / self.point.bound(RING)
        far = self.far
        holds = max(map(abs, far)) <= FAR
        note = (
            f"{self.fedavg.draws.rounds} rounds each; off by {far[0]:.1f}, {far[1]:.1f}, {far[2]:.1f} standard errors"
        )
        name = self.point.name
        return [
            by_reference(Row(f"{name}: simulated, sums of maxima", wanted, self.by_maxima, "times", holds, note)),
            Row(f"{name}: simulated, all servers wait for all", None, self.all_wait, "times", None, BOUND),
            Row(f"{name}: simulated, servers wait for neighbours", None, self.neighbours_wait, "times", None, BOUND),
        ]


def points(beta: Sequence[float]) -> list[Point]:
    """Those over the number of clients, and those over β."""
    over_clients = [Point(clients, steps) for steps in STEPS for clients in CLIENTS]
    return over_clients + [Point(CLIENTS[-1], steps, one) for steps in (1, 20) for one in beta]


def simulated_points() -> list[Point]:
    """Those of the figure that are simulated."""
    return points(SIMULATED_BETA)


def compare(point: Point, seeds: int) -> Speedups:
    """Both algorithms at one point; more seeds are more rounds."""
    rounds = max(FEWEST, seeds * VISITS // point.clients)
    return Speedups(point, simulate(ALONE, point, rounds), simulate(RING, point, rounds))


def fig2(request: Request) -> Reproduction:
    """PF-T6: the speed-up of 5 servers over one, over the number of clients and over β."""
    over_clients = {E: [speedup(K, E, 1, RING) for K in CLIENTS] for E in STEPS}
    over_beta = {E: [speedup(CLIENTS[-1], E, beta, RING) for beta in BETA] for E in (1, 20)}
    rows = [Row(p.name, None, speedup(p.clients, p.steps, p.beta, RING), "times") for p in points(BETA[1:])]
    rows += _shape(over_clients, over_beta)
    found = [compare(point, request.seeds) for point in simulated_points()]
    rows += [*(row for one in found for row in one.rows()), _scheduled(found)]
    return Reproduction(rows=rows, note=_note(3 * len(found)), figure=lambda: _draw(over_clients, over_beta, found))


def _note(checks: int) -> str:
    each = math.exp(-1 - FAR)
    return (
        "Rows without more words are by formula: order statistics of Exp(1) for a ring of 5 servers. The figure"
        " prints no numbers. 'simulated' are dry runs of the shipped FedAvg and P-FedAvg in the same model; for sums"
        f" of maxima the reference is the formula, and ok means within {FAR:g} standard errors, which are known"
        " from the laws, for FedAvg, for P-FedAvg and for their quotient. No sum here has a heavier tail than one"
        f" exponential variable, which is as far off with a probability of {each:.2g}: a false alarm in any of the"
        f" {checks} checks has one of at most {checks * each:.2g}, and the seed is fixed. Rounds are stratified in"
        " the largest server's draw, and clients draw the same for both; each round by itself has the model's law."
        " Theorem 3 is a bound: rounds as they come are shorter, P-FedAvg's more than FedAvg's, and shorter still"
        " where servers wait for their neighbours only, as the algorithm does."
    )


def _shape(over_clients: Mapping[int, list[float]], over_beta: Mapping[int, list[float]]) -> list[Row]:
    """What the text says of the curves."""
    rises = all(np.all(np.diff(values) > 0) for values in over_clients.values())
    falls = all(np.all(np.diff(values) < 0) for values in over_beta.values())
    limit = SERVERS / harmonic(SERVERS)
    by_steps = bool(np.all(np.diff(np.array(list(over_clients.values())), axis=0) < 0))
    note = (
        "PF-11: the text's factor K / max K_i ignores that the slowest of M servers sets the pace, so M / H_M is the"
        " most that many clients can bring"
    )
    return [
        claimed("over the number of clients K", "rises", "rises" if rises else "does not rise", rises),
        claimed("over β", "falls", "falls" if falls else "does not fall", falls),
        claimed("over local steps E", "falls", "falls" if by_steps else "does not fall", by_steps),
        compared("limit for many clients", SERVERS, limit, within=0.01, unit="times", note=note),
    ]


def _scheduled(found: list[Speedups]) -> Row:
    off = max(run.off for one in found for run in (one.fedavg, one.parallel))
    note = (
        "every d_ii' of a round by the ledger against PF-10 of the same draws, and the end of the run against the"
        " recursion in which servers wait for their neighbours"
    )
    return claimed("simulated: rounds", "Definition 5.1's", f"within {off:.1g}, relative", off <= SAME, note)


def _shown(point: Point, over_clients: bool) -> bool:
    return point.beta == 1 if over_clients else point.clients == CLIENTS[-1]


def _draw(
    over_clients: Mapping[int, list[float]], over_beta: Mapping[int, list[float]], found: list[Speedups]
) -> Any:
    figure = new_figure((8, 3.8), f"P-FedAvg, speed-up of {SERVERS} servers over one")
    left, right = figure.subplots(1, 2, sharey=True)
    for axes, x, lines in ((left, CLIENTS, over_clients), (right, BETA, over_beta)):
        for steps, values in lines.items():
            color = f"C{STEPS.index(steps)}"
            axes.plot(x, values, "-", color=color, label=f"E = {steps}")
            mine = [one for one in found if one.point.steps == steps and _shown(one.point, axes is left)]
            at = [one.point.clients if axes is left else one.point.beta for one in mine]
            axes.plot(at, [one.by_maxima for one in mine], "o", color=color, fillstyle="none")
            axes.plot(at, [one.neighbours_wait for one in mine], "+", color=color)
        axes.axhline(SERVERS / harmonic(SERVERS), color="0.6", linestyle=":")
        plain(axes)
    left.plot([], [], "o", color="0.4", fillstyle="none", label="simulated, sums of maxima")
    left.plot([], [], "+", color="0.4", label="simulated, rounds as they come")
    left.plot([], [], ":", color="0.6", label=f"limit {SERVERS / harmonic(SERVERS):.2f}")
    left.legend(frameon=False, fontsize=7)
    left.set(xlabel="clients K, β = 1", ylabel="speed-up", xscale="log")
    right.set(xlabel=f"β, K = {CLIENTS[-1]}")
    return figure
