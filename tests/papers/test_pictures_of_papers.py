"""Figures that the papers draw by hand, and their theorems: what is computed of them, by hand where that can be."""

import math

import numpy as np
import pyarrow as pa
import pytest

from paceline.papers.dadpfl import bounds as dadpfl_bounds
from paceline.papers.dadpfl.bounds import Terms, theorem3
from paceline.papers.dadpfl.schedules import NEIGHBOURS, awaited, fig1, scheduled
from paceline.papers.noidle.pipelines import SLOW, USUAL, pipeline, pipelines
from paceline.papers.pfedavg import bounds as pfedavg_bounds
from paceline.papers.pfedavg.bounds import PER_SERVER, Scene, offset, run
from paceline.papers.pfedavg.models import fig3, table4
from paceline.papers.psfl import cases as psfl_cases
from paceline.papers.psfl.cases import best_width, beta_term, cases, stationary
from paceline.papers.psfl.pictured import fig2
from paceline.papers.result import Request
from paceline.papers.timelines import common, length, pieces


def rows(found):
    return {row.name: row for row in found.rows}


# -- timelines ------------------------------------------------------------------------------------------------------

SPANS = pa.table(
    {
        "site": [-1, 0, 1, 0, -1],
        "kind": ["work", "train", "train", "send", "work"],
        "start": [0.0, 1.0, 2.0, 5.0, 8.0],
        "end": [4.0, 3.0, 5.0, 6.0, 9.0],
    }
)


def test_pieces_are_joined_and_cut_off():
    assert pieces(SPANS, ("train",), server=False, begin=0, end=10) == [(1.0, 5.0)]
    assert pieces(SPANS, ("train", "send"), server=False, begin=0, end=5.5) == [(1.0, 5.5)]
    server = pieces(SPANS, ("work",), server=True, begin=3, end=10)
    assert server == [(3.0, 4.0), (8.0, 9.0)] and length(server) == 2.0
    assert common(server, [(1.0, 5.0)]) == 1.0


# -- No One Idles ---------------------------------------------------------------------------------------------------


def test_pipelines():
    found = pipelines(Request())
    named = rows(found)
    assert [row.name for row in found.rows if row.ok is False] == []
    assert named["Figure 1: FedAvg, a round"].ours == pytest.approx(19 + 6 + 38 + 19)
    assert named["Figure 1: SPFL, a round"].ours == pytest.approx(19 + 6 + 38)
    assert named["Figure 5: SPFL, a round"].ours == pytest.approx(SLOW.t_aggregate)
    assert found.figure() is not None


def test_a_server_that_aggregates_while_devices_work_is_told_from_one_that_does_not():
    serial, parallel = (pipeline(method, USUAL) for method in ("fedavg", "spfl"))
    assert serial.beside == 0.0
    assert parallel.beside == pytest.approx(1.0)
    assert serial.work == pytest.approx(19 / 82)


# -- PSFL -----------------------------------------------------------------------------------------------------------


def test_a_round_of_sequences():
    found = fig2(Request(seeds=2))
    named = rows(found)
    assert named["SFL, W=1, S=9: sequences wait"].ours == "0"
    waits = [float(named[f"PSFL, W=3, S=3, {how}: sequences wait"].ours.split()[0]) for how in ("by time", "uniform")]
    assert 5 < waits[0] < waits[1] < 50
    assert found.figure() is not None


def test_the_cases_of_section_v_b():
    named = rows(cases(Request()))
    assert named["case 2: b/a at which √e is stationary"].ours == pytest.approx(2.2454, abs=1e-3)
    assert [row.name for row in named.values() if row.ok is False] == [
        "case 2: SFL is out from the printed b/a on",
        "the β-term falls monotonically with W",
    ]
    assert best_width(math.inf) == 1.0
    assert best_width(0.0, 20) > best_width(0.43, 20) > best_width(2.0, 20) > 1.0
    least = named["case 1: least B/σ² at which W* is 1"].ours
    assert best_width(1.001 * least) == 1.0 < best_width(0.999 * least)


def test_an_inner_minimum_is_better_than_one_sequence_only_from_its_threshold_on():
    """By brute force on h(W) = √(W ln W) + b/W, whose value at 1 is b."""
    W = np.geomspace(1.001, 100, 100_000)
    for balance, better in ((2.29, False), (2.32, True)):
        assert bool((np.sqrt(W * np.log(W)) + balance / W).min() < balance) is better
        assert (psfl_cases._least_inside(balance) < 1) is better
    assert float(stationary(np.exp(0.5))) == pytest.approx(3 * math.exp(0.75) / (2 * math.sqrt(2)))
    assert beta_term(np.array(1.001)) > beta_term(np.array(1.0))


# -- P-FedAvg -------------------------------------------------------------------------------------------------------


