"""``paceline plan fleet``: the table, the JSON, the file, the complaints."""

import json

import pytest

from tests.plans.journals import Machines, median_round, write_run


@pytest.fixture
def run(tmp_path):
    entries, ends = Machines((0.4, 2.0), seed=1).rounds(6)
    write_run(tmp_path / "run", entries, ends, clients=3)  # a third client was never asked
    return median_round(ends)


def test_the_file_is_for_the_simulator(paceline, run, tmp_path):
    done = paceline("plan", "fleet", "run", "--out", "fleet.toml")
    assert done.status == 0, done.err
    head, *rows = done.out.splitlines()
    assert head.split() == ["device", "visits", "median", "slowest", "lost", "away", "up", "down", "latency"]
    assert [row.split()[:2] for row in rows[:3]] == [["0", "6"], ["1", "6"], ["2", "none"]]
    assert "1 device has finished no visit" in done.out and "--config run --set fleet.file=fleet.toml" in done.out
    words = ("--config", "run", "--set", "fleet.file=fleet.toml")
    simulated = paceline("run", "fedavg", *words, "--dry-run", "--json", "--quiet")
    assert simulated.status == 0, simulated.err
    again = paceline("plan", "fleet", "run", "--out", "fleet.toml")
    assert again.status == 1 and "not written over" in again.err


def test_json(paceline, run, tmp_path):
    done = paceline("plan", "fleet", "run", "--json")
    assert done.status == 0, done.err
    told = json.loads(done.out)
    assert told["file"] is None and len(told["devices"]) == 3 and told["devices"][2]["visits"] == 0
    assert told["prediction"]["measured"] == pytest.approx(run)
    assert {path.name for path in tmp_path.iterdir()} == {"run"}
    assert json.loads(paceline("plan", "fleet", "run", "--json", "--no-check").out)["prediction"] is None


def test_what_cannot_be_checked_is_measured_all_the_same(paceline, run, tmp_path):
    (tmp_path / "run/metrics.jsonl").unlink()
    done = paceline("plan", "fleet", "run", "--out", "fleet.toml")
    assert done.status == 0 and "could not be checked: there is no run/metrics.jsonl" in done.out
    assert (tmp_path / "fleet.toml").exists()


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("nowhere",), "nowhere"),
        (("run", "--out", "fleet.csv"), "name it such as fleet.toml"),
        (("run", "--out", "run"), "a fleet with measured times is TOML"),
    ],
)
def test_complaints(paceline, run, tmp_path, words, said):
    done = paceline("plan", "fleet", *words)
    assert done.status == 1 and said in done.err
    assert {path.name for path in tmp_path.iterdir()} == {"run"}
