"""Round trips of a federation on loopback beside those of a bare Flower application, and how well they are predicted.

    python -m benchmarks.federation --nodes 3 --rounds 10

The bare application sends each node arrays of the size of the model, and its nodes send them back at once; its server
looks for replies as often as ours does. So what Paceline adds (a resident worker, words, checks, a journal) is the
difference. On one SuperLink, with the same nodes: a run, the run again at once, and the bare application.

A fleet file of the first run (`paceline plan fleet`) says how long the rounds of the second take, and that is held
against what they took. A machine that is busy with something else in one of them, and not in the other, spoils that.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from statistics import median
from typing import Any

from paceline.federation import flower
from paceline.federation.config import RunConfig
from paceline.federation.processes import Children
from paceline.federation.serving import Server
from paceline.federation.trying import node_process, write_federation
from paceline.plans.fleet import measure
from paceline.plans.fleet_check import simulated_rounds
from paceline.plans.fleet_file import as_toml

PATIENCE = 600.0
"""Seconds in which the bare application must have ended."""
_SERVER = """
import json, time
from pathlib import Path
import numpy as np
from flwr.app import Array, ArrayRecord, Message, RecordDict
from flwr.serverapp import ServerApp

app = ServerApp()


@app.main()
def main(grid, context):
    size, rounds, out = (context.run_config[name] for name in ("size", "rounds", "out"))
    nodes, found = sorted(grid.get_node_ids()), []
    for trip in range(rounds + 1):
        arrays = ArrayRecord({"a": Array(np.full(size, trip, np.uint8))})
        begun = time.time()
        sent = [Message(RecordDict({"a": arrays}), node, "query", ttl=300.0) for node in nodes]
        waiting, took = list(grid.push_messages(sent)), []
        while waiting:
            time.sleep(0.1)
            for number in list(waiting):
                if list(grid.pull_messages([number])):
                    waiting.remove(number)
                    took.append(time.time() - begun)
        found.append(took)
    part = Path(out).with_suffix(".part")
    part.write_text(json.dumps(found[1:]))
    part.replace(out)
"""
_CLIENT = """
from flwr.app import Message
from flwr.clientapp import ClientApp

app = ClientApp()


@app.query()
def back(message, context):
    return Message(message.content, reply_to=message)
"""


@dataclass(frozen=True, kw_only=True)
class Found:
    """Seconds."""

    ours: list[float]
    """Of every trip of both runs, without training; the first visits of all nodes are left out."""
    bare: list[float]
    """Of every trip of the bare application; the first, which loads it, is left out."""
    predicted: list[float]
    """Of the second run's rounds, from the first run's fleet."""
    measured: list[float]
    """Of the same rounds, as they were."""

    @property
    def added(self) -> float:
        """How much longer a trip takes than Flower alone: medians."""
        return median(self.ours) - median(self.bare)

    @property
    def ratio(self) -> float:
        """The median of predicted rounds over that of the measured ones."""
        return median(self.predicted) / median(self.measured)


def compare(place: Path, nodes: int, rounds: int, settings: list[str]) -> Found:
    """A run, the run again and a bare application on one federation."""
    words = ["partition=iid", f"rounds={rounds}", *settings]
    runs = [RunConfig(settings=words, out=str(place / name)) for name in ("first", "second")]
    joined = Children()
    file, node_files = write_federation(place, runs[0], nodes)
    server = Server(file, lambda line: None)
    server.check()
    try:
        for node in node_files:
            joined.add(node_process(node))
        server.start()
        server.follow(joined.tend)
        file.write_text(file.read_text().replace(json.dumps(runs[0].out), json.dumps(runs[1].out)))
        second = Server(file, lambda line: None)
        second.children = server.children
        second.check()
        second.follow(joined.tend)
        bare_trips = bare(server, _model_bytes(Path(runs[0].out)), max(1, rounds // 2), joined)
    finally:
        server.children.stop()
        joined.stop()
    first = Path(runs[0].out)
    fleet = place / "fleet.toml"
    fleet.write_text(as_toml(measure(first), first.name))
    return Found(
        ours=[seconds for run in runs for seconds in own_trips(Path(run.out), nodes)],
        bare=bare_trips,
        predicted=simulated_rounds(first, fleet, rounds),
        measured=measured_rounds(Path(runs[1].out)),
    )


def bare(server: Server, size: int, rounds: int, joined: Children) -> list[float]:
    """Seconds of every trip of a bare application."""
    place = server.config.state / "bare"
    (place / "bare").mkdir(parents=True)
    for name, text in {"__init__": "", "server": _SERVER, "client": _CLIENT}.items():
        (place / "bare" / f"{name}.py").write_text(text)
    project = (server.config.state / "application" / "pyproject.toml").read_text()
    project = project.replace(flower.PACKAGE, "bare").replace("paceline-federation", "bare")
    project = project.replace('server = ""\nattempt = ""', 'size = 0\nrounds = 0\nout = ""')
    (place / "pyproject.toml").write_text(project)
    out = place / "out.json"
    said = f"size={size} rounds={rounds} out={json.dumps(str(out))}"
    flower.flwr(server.config, "run", str(place), server.config.federation.name, "--run-config", said)
    until = time.monotonic() + PATIENCE
    while not out.exists():
        if time.monotonic() > until:
            raise TimeoutError(f"the bare application has not ended within {PATIENCE:g} s")
        server.children.tend()
        joined.tend()
        time.sleep(0.2)
    return [seconds for one in json.loads(out.read_text()) for seconds in one]


def own_trips(run: Path, nodes: int) -> list[float]:
    """Seconds of every trip of a run but the first of each node, without what the worker did meanwhile."""
    trips = [trip for trip in _lines(run / "trips.jsonl") if "visit" in trip["do"] and not trip["outcome"]]
    return [trip["came"] - trip["sent"] - (trip["times"]["ended"] - trip["times"]["began"]) for trip in trips[nodes:]]


def measured_rounds(run: Path) -> list[float]:
    return [end - start for start, end in pairwise([0.0, *(row["time"] for row in _lines(run / "metrics.jsonl"))])]


def _model_bytes(run: Path) -> int:
    """Of what one visit's node is sent."""
    return max(int(trip["bytes_down"]) for trip in _lines(run / "trips.jsonl"))


def _lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--nodes", type=int, default=3)
    parser.add_argument("--rounds", type=int, default=10)
    parser.add_argument("--set", action="append", default=[], help="a further setting of the run")
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="paceline-") as folder:
        found = compare(Path(folder), asked.nodes, asked.rounds, asked.set)
    for name, trips in (("paceline", found.ours), ("bare Flower", found.bare)):
        print(
            f"{name:12} {len(trips)} trips without training: median {median(trips):.2f} s, longest {max(trips):.2f} s"
        )
    print(f"a trip takes {found.added:+.2f} s more than Flower alone")
    print(
        f"a round takes {median(found.measured):.2f} s; predicted from the run before {median(found.predicted):.2f} s"
        f" (x{found.ratio:.3f}; medians of {len(found.measured)})"
    )


if __name__ == "__main__":
    main()
