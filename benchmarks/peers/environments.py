"""A virtual environment for each peer, made once from its pinned requirements."""

from __future__ import annotations

import hashlib
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

HERE = Path(__file__).parent
ROOT = HERE.parent.parent
PLACE = ROOT / "build" / "peers"
PIP = ("-m", "pip", "install", "--quiet", "--disable-pip-version-check")


@dataclass(frozen=True)
class Peer:
    """A framework, and what its losses can be compared with."""

    name: str
    title: str
    module: str
    own: bool = True
    """Whether it has an environment of its own; else it runs in the one that this program runs in."""
    agrees: str = "batches"
    """``batches``: it learns from the workload's own participants and batches, so losses agree; ``participants``:
    it draws batches itself; ``nothing``: participants too. Then the accuracy is compared."""
    absent: str = ""
    """Why it cannot be run at all."""


PEERS = {
    peer.name: peer
    for peer in (
        Peer("plain", "plain loop", "plain", own=False),
        Peer("paceline", "Paceline", "paceline_peer", own=False),
        Peer("flower", "Flower", "flower"),
        Peer("fedjax", "FedJAX", "fedjax_peer"),
        Peer("pfl", "pfl", "pfl_peer"),
        Peer("fluke", "fluke", "fluke_peer"),
        Peer("fedlab", "FedLab", "fedlab"),
        Peer(
            "blazefl",
            "BlazeFL",
            "blazefl",
            absent="BlazeFL 2.0.3 wants Python 3.12, for which only torch with CUDA was at hand: no script yet",
        ),
    )
}


class NotHereError(Exception):
    """A peer cannot be installed; the text is the installer's first line of complaint."""


def python_of(peer: Peer) -> str:
    """The interpreter that a peer runs with; its environment is made when it is not there yet."""
    if peer.absent:
        raise NotHereError(peer.absent)
    if not peer.own:
        return sys.executable
    place, asked = PLACE / peer.name, HERE / "requirements" / f"{peer.name}.txt"
    ready, digest = place / ".ready", hashlib.sha256(asked.read_bytes()).hexdigest()
    if not ready.is_file() or ready.read_text() != digest:
        _make(place, asked)
        ready.write_text(digest)
    return str(place / "bin" / "python")


def _make(place: Path, asked: Path) -> None:
    lines = [line.strip() for line in asked.read_text().splitlines()]
    directives = dict(line[2:].split(": ", 1) for line in lines if line.startswith("# ") and ": " in line)
    base = shutil.which(directives.get("python", sys.executable))
    if base is None:
        raise NotHereError(f"needs {directives['python']}, which is not on the path")
    _do([base, "-m", "venv", "--clear", str(place)])
    python = str(place / "bin" / "python")
    # torch comes first and alone: any other order may pull several gigabytes of CUDA packages.
    for torch in (line for line in lines if line.startswith("torch==")):
        _do([python, *PIP, torch])
    _do([python, *PIP, *directives.get("options", "").split(), "-r", str(asked)])


def _do(command: list[str]) -> None:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        lines = done.stderr.splitlines()
        wrong = [line for line in lines if line.lower().startswith("error")] or lines
        raise NotHereError(wrong[0].strip() if wrong else f"exit status {done.returncode}")
