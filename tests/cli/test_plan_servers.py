"""``paceline plan servers``: the answer, the table, the complaints."""

import os
import subprocess
import sys

import pytest

from tests.cli.cli_files import answer
from tests.cli.test_plan import WITHOUT_TORCH

FEW = ("--topology", "torus", "--topology", "ring", "--servers", "9", "--servers", "16")


def test_json(paceline):
    told = answer(paceline("plan", "servers", *FEW, "--json"))
    found = {one["name"]: one for one in told["candidates"]}
    assert set(found) == {"one server", "torus:3x3", "ring:9", "torus:4x4", "ring:16"}
    torus = found["torus:3x3"]
    assert (torus["servers"], torus["clients"], torus["disconnection_tolerance"]) == (9, 36, 3)
    assert torus["time_closed_form"] == pytest.approx(5.16)
    assert torus["time_simulated"] == pytest.approx(4.12)
    assert torus["peak_bytes"] == pytest.approx(2 * (4 + 4) * 13e6 / 8)
    assert torus["p"] == pytest.approx(8 / 9)
    assert torus["score"] == pytest.approx(torus["time_simulated"] * torus["rounds_factor"])
    assert told["recommendation"]["name"] == told["candidates"][0]["name"] == "torus:3x3"
    assert told["recommendation"]["reasons"][0].startswith("torus:3x3: 9 servers with 4 clients each")
    assert told["candidates"][0]["score"] == min(one["score"] for one in told["candidates"])


def test_every_option_is_heard(paceline):
    words = ("--clients", "80", "-k", "20", "--megabits", "8", "--client-mbps", "4,16", "--server-mbps", "inf")
    words += (
        "--node-mbps",
        "40",
        "--link-mbps",
        "inf",
        "--compute",
        "3",
        "--weights",
        "metropolis",
        "--drift",
        "0.4",
    )
    told = answer(paceline("plan", "servers", *words, "-t", "ring", "-m", "5", "--closed-form", "--json"))
    assert told["demand"] == {
        "clients": 80, "participants": 20, "megabits": 8, "client_up": 4, "client_down": 16, "server": None,
        "node": 40, "link": None, "compute": 3, "spread": 0, "weights": "metropolis", "drift": 0.4,
        "devices": None, "network": None,
    }  # fmt: skip
    ring = next(one for one in told["candidates"] if one["name"] == "ring:5")
    assert ring["parts"] == {"server": 0, "clients": 2.5, "training": 3, "backbone": 0.4, "nodes": True}
    assert ring["time_simulated"] is None
    assert ring["clients"] == 20


NETWORK = """server,neighbour,mbps
paris,,1000
rome,,100
paris,rome,80
paris,oslo,40
rome,oslo,60
oslo,bonn,30
paris,bonn,50
"""


def test_a_network_and_a_design_for_it(paceline, tmp_path):
    (tmp_path / "net.csv").write_text(NETWORK)
    words = ("plan", "servers", "--network", "net.csv", "--design", "--participants", "8", "--topology", "star")
    told = answer(paceline(*words, "--out", "overlay.txt", "--json"))
    best = told["candidates"][0]
    assert (best["name"], best["designed"], best["servers"]) == ("designed:4", True, 4)
    assert told["demand"]["network"] == "net.csv"
    assert {name for link in best["links"] for name in link} == {"paris", "rome", "oslo", "bonn"}
    assert len((tmp_path / "overlay.txt").read_text().splitlines()) == len(best["links"])
    again = answer(paceline("plan", "mixing", "--graph", "overlay.txt", "--json"))
    assert again["p"] == pytest.approx(best["p"])
    assert "unequal links are not simulated" in paceline(*words).out
    for more, said in (
        (("--servers", "4"), "leave out --servers"),
        (("--out", "overlay.txt"), "is there already"),
        (("--out", "none/overlay.txt"), "cannot be written"),
    ):
        done = paceline(*words, *more)
        assert (done.status, done.out) == (1, "") and said in done.err


def test_a_model_by_name(paceline):
    told = answer(paceline("plan", "servers", *FEW, "--model", "mlp:512", "--closed-form", "--json"))
    assert told["demand"]["megabits"] == pytest.approx(407_050 * 32 / 1e6)  # PF's MLP, 13 Mbit


