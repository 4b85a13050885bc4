"""P-FedAvg (ToN 2022), Theorems 1 and 2: the bounds on convergence beside runs on a quadratic.

On a federated quadratic everything in the bounds is known or can be measured: the curvatures, the optimum, the noise,
and G², the largest expected squared gradient that a run meets. The theorems' algorithm is run as they state it: the
rate falls with every local iteration, η_t = 4/(μ(a + t)), and the iterates are averaged with the weights (a + t)².
Each client's loss is curved its own way: if all were curved alike, the mean model would not depend on the graph.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import product
from typing import Any

import numpy as np
from numpy.typing import NDArray

from paceline.data.quadratic import Quadratic, quadratic
from paceline.papers.pfedavg.printed import SERVERS
from paceline.papers.pfedavg.theory import GRAPHS
from paceline.papers.pictures import new_figure, plain
from paceline.papers.result import Reproduction, Request, Row, claimed, compared
from paceline.seeds import stream
from paceline.statistics import mean_interval
from paceline.topology import Mixing, make_mixing, parse_graph

Array = NDArray[np.float64]

PER_SERVER, DRAWN = 4, 2
"""Clients of a server, and how many of them take part in Theorem 2."""
DIMENSION, CONDITION = 8, 4.0
HETEROGENEITY, SIGMA2 = 1.0, 1.0
STEPS = (1, 5, 20)
"""Local iterations E."""
ITERATIONS = 2000
MARKS = (250, 500, 1000, 2000)
"""Iterations T at which the gap is looked at."""
SHOWN = ("complete", "torus", "ring", "barbell")


@dataclass(frozen=True)
class Scene:
    """One run's place: a graph, local iterations, and who takes part."""

    graph: str
    steps: int
    partial: bool

    @property
    def name(self) -> str:
        """As rows call it."""
        return f"{'Theorem 2' if self.partial else 'Theorem 1'}, {self.graph}, E={self.steps}"

    def mixing(self) -> Mixing:
        """With the paper's weights."""
        return make_mixing(parse_graph(GRAPHS[self.graph]), "metropolis")


@dataclass(frozen=True)
class Ran:
    """What the runs of one scene gave, a row for each seed."""

    scene: Scene
    p: float
    gaps: Array
    """f(x_avg(T)) - f* by seed and mark."""
    start: Array
    """Squared distance of the start from the optimum, by seed."""
    gradient2: float
    """G²: the largest expected squared norm of a stochastic gradient that any client met."""
    apart: float
    """The largest of the servers' squared distances from their mean, over Lemma 2's bound of it."""
    problem: Quadratic

    def bound(self, T: int) -> float:
        """Theorem 1's, or Theorem 2's with the square that its first term lacks in print (PF-E6)."""
        one, E2G2 = self.problem, self.scene.steps**2 * self.gradient2
        mu, a = one.convexity, offset(one, self.scene.steps)
        apart = one.value(one.optimum())  # Γ: each client's own least loss is 0
        noise = one.sigma2 / (SERVERS * PER_SERVER)
        inner = 8 * E2G2 + 6 * one.smoothness * apart + 64 * E2G2 / self.p * (2 / self.p + 1) + noise
        inner += 4 * E2G2 / (SERVERS * DRAWN) if self.scene.partial else 0.0
        first = mu * a**3 / T**3 * float(self.start.mean())
        return first + 8 * (2 * a + T) / (mu * T**2) * inner


def offset(problem: Quadratic, steps: int) -> float:
    """a = max(16 L/μ, 2E)."""
    return max(16 * problem.smoothness / problem.convexity, 2.0 * steps)


def run(scene: Scene, seeds: int) -> Ran:
    """All seeds of a scene side by side: arrays are (seed, server, client, coordinate)."""
    problem = quadratic(
        stream(0, "pfedavg", "bounds"),
        clients=SERVERS * PER_SERVER,
        dimension=DIMENSION,
        heterogeneity=HETEROGENEITY,
        sigma2=SIGMA2,
        condition=CONDITION,
        alike=False,
    )
    mixing, rng = scene.mixing(), stream(0, "pfedavg", "bounds", "noise")  # the same for all, as far as it goes
    bend = problem.curvature.reshape(SERVERS, PER_SERVER, DIMENSION, DIMENSION)
    centre, own = problem.centre.reshape(SERVERS, PER_SERVER, DIMENSION), np.arange(SERVERS)[None, :, None]
    optimum, mu, a = problem.optimum(), problem.convexity, offset(problem, scene.steps)
    origin = optimum + 2 * rng.standard_normal((seeds, DIMENSION))
    servers = np.repeat(origin[:, None], SERVERS, axis=1)
    taking = _draw(scene, rng, seeds)
    models, total, weight = np.repeat(servers[:, :, None], taking.shape[2], axis=2), np.zeros_like(origin), 0.0
    most, apart, gaps, least = 0.0, 0.0, list[list[float]](), problem.value(optimum)
    for t in range(ITERATIONS + 1):
        mean = models.mean(axis=(1, 2))
        total, weight = total + (a + t) ** 2 * mean, weight + (a + t) ** 2
        if t in MARKS:
            gaps.append([problem.value(one) - least for one in total / weight])
        slopes = (bend[own, taking] @ (models - centre[own, taking])[..., None])[..., 0]
        most = max(most, float((slopes**2).sum(axis=3).mean(axis=0).max()) + SIGMA2)
        noise = rng.standard_normal(models.shape) * math.sqrt(SIGMA2 / DIMENSION)
        models = models - 4 / (mu * (a + t)) * (slopes + noise)
        if (t + 1) % scene.steps == 0:
            servers = np.einsum("ij,sjd->sid", mixing.matrix, models.mean(axis=2))  # PF-4, PF-5
            spread = ((servers - servers.mean(axis=1, keepdims=True)) ** 2).sum(axis=(1, 2)).mean()
            apart = max(apart, float(spread) * (mu * (a + t + 1) / 4) ** 2)
            taking = _draw(scene, rng, seeds)
            models = np.repeat(servers[:, :, None], taking.shape[2], axis=2)
    lemma2 = 32 / mixing.p * (1 + 2 / mixing.p) * scene.steps**2 * SERVERS * most
    start = ((origin - optimum) ** 2).sum(axis=1)
    return Ran(scene, mixing.p, np.array(gaps).T, start, most, apart / lemma2, problem)


