"""Round trips of a federation on loopback beside those of a bare Flower application on the same SuperLink and nodes.

    python -m benchmarks.federation --nodes 3 --trips 10

The bare application sends each node arrays of the size of the model, and its nodes send them back at once; its server
looks for replies as often as ours does. So what Paceline adds (a resident worker, words, checks, a journal) is the
difference. Both take the same way, in turns that follow each other on the same machine.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import tempfile
import time
from pathlib import Path

from paceline.federation import flower
from paceline.federation.config import RunConfig
from paceline.federation.processes import Children
from paceline.federation.serving import Server
from paceline.federation.trying import node_process, write_federation

_SERVER = """
import json, time
from pathlib import Path
import numpy as np
from flwr.app import Array, ArrayRecord, Message, RecordDict
from flwr.serverapp import ServerApp

app = ServerApp()


@app.main()
def main(grid, context):
    size, trips, out = (context.run_config[name] for name in ("size", "trips", "out"))
    nodes, found = sorted(grid.get_node_ids()), []
    arrays = ArrayRecord({"a": Array(np.zeros(size, np.uint8))})
    for trip in range(trips + 1):
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
    Path(out).write_text(json.dumps(found[1:]))
"""
_CLIENT = """
from flwr.app import Message
from flwr.clientapp import ClientApp

app = ClientApp()


@app.query()
def back(message, context):
    return Message(message.content, reply_to=message)
"""


def bare(server: Server, size: int, trips: int) -> list[list[float]]:
    """Seconds of every trip of a bare application, round by round; the first, which loads it, is left out."""
    place = server.config.state / "bare"
    (place / "bare").mkdir(parents=True)
    for name, text in {"__init__": "", "server": _SERVER, "client": _CLIENT}.items():
        (place / "bare" / f"{name}.py").write_text(text)
    project = (server.config.state / "application" / "pyproject.toml").read_text()
    project = project.replace(flower.PACKAGE, "bare").replace("paceline-federation", "bare")
    project = project.replace('server = ""\nattempt = ""', 'size = 0\ntrips = 0\nout = ""')
    (place / "pyproject.toml").write_text(project)
    out = place / "out.json"
    said = f"size={size} trips={trips} out={json.dumps(str(out))}"
    flower.flwr(server.config, "run", str(place), server.config.federation.name, "--run-config", said)
    while not out.exists():
        server.children.tend()
        time.sleep(0.2)
    time.sleep(0.5)
    found: list[list[float]] = json.loads(out.read_text())
    return found


def ours(server: Server) -> list[list[float]]:
    """Seconds of every trip of the run, round by round; the first visits of all nodes are left out."""
    trips = [json.loads(line) for line in (server.config.out / "trips.jsonl").read_text().splitlines()]
    visits = [trip for trip in trips if "visit" in trip["do"]]
    nodes = server.config.federation.nodes
    rounds = [visits[k : k + nodes] for k in range(0, len(visits), nodes)]
    return [[trip["came"] - trip["sent"] - _trained(trip) for trip in one] for one in rounds[1:]]


def _trained(trip: dict[str, dict[str, float]]) -> float:
    return trip["times"]["ended"] - trip["times"]["began"]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--nodes", type=int, default=3)
    parser.add_argument("--trips", type=int, default=10)
    asked = parser.parse_args()
    joined = Children()
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        run = RunConfig(settings=["partition=iid", f"rounds={asked.trips + 1}"], out=str(place / "run"))
        file, nodes = write_federation(place, run, asked.nodes)
        server = Server(file, lambda line: None)
        server.check()
        try:
            for node in nodes:
                joined.add(node_process(node))
            server.start()
            server.follow(joined.tend)
            size = int(os.environ.get("PACELINE_BARE_BYTES", "19256"))
            found = {"paceline": ours(server), "bare Flower": bare(server, size, asked.trips)}
        finally:
            server.children.stop()
            joined.stop()
    for name, rounds in found.items():
        trips = [seconds for one in rounds for seconds in one]
        longest = [max(one) for one in rounds]
        print(
            f"{name:12} {len(trips)} trips, without training: median {statistics.median(trips):.2f} s,"
            f" a round's slowest {statistics.median(longest):.2f} s (median)"
        )


if __name__ == "__main__":
    main()
