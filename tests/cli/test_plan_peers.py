"""``paceline plan peers``: the answer, the table, the complaints, and that it comes at once."""

import os
import subprocess
import sys

import pytest

from tests.cli.cli_files import answer
from tests.cli.test_plan import WITHOUT_TORCH


def test_json(paceline):
    """2,000 rounds; shares within 5 standard errors, a false alarm once in 1.7 million, and waits within 2 %."""
    told = answer(paceline("plan", "peers", "--clients", "100", "--neighbours", "10", "--wait", "5", "--json"))
    assert (told["clients"], told["neighbours"], told["wait"], told["draws"]) == (100, 10, 5, 2000)
    assert told["parallel_share_closed_form"] == pytest.approx(1 / 11)
    assert told["parallel_share"] == pytest.approx(1 / 11, abs=5 * told["parallel_share_error"])
    assert told["mean_max_wait"] == pytest.approx(9.1, rel=0.02)
    assert told["mean_awaited"] == pytest.approx(told["mean_awaited_closed_form"], rel=0.01)
    assert told["mean_max_wait_closed_form"] is None
    assert told["round_seconds"] == pytest.approx(told["mean_max_wait_seconds"] + 1)
    assert (told["joules_per_round"], told["bytes_per_round"]) == (None, None)
    by_cap = {one["wait"]: one for one in told["alternatives"]}
    assert list(by_cap) == [0, 1, 2, 5, 10]
    assert by_cap[5]["mean_max_wait"] == told["mean_max_wait"]
    assert by_cap[10]["mean_max_wait"] == pytest.approx(17.0, rel=0.02)
    assert (by_cap[0]["parallel_share"], by_cap[0]["mean_max_wait"], by_cap[0]["slowdown"]) == (1, 0, 1)


def test_sequential(paceline):
    told = answer(paceline("plan", "peers", "-n", "20", "--topology", "complete", "--time", "3", "--json"))
    assert (told["neighbours"], told["wait"]) == (19, None)
    assert told["mean_max_wait"] == pytest.approx(19) and told["mean_max_wait_closed_form"] == 19
    assert told["mean_max_wait_seconds"] == pytest.approx(57)
    assert told["round_seconds"] == pytest.approx(60)
    assert told["slowdown"] == pytest.approx(20)
    assert told["parallel_share"] == pytest.approx(1 / 20)


def test_transfers_and_energy(paceline):
    words = ("plan", "peers", "-n", "20", "-m", "4", "--time", "2", "--megabytes", "10", "--mbps", "80", "--json")
    told = answer(paceline(*words, "--watts", "100", "--link-watts", "3"))
    assert told["fetch_seconds"] == pytest.approx(4)
    assert told["visit_seconds"] == pytest.approx(6)
    assert told["mean_max_wait_seconds"] == pytest.approx(6 * told["mean_max_wait"])
    assert told["bytes_per_round"] == 20 * 4 * 10e6
    assert told["joules_per_client"] == pytest.approx(100 * 2 + 2 * 3 * 4)  # both ends of a link
    assert told["joules_per_round"] == pytest.approx(20 * 224)
    assert answer(paceline(*words, "--watts", "100"))["joules_per_round"] is None
    assert answer(paceline(*words))["joules_per_round"] is None


def test_rules_topologies_and_seeds_are_heard(paceline):
    def wait(*words):
        return answer(paceline("plan", "peers", "--wait", "1", "--draws", "200", "--json", *words))["mean_max_wait"]

    assert wait("--rule", "lowest") > wait("--rule", "fastest")
    assert wait("--seed", "1") == wait("--seed", "1") != wait("--seed", "2")
    assert answer(paceline("plan", "peers", "-t", "ring", "--draws", "50", "--json"))["neighbours"] == 2
    spread = answer(paceline("plan", "peers", "-n", "20", "--spread", "0.3", "--draws", "50", "--json"))
    assert spread["parallel_round_seconds"] > 1


def test_the_table_compares_caps(paceline):
    done = paceline("plan", "peers", "--wait", "3", "--draws", "100", "--watts", "10")
    assert (done.status, done.err) == (0, "")
    lines = done.out.splitlines()
    assert lines[0].split()[:4] == ["wait", "for", "at", "once"]
    assert [line.split()[0] for line in lines[1:7]] == ["0", "1", "2", "3", "5", "10"]
    assert lines[4].rstrip().endswith("asked") and lines[1].rstrip().endswith("parallel")
    assert "closed form 9.09%" in done.out
    assert "Energy: 10 J a client, 1000 J a round" in done.out


def test_one_draw_has_no_standard_error(paceline):
    assert answer(paceline("plan", "peers", "--draws", "1", "--json"))["mean_max_wait_error"] is None
    assert "±" not in paceline("plan", "peers", "--draws", "1").out


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        (("--wait", "-1"), "--wait is -1; give 0"),
        (("--neighbours", "100"), "100 neighbours of 100 clients; give at least 1 and at most 99"),
        (("--topology", "rng"), "did you mean 'ring'?"),
        (("--topology", "complete", "--neighbours", "5"), "a complete of 100 has 99; leave them out"),
        (("--rule", "quickest"), "the rule is 'quickest'"),
        (("--draws", "0"), "--draws is 0; it must be 1 to 100,000"),
        (("--time", "nan"), "the time is nan"),
        (("--spread", "2"), "the spread is 2; give a share"),
        (("--megabytes", "4"), "--mbps is missing; give both"),
        (("--mbps", "4"), "--megabytes is missing; give both"),
        (("--mbps", "0", "--megabytes", "1"), "both must be above 0"),
        (("--watts", "-1"), "--watts is -1"),
        (("--clients", "5000"), "too many to draw; give at most 2000 clients"),
    ],
)
def test_what_cannot_be_is_refused(paceline, words, complaint):
    done = paceline("plan", "peers", *words)
    assert (done.status, done.out) == (1, "")
    assert done.err.startswith("error: ") and complaint in done.err


@pytest.mark.parametrize("words", [("--help",), ("--draws", "20", "--json")])
def test_neither_help_nor_plan_waits_for_torch(words):
    done = subprocess.run(
        [sys.executable, "-c", WITHOUT_TORCH, "plan", "peers", *words],
        env=os.environ | {"COLUMNS": "200"},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout
    assert done.stderr.rpartition("loaded: ")[2].strip() == "[]"
