"""A node: a resident worker and a SuperNode, both started again when they end."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from pathlib import Path

from paceline.federation.config import NodeConfig, read_node, require_files
from paceline.federation.flower import home, require_flower, supernode_command
from paceline.federation.processes import Child, Children, environment
from paceline.ledger.lock import Lock
from paceline.runs.stopping import Stopping

GLANCE = 0.2
"""Seconds between two looks at whether all still runs."""


def join(file: Path, say: Callable[[str], None]) -> None:
    """Be a node until somebody asks for the end; what goes wrong meanwhile is said."""
    require_flower()
    config = read_node(file)
    require_files(file, [config.authority, config.key, config.data])
    config.directory.mkdir(mode=0o700, parents=True, exist_ok=True)
    children = Children()
    with Lock(config.directory), Stopping(patience=0):
        try:
            for child in node_children(config, file):
                children.add(child)
            say(f"client {config.client} goes to {config.superlink}; its logs are in {config.directory / 'logs'}")
            while True:
                children.tend(say)
                time.sleep(GLANCE)
        finally:
            children.stop()
            config.socket.unlink(missing_ok=True)


def node_children(config: NodeConfig, file: Path) -> list[Child]:
    """The two processes of a node."""
    surroundings, logs = environment(home(config.directory)), config.directory / "logs"
    worker = [sys.executable, "-m", "paceline.federation.resident", str(file)]
    return [
        Child("worker", worker, logs / "worker.log", surroundings),
        Child("supernode", supernode_command(config), logs / "supernode.log", surroundings),
    ]