def _draw(scene: Scene, rng: np.random.Generator, seeds: int) -> NDArray[np.int64]:
    """Who takes part: all, or so many with replacement."""
    if scene.partial:
        return rng.integers(PER_SERVER, size=(seeds, SERVERS, DRAWN))
    return np.broadcast_to(np.arange(PER_SERVER), (seeds, SERVERS, PER_SERVER))


def theorems(request: Request) -> Reproduction:
    """The bound and the gap of every scene, how fast the gap falls, and how much the graph matters."""
    scenes = [Scene(graph, steps, partial) for partial, steps, graph in product((False, True), STEPS, SHOWN)]
    found = {scene: run(scene, 4 * request.seeds) for scene in scenes}
    rows = [_bound_row(one) for one in found.values()]
    rows += [row for partial, steps in product((False, True), STEPS) for row in _graph_rows(found, partial, steps)]
    rows += [_slope_row(one) for one in found.values() if one.scene.graph in (SHOWN[0], SHOWN[-1])]
    rows.append(_lemma_row([*found.values()]))
    rows.append(_two_forms())
    note = (
        f"{SERVERS} servers with {PER_SERVER} clients each; in Theorem 2 {DRAWN} of them are drawn with replacement."
        f" Quadratic losses of {DIMENSION} coordinates, L = 1, L/μ = {CONDITION:g}, B = {HETEROGENEITY:g}, σ² ="
        f" {SIGMA2:g}; T = {ITERATIONS} local iterations, {4 * request.seeds} runs each. G² is the largest expected"
        " squared gradient that any client met in the run itself, so the bound is as low as it can be. A bound that"
        " holds is no surprise; the rows on graphs show how much of it is there."
    )
    return Reproduction(rows=rows, note=note, figure=lambda: _draw_gaps(found))


def _bound_row(one: Ran) -> Row:
    gap, bound = mean_interval(one.gaps[:, -1].tolist()), one.bound(ITERATIONS)
    holds = gap.high <= bound
    note = f"the bound is {bound / gap.value:,.0f} times the gap"
    return claimed(f"{one.scene.name}: gap after T = {ITERATIONS}", f"at most {bound:.3g}", str(gap), holds, note)


def _graph_rows(found: dict[Scene, Ran], partial: bool, steps: int) -> list[Row]:
    """How much longer the barbell's gap is than the complete graph's, in the runs and by the bound."""
    worst, best = (found[Scene(name, steps, partial)] for name in (SHOWN[-1], SHOWN[0]))
    ours = float(worst.gaps[:, -1].mean() / best.gaps[:, -1].mean())
    bound = worst.bound(ITERATIONS) / best.bound(ITERATIONS)
    name = f"{'Theorem 2' if partial else 'Theorem 1'}, E={steps}: gap of barbell / complete"
    return [Row(name, None, ours, "times", None, "the reference is the bounds' own ratio", reference=bound)]


def _slope_row(one: Ran) -> Row:
    """The exponent of T with which the mean gap falls over the last three doublings."""
    means = one.gaps.mean(axis=0)
    slope = math.log(means[-1] / means[0]) / math.log(MARKS[-1] / MARKS[0])
    note = f"between T = {MARKS[0]} and {MARKS[-1]}; -1 is the bound's for large T"
    return Row(f"{one.scene.name}: exponent of T", -1.0, slope, "", None, note)


def _lemma_row(those: list[Ran]) -> Row:
    most = max(those, key=lambda one: one.apart)
    return claimed(
        "Lemma 2: servers' disagreement, the largest share of its bound",
        "at most 1",
        f"{most.apart:.2g}",
        most.apart <= 1.0,
        f"in {most.scene.name}",
    )


def _two_forms() -> Row:
    """8 + 64/p (2/p + 1) of Theorem 1 is 8((4 + p)/p)² of its proof."""
    off = max(abs((8 + 64 / p * (2 / p + 1)) / (8 * ((4 + p) / p) ** 2) - 1) for p in (0.05, 0.3, 0.8, 1.0))
    return compared("Theorem 1's terms in p and the proof's: relative difference", 0.0, off, within=1e-12)


def _draw_gaps(found: dict[Scene, Ran]) -> Any:
    figure = new_figure((10, 4), "P-FedAvg, Theorem 1: gap and bound on a quadratic, full participation")
    panels = figure.subplots(1, len(STEPS), sharey=True)
    for ax, steps in zip(panels, STEPS, strict=True):
        for place, graph in enumerate(SHOWN):
            one = found[Scene(graph, steps, partial=False)]
            ax.plot(MARKS, one.gaps.mean(axis=0), "o-", color=f"C{place}", label=f"{graph}, p = {one.p:.2f}")
            ax.plot(MARKS, [one.bound(T) for T in MARKS], "--", color=f"C{place}")
        ax.set(xscale="log", yscale="log", xlabel="local iterations T")
        ax.set_title(f"E = {steps}", loc="left", fontsize=10)
        plain(ax)
    panels[0].set_ylabel("f(x_avg) - f*, bounds dashed")
    panels[0].legend(frameon=False, fontsize=8)
    return figure
