"""``paceline plan servers``: the answer, the table, the complaints."""

import os
import subprocess
import sys

import pytest

from tests.cli.cli_files import answer
from tests.cli.test_plan import WITHOUT_TORCH

FEW = ("--topology", "torus", "--topology", "ring", "--servers", "9", "--servers", "16")


pytestmark = pytest.mark.usefixtures("own_cache")


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
    }  # fmt: skip
    ring = next(one for one in told["candidates"] if one["name"] == "ring:5")
    assert ring["parts"] == {"server": 0, "clients": 2.5, "training": 3, "backbone": 0.4, "nodes": True}
    assert ring["time_simulated"] is None
    assert ring["clients"] == 20


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
