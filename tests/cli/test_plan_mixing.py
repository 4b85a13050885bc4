"""``paceline plan mixing``: the answer, the table, the complaints."""

import os
import subprocess
import sys

import numpy as np
import pytest

from tests.cli.cli_files import answer
from tests.cli.test_plan import WITHOUT_TORCH


def test_json(paceline):
    told = answer(paceline("plan", "mixing", "--graph", "torus:3x3", "--json"))
    assert told["p"] == pytest.approx(8 / 9)
    assert told["lambda"] == pytest.approx(1 / 3)
    assert (told["nodes"], told["edges"], told["diameter"]) == (9, 18, 2)
    assert (told["edge_connectivity"], told["disconnection_tolerance"]) == (4, 3)
    W = np.array(told["matrix"])
    assert np.allclose(W.sum(axis=0), 1) and np.array_equal(W, W.T)
    assert 1 - np.linalg.norm(W - 1 / 9, 2) ** 2 == pytest.approx(told["p"])


def test_weights_signs_and_seeds_are_heard(paceline):
    def p(*words):
        return answer(paceline("plan", "mixing", "--json", *words))["p"]

    assert p("--graph", "barbell:3,3", "--weights", "metropolis") == pytest.approx(0.0783, abs=1e-4)
    assert p("--graph", "barbell:3,3") == pytest.approx(0.1227, abs=1e-4)
    assert p("--graph", "barbell:3,3", "--signed") == pytest.approx(0.1284, abs=1e-4)
    chance = ("--graph", "ring:9", "--weights", "random", "--seed")
    assert p(*chance, "1") == p(*chance, "1") != p(*chance, "2")


def test_the_table_compares_all_weightings(paceline):
    done = paceline("plan", "mixing", "--graph", "ring:9")
    assert (done.status, done.err) == (0, "")
    cells = {line.split()[0]: line.split()[1:4] for line in done.out.splitlines()[1:7]}
    assert cells["optimal"] == ["0.3842", "0.7847", "3"]
    assert cells["metropolis"] == ["0.2876", "0.8440", "5"]
    assert set(cells) == {"optimal", "all-modes", "constant", "metropolis", "uniform", "random"}
    assert "9 nodes, 9 links, degree 2, diameter 4" in done.out
    assert "any one link may fail" in done.out


def test_both_objectives(paceline):
    def told(*words):
        return answer(paceline("plan", "mixing", "--graph", "ring:9", "--json", *words))

    slowest, all_modes = told("--objective", "slowest"), told("--objective", "all-modes")
    assert slowest == told()
    assert (slowest["weights"], all_modes["weights"]) == ("optimal", "all-modes")
    assert slowest["p"] > all_modes["p"] and slowest["all_modes"] > all_modes["all_modes"]
    assert all_modes["all_modes"] == pytest.approx(9 * all_modes["lasting_disagreement"])
    assert all_modes["all_modes"] == pytest.approx(all_modes["all_modes_bound"], rel=1e-5)
    assert (slowest["all_modes_bound"], all_modes["lambda_bound"]) == (None, None)
    modes = np.linalg.eigvalsh(np.array(all_modes["matrix"]))[:-1] ** 2
    assert all_modes["all_modes"] == pytest.approx((modes / (1 - modes)).sum())


def test_a_graph_in_two_parts_is_warned_about(paceline, tmp_path):
    (tmp_path / "links.txt").write_text("a b\nc d\n")
    done = paceline("plan", "mixing", "--graph", "links.txt")
    assert done.status == 0
    assert done.err.startswith("warning: the graph is not connected: it has 2 parts, {a, b}, {c, d}")
    assert "never" in done.out
    told = answer(paceline("plan", "mixing", "--graph", "links.txt", "--json"))
    assert (told["p"], told["lambda"], told["connected"], told["diameter"]) == (0, 1, False, None)
    assert (told["all_modes"], told["lasting_disagreement"]) == (None, None)
    assert (told["rounds_to_halve"], told["edge_connectivity"], told["names"]) == (None, 0, ["a", "b", "c", "d"])


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        (("--graph", "rong:9"), "did you mean 'ring'?"),
        (("--graph", "torus:3"), "wanted torus:ROWSxCOLUMNS, as in torus:3x3"),
        (("--graph", "ring:9", "--weights", "best"), "weights are 'best'"),
        (("--graph", "ring:9", "--objective", "all"), "--objective is 'all'"),
        (("--graph", "ring:9", "--objective", "slowest", "--weights", "constant"), "leave one of the two out"),
    ],
)
def test_what_cannot_be_is_refused(paceline, words, complaint):
    done = paceline("plan", "mixing", *words)
    assert (done.status, done.out) == (1, "")
    assert done.err.startswith("error: ") and complaint in done.err


@pytest.mark.parametrize("words", [("--help",), ("--graph", "barbell:3,3", "--json")])
def test_neither_help_nor_plan_waits_for_torch(words, tmp_path):
    done = subprocess.run(
        [sys.executable, "-c", WITHOUT_TORCH, "plan", "mixing", *words],
        env=os.environ | {"COLUMNS": "200"},
        capture_output=True,
        text=True,
        check=True,
    )
    loaded = done.stderr.rpartition("loaded: ")[2]
    assert "torch" not in loaded and "cvxpy" not in loaded
    assert words != ("--help",) or loaded.strip() == "[]"