def test_the_table_and_the_reasons(paceline):
    done = paceline("plan", "servers", *FEW, "--topology", "torus:2x5")
    assert (done.status, done.err) == (0, "")
    rows = {line.split()[0]: line.split() for line in done.out.splitlines()[2:7]}
    assert rows["torus:3x3"][1:3] == ["36", "0.889"]
    assert not any("…" in line for line in done.out.splitlines())  # 80 columns hold it
    assert rows["torus:3x3"][-1] == "x0.406"
    assert rows["FedAvg"][-2:] == ["x1", "x1"]
    assert "Left out: torus:2x5 (torus:2x5: wanted at least 3 rows and 3 columns" in done.out
    assert "Any 3 links may fail before its overlay can fall apart." in done.out
    assert "simul." in done.out
    assert "simul." not in paceline("plan", "servers", *FEW, "--closed-form").out


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        (("--topology", "torus", "--servers", "7"), "torus of 7: a torus has 3 rows or more"),
        (("--client-mbps", "1,2,3"), "--client-mbps is '1,2,3'"),
        (("--client-mbps", "fast"), "--client-mbps is 'fast'"),
        (("--megabits", "3", "--model", "mlp"), "leave one of the two out"),
        (("--model", "mpl"), "did you mean 'mlp'?"),
        (("--participants", "2000"), "2000 participants of 1000 clients"),
    ],
)
def test_what_cannot_be_is_refused(paceline, words, complaint):
    done = paceline("plan", "servers", *words)
    assert (done.status, done.out) == (1, "")
    assert done.err.startswith("error: ") and complaint in done.err


@pytest.mark.parametrize("words", [("--help",), (*FEW, "--closed-form", "--json")])
def test_neither_help_nor_formulas_wait_for_torch(words, tmp_path):
    done = subprocess.run(
        [sys.executable, "-c", WITHOUT_TORCH, "plan", "servers", *words],
        env=os.environ | {"COLUMNS": "200"},
        capture_output=True,
        text=True,
        check=True,
    )
    loaded = done.stderr.rpartition("loaded: ")[2]
    assert "torch" not in loaded and "cvxpy" not in loaded
    assert words != ("--help",) or loaded.strip() == "[]"


def test_the_devices_of_a_fleet(paceline, tmp_path):
    """Alike they are what the options say; unequal ones make rounds as long as the slowest of them."""
    rows = ["seconds,up_mbps,down_mbps", *["1,10,10"] * 8]
    (tmp_path / "alike.csv").write_text("\n".join(rows) + "\n")
    (tmp_path / "unequal.csv").write_text("\n".join([*rows[:-1], "9,10,10"]) + "\n")
    words = ("plan", "servers", "-k", "8", "-t", "ring", "-m", "4", "--json")
    said = answer(paceline(*words, "--clients", "8", "--compute", "1"))
    alike = answer(paceline(*words, "--fleet", "alike.csv"))
    assert alike["demand"]["devices"] == "alike.csv" and alike["demand"]["clients"] == 8
    for one, other in zip(said["candidates"], alike["candidates"], strict=True):
        assert other["time_closed_form"] == pytest.approx(one["time_closed_form"])
        assert other["time_simulated"] == pytest.approx(one["time_simulated"], rel=1e-6)
    unequal = answer(paceline(*words, "--fleet", "unequal.csv"))
    found = {one["name"]: one for one in unequal["candidates"]}
    before = {one["name"]: one for one in alike["candidates"]}
    for name, one in found.items():
        assert one["time_closed_form"] == pytest.approx(before[name]["time_closed_form"] + 8), "all 8 take part"
        assert one["time_simulated"] == pytest.approx(before[name]["time_simulated"] + 8, rel=0.1)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--fleet", "fleet.csv", "--compute", "2"), "fleet.csv and --compute both say the same"),
        (("--fleet", "fleet.csv", "--clients", "9"), "fleet.csv and --clients both say the same"),
        (("--fleet", "flops.csv"), "says neither the seconds of a visit nor byte rates"),
        (("--fleet", "nowhere.csv"), "nowhere.csv"),
        (("--fleet", "fleet.csv", "-k", "4"), "4 participants of 3 clients"),
    ],
)
def test_complaints_of_a_fleet(paceline, tmp_path, words, said):
    (tmp_path / "fleet.csv").write_text("seconds\n1\n2\n3\n")
    (tmp_path / "flops.csv").write_text("flops\n1e9\n")
    done = paceline("plan", "servers", *words)
    assert done.status == 1 and said in done.err, done.err


def test_a_fleet_without_rates_takes_those_that_are_said(paceline, tmp_path):
    rows = ["seconds,latency,availability", "1,0.1,always", '2,0.3,"duty:60,0.5"', "3,0.2,always"]
    (tmp_path / "fleet.csv").write_text("\n".join(rows) + "\n")
    done = paceline("plan", "servers", "--fleet", "fleet.csv", "--client-mbps", "5,20", "-k", "3", "-m", "3")
    assert done.status == 0, done.err
    told = " ".join(done.out.split())
    for word in ("3 devices of fleet.csv", "0.2 s, their mean latency", "away at times is left out"):
        assert word in told