def test_models_and_topologies():
    models, graphs = table4(Request()), fig3(Request())
    assert [row.name for row in (*models.rows, *graphs.rows) if row.ok is False] == []
    assert rows(models)["FEMNIST, cnn1-pfedavg: parameters, all"].ours == 6_603_710
    assert all(row.ours is None for row in models.rows if row.unit == "ms")  # never the paper's number in ours
    assert rows(graphs)["barbell: farthest servers apart"].ours == 6
    assert rows(graphs)["tree: farthest servers apart"].ours == 5
    assert graphs.figure() is not None


@pytest.fixture
def brief(monkeypatch):
    monkeypatch.setattr(pfedavg_bounds, "ITERATIONS", 60)
    monkeypatch.setattr(pfedavg_bounds, "MARKS", (20, 60))
    monkeypatch.setattr(pfedavg_bounds, "STEPS", (1, 5))


def test_bounds_on_a_quadratic(brief):
    found = pfedavg_bounds.theorems(Request(seeds=1))
    bounds = [row for row in found.rows if "gap after" in row.name]
    assert len(bounds) == 2 * 2 * 4
    assert all(row.ok for row in bounds)
    ratios = [row for row in found.rows if "barbell / complete" in row.name]
    assert all(50 < row.reference < 200 for row in ratios)
    assert found.figure() is not None


def test_theorem_1_by_hand(brief):
    one = run(Scene("torus", 5, partial=False), 2)
    quadratic, T, E, p = one.problem, 60, 5, 0.84
    a = offset(quadratic, E)
    assert a == pytest.approx(16 * pfedavg_bounds.CONDITION)
    G2, L, mu = one.gradient2, 1.0, 1 / pfedavg_bounds.CONDITION
    inner = 8 * E**2 * G2 + 6 * L * quadratic.value(quadratic.optimum()) + 64 * E**2 * G2 / p * (2 / p + 1) + 1 / 36
    wanted = mu * a**3 / T**3 * one.start.mean() + 8 * (2 * a + T) / (mu * T**2) * inner
    assert one.bound(T) == pytest.approx(wanted, rel=1e-6)
    more = run(Scene("torus", 5, partial=True), 2)
    assert more.scene.partial and PER_SERVER == 4


def test_with_one_local_step_and_no_noise_full_participation_is_gradient_descent(monkeypatch, brief):
    """On the complete graph all servers have the mean, so x̄ follows the mean gradient alone."""
    monkeypatch.setattr(pfedavg_bounds, "SIGMA2", 0.0)
    one = run(Scene("complete", 1, partial=False), 1)
    quadratic, a = one.problem, offset(one.problem, 1)
    x = quadratic.optimum() + 2 * pfedavg_bounds.stream(0, "pfedavg", "bounds", "noise").standard_normal((1, 8))[0]
    total, weight = np.zeros(8), 0.0
    for t in range(61):
        total, weight = total + (a + t) ** 2 * x, weight + (a + t) ** 2
        x = x - 4 / (quadratic.convexity * (a + t)) * quadratic.mean_gradient(x)
    gap = quadratic.value(total / weight) - quadratic.value(quadratic.optimum())
    assert one.gaps[0, -1] == pytest.approx(gap, rel=1e-9)


# -- DA-DPFL --------------------------------------------------------------------------------------------------------


def test_figure_1s_six_clients():
    found = fig1(Request())
    assert all(row.ok is not False for row in found.rows)
    assert awaited(scheduled(2)) == {3: (2,), 5: (1,), 6: (1, 5)}
    assert all(len(those) == 2 and client not in those for client, those in NEIGHBOURS.items())
    assert [rows(found)[f"N = {cap}: the round takes"].ours for cap in (0, 1, 2)] == [1, 2, 3]
    assert found.figure() is not None


def test_theorem_3s_terms_by_hand():
    one = Terms()
    eta = 0.001
    S1 = 2 * eta**2 * 90 * (math.exp(32 * 5 / (4 * 99)) - 1)
    assert one.S1(eta) == pytest.approx(S1)
    assert pytest.approx(1 / 19 + 9) == one.S2
    D = eta - 6 * S1 * (1 - eta)
    assert one.denominator(eta) == pytest.approx(D)
    drift = 3 * eta**3 * 32 * 5 / (2 * 11 * 10) * 2
    assert one.S3(eta) == pytest.approx(2 / D * ((1 - eta) * S1 * one.S2 + drift))
    assert one.bound(one.allowed, 500) == math.inf


def test_theorem_3_says_nothing_at_the_step_it_allows():
    named = rows(theorem3(Request()))
    assert named["D is above 0 at the step that is allowed"].ok is False
    assert named["D is above 0 at the Lemmas' step"].ok is False
    assert named["so the bound is smaller with reuse"].ok is False
    assert named["least T with a bound at η = 1/(μ√T)"].ours > 1000 * dadpfl_bounds.ROUNDS / 2
    small = Terms(neighbours=2, epochs=0.01)
    assert small.largest() == small.allowed  # with hardly any local steps the condition is enough
