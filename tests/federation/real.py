"""A real federation on loopback: a SuperLink and its nodes, and the numbers of all their processes."""

import json
import os
import signal
import time
from pathlib import Path

from paceline.federation.config import Limits, RunConfig
from paceline.federation.processes import Children
from paceline.federation.serving import Server
from paceline.federation.trying import node_process, write_federation


class Real:
    """Nodes that stay, and one server after the other."""

    def __init__(self, place, nodes=3, limits=None):
        self.place = place
        self.limits = limits or Limits()
        self.nodes = nodes
        self.joined = Children()
        self.server = None
        self.said = []

    def __enter__(self):
        return self

    def __exit__(self, *_):
        if self.server is not None:
            self.server.children.stop()
        self.joined.stop()

    def run(self, name, words, out, watch=lambda real: None):
        """One run to its end; ``watch`` is called again and again meanwhile."""
        run = RunConfig(algorithm=name, settings=["partition=iid", *words], out=str(self.place / out))
        if self.server is None:
            file, nodes = write_federation(self.place, run, self.nodes, self.limits)
            self.server = Server(file, self.said.append)
            for node in nodes:
                self.joined.add(node_process(node))
            self.server.check()
            self.server.start()
        else:  # the same server, and another run
            text = self.server.file.read_text()
            before = Path(self.server.config.run.out)
            file = self.place / f"{out}.toml"
            old = f"out = {json.dumps(str(before))}"
            assert old in text
            file.write_text(_replaced(text, run))
            children, self.server = self.server.children, Server(file, self.said.append)
            self.server.children = children
            self.server.check()
        self.server.follow(lambda: (self.joined.tend(), watch(self)))
        return self.place / out


def _replaced(text, run):
    lines = []
    for line in text.splitlines():
        name = line.partition(" =")[0]
        words = {"algorithm": run.algorithm, "settings": run.settings, "out": run.out}
        lines.append(f"{name} = {json.dumps(words[name])}" if name in words else line)
    return "\n".join(lines)


def children_of(pid):
    """The numbers of a process's children."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                text = (entry / "stat").read_text()
            except OSError:
                continue
            if int(text.rpartition(")")[2].split()[1]) == pid:
                found.append(int(entry.name))
    return found


def command_of(pid):
    return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode()


def kill(*pids):
    for pid in pids:
        os.kill(pid, signal.SIGKILL)


class Strike:
    """Does something once, while a client is in the middle of its second visit."""

    def __init__(self, client, act):
        self.client, self.act = client, act
        self.struck = None

    def __call__(self, real):
        came = f"node{self.client}/runs/*/devices/{self.client}/send.-1.{self.client}.1.came.0.model"
        if self.struck is None and any(real.place.glob(came)):
            self.act(real)
            self.struck = time.monotonic()
