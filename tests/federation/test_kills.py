"""Whatever is killed, the run ends as it should; each of these takes minutes, and says how long things took."""

import json
import time

import pytest

from paceline.ledger.weights import read_weights
from paceline.runs.driver import drive, make_executor
from paceline.runs.making import make_run
from paceline.runs.replay import ALONE, replay
from paceline.runs.settings import make_settings
from tests.federation.real import Real, Strike, children_of, command_of, kill

pytestmark = [pytest.mark.slow, pytest.mark.federation, pytest.mark.timeout(600)]
WORDS = ["rounds=3", "local.steps=20000", "absence=wait"]


def worker(real):
    (found,) = [pid for pid in children_of(real.joined.all[1].pid) if "resident" in command_of(pid)]
    kill(found)


def node(real):
    """All of a node at once, as when the power fails."""
    join = real.joined.all[1].pid
    kill(join, *children_of(join))


def supernode(real):
    (found,) = [pid for pid in children_of(real.joined.all[1].pid) if "flower-supernode" in command_of(pid)]
    kill(found)


def superlink(real):
    kill(real.server.children.all[0].pid)


def server(real):
    (file,) = real.server.config.state.glob("server-*.json")
    kill(json.loads(file.read_text())["pid"])


def simulated():
    run = make_run(make_settings("fedavg", ["clients=3", "partition=iid", *WORDS]), keep_model=True)
    drive([run], make_executor(ALONE))
    return run.final


@pytest.mark.parametrize("victim", [worker, supernode, node, superlink, server], ids=lambda one: one.__name__)
def test_whoever_is_killed_the_run_ends_as_it_should(victim, tmp_path):
    strike = Strike(1, victim)
    with Real(tmp_path) as real:
        out = real.run("fedavg", WORDS, "run", strike)
        ended = time.monotonic()
    assert strike.struck is not None
    rows = [json.loads(line) for line in (out / "metrics.jsonl").read_text().splitlines()]
    times = [row["time"] for row in rows]
    print(f"\n{victim.__name__}: rounds at {times}; {ended - strike.struck:.0f} s from the kill to the end")
    print("\n".join(real.said))
    assert replay(out).equal and rows[-1]["visits"] == 9
    weights = read_weights(out)
    if victim in (worker, superlink, server):  # nobody dropped out: as if nothing had been
        assert all(weights[name].equal(value) for name, value in simulated().items())
