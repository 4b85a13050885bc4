"""A whole federation on loopback, for trying out: every part is a process of this machine, and nothing is secret."""

from __future__ import annotations

import os
import socket
import sys
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path

from paceline.errors import SettingError
from paceline.federation.config import Limits, RunConfig, toml
from paceline.federation.flower import home
from paceline.federation.processes import Child, Children, environment
from paceline.federation.serving import Server

PORTS = range(18000, 19000)
"""Where servers and nodes listen."""


def write_federation(
    place: Path, run: RunConfig, nodes: int, limits: Limits | None = None
) -> tuple[Path, list[Path]]:
    """The files of a server and its nodes, in a directory."""
    if nodes < 1:
        raise SettingError(f"--nodes is {nodes}; it must be 1 or more")
    ports = free_ports(nodes + 1)
    address = f"127.0.0.1:{ports[0]}"
    server, files = place / "server.toml", []
    place.mkdir(parents=True, exist_ok=True)
    server.write_text(
        toml(
            {
                "federation": {"nodes": nodes, "state": "server"},
                "superlink": {"address": address, "insecure": True},
                "run": {**asdict(run), "out": str(Path(run.out).absolute())},
                "limits": asdict(limits or Limits()),
            }
        )
    )
    for client, port in enumerate(ports[1:]):
        files.append(place / f"node{client}.toml")
        words = {"client": client, "state": f"node{client}", "superlink": address, "port": port, "insecure": True}
        files[-1].write_text(toml({"node": {**words, "trust": run.trust}}))
    return server, files


def check(server: Path) -> None:
    """Whatever is wrong with what is to be run is said before anything starts."""
    Server(server, lambda line: None).check()


def free_ports(count: int) -> list[int]:
    """Ports on which nobody listens just now."""
    found = []
    first = 7 * os.getpid() % len(PORTS)  # two who look at once do not find the same
    for port in (*PORTS[first:], *PORTS[:first]):
        with socket.socket() as trial:
            trial.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                trial.bind(("127.0.0.1", port))
            except OSError:
                continue
        found.append(port)
        if len(found) == count:
            return found
    raise SettingError(f"{count} free ports were wanted between {PORTS.start} and {PORTS.stop - 1}; end something")


def try_out(server: Path, nodes: list[Path], say: Callable[[str], None]) -> None:
    """Start all of it, follow the run, and end all of it."""
    served, joined = Server(server, say), Children()
    try:
        for file in nodes:
            joined.add(node_process(file))
        served.run(joined.tend)
    finally:
        joined.stop()


def node_process(file: Path) -> Child:
    """``paceline join`` as a process."""
    place = file.with_suffix("")
    command = [sys.executable, "-m", "paceline", "join", str(file)]
    return Child(file.stem, command, place / "logs" / "join.log", environment(home(place)))
