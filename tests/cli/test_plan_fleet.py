"""``paceline plan fleet``: the table, the JSON, the file, the complaints."""

import json

import pytest

from paceline.cli.fleet import _split
from tests.plans.journals import Machines, median_round, write_run


@pytest.mark.parametrize(
    ("word", "names"),
    [
        ("psfl,fedbuff", ["psfl", "fedbuff"]),
        ("fedbuff@partition=exdir:2,5,buffer=4,psfl", ["fedbuff@partition=exdir:2,5,buffer=4", "psfl"]),
        ("mine:Own@faults=lost:0.1,fedbuff@buffer=2", ["mine:Own@faults=lost:0.1", "fedbuff@buffer=2"]),
        ("apfl@fleet.availability=dropout:0.1,forever", ["apfl@fleet.availability=dropout:0.1,forever"]),
    ],
)
def test_commas_of_a_variant_s_values_part_no_names(word, names):
    assert _split([word]) == names


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


@pytest.fixture
def file(tmp_path):
    lines = ["device,seconds,up_mbps,down_mbps", *(f"d{k},{1 + k},5,20" for k in range(6))]
    (tmp_path / "fleet.csv").write_text("\n".join(lines) + "\n")
    return ("plan", "fleet", "fleet.csv", "--model", "mlp", "-k", "3", "--algorithms", "fedbuff,psfl")


def test_methods_for_a_fleet_file(paceline, file, tmp_path):
    done = paceline(*file, "--out", "plan.html")
    assert done.status == 0, done.err
    assert "3 devices at a time:" in done.out and "fedbuff, buffer 2" in done.out and "break-" in done.out
    for word in ("Recommended: fedbuff", "Not known: Accuracy", "Assumed: ", "page: plan.html"):
        assert word in done.out
    page = (tmp_path / "plan.html").read_text()
    assert "fedbuff@concurrency=3,buffer=2" in page and "What is not known" in page and "://" not in page
    again = paceline(*file, "--out", "plan.html")
    assert again.status == 1 and "not written over" in again.err


def test_methods_as_json(paceline, file):
    done = paceline(*file, "--json")
    told = json.loads(done.out)
    assert told["devices"] == 6 and told["participants"] == 3 and told["file"] is None
    assert next(one["name"] for one in told["candidates"]) == told["recommendation"]["name"]
    assert told["unknown"] and told["assumptions"]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("nowhere.csv",), "there is no nowhere.csv; give a fleet file (.csv or .toml, docs/fleets.md) or a run's"),
        (("notes.txt",), "notes.txt is neither a fleet file"),
        (("fleet.csv", "--out", "fleet.toml"), "the page of a plan is HTML"),
        (("fleet.csv", "--no-check"), "fleet.csv is no directory of a run; for --check"),
        (("run", "--model", "mlp"), "run is the directory of a run, of which a fleet file is made"),
        (("fleet.csv", "--servers", "1"), "servers is 1; wanted 2 to 100"),
        (("fleet.csv", "--set", "clients=9"), "lists 6 devices, but there are 9 clients"),
    ],
)
def test_complaints_of_methods(paceline, run, file, tmp_path, words, said):
    (tmp_path / "notes.txt").write_text("seconds\n1\n")
    done = paceline("plan", "fleet", *words)
    assert done.status == 1 and said in done.err, done.err
    assert not (tmp_path / "fleet.toml").exists()
