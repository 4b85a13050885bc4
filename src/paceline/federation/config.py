"""The files that say what a server and its nodes are: ``server.toml`` and ``node.toml``.

Relative paths are relative to the file. A name that is not known is refused, with those that are.
"""

from __future__ import annotations

import hashlib
import os
import re
import tempfile
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

from paceline.bounds import bounded
from paceline.config import Tree, apply, parse_toml
from paceline.errors import SettingError, nearest
from paceline.reading import expanded, read_text, shown

C = TypeVar("C")
LAST_PORT = 65_535
_PORT = re.compile(r"[0-9]{1,5}")
LONGEST_SOCKET = 100
"""Bytes of the name of a socket: systems allow little more."""
SECURITY = "authority, certificate and key, or insecure = true on a network that nobody else can reach"


@dataclass(frozen=True, kw_only=True)
class Federation:
    """Who takes part in a federation, and where the server keeps its own files."""

    name: str = "paceline"
    """What Flower calls the connection."""
    nodes: int = bounded(3, least=1, most=100_000)
    state: str = "state"
    """The directory of the SuperLink's database, the application and the logs."""


@dataclass(frozen=True, kw_only=True)
class SuperLink:
    """Where the SuperLink listens, and how nodes know it."""

    address: str = "127.0.0.1:18000"
    """Control and runtime interfaces are there too: keep it on loopback or on a private network."""
    fleet: str = ""
    """Where a proxy lets nodes in, to the fleet's interface alone."""
    authority: str = ""
    certificate: str = ""
    key: str = ""
    keys: list[str] = field(default_factory=list)
    """Public keys of the nodes that may join."""
    insecure: bool = False


@dataclass(frozen=True, kw_only=True)
class RunConfig:
    """Which algorithm a federation runs, with which settings, and where its results go."""

    algorithm: str = "fedavg"
    settings: list[str] = field(default_factory=list)
    """As with ``--set``."""
    file: str = ""
    """A file of settings, as with ``--config``."""
    until: list[str] = field(default_factory=list)
    checkpoint: str = ""
    out: str = "runs/first"
    trust: bool = False
    """Whether settings may name code."""
    track: list[str] = field(default_factory=list)
    """Trackers that follow the run, as with ``--track``."""


@dataclass(frozen=True, kw_only=True)
class Limits:
    """What is waited for, and what is believed."""

    seconds: float = bounded(600.0, least=1.0, most=1e7)
    """How long a task may take before its device counts as lost."""
    bytes: int = bounded(1_000_000_000, least=1)
    """The largest answer that is read."""
    norm: float = bounded(0.0, least=0.0)
    """How far what comes may lie from what was sent there, and from zero; 0: no bound."""
    grace: float = bounded(300.0, least=0.0, most=1e7)
    """Seconds after which a node that is away is taken to have left for good."""


@dataclass(frozen=True, kw_only=True)
class ServerConfig:
    """All that the file ``server.toml`` says."""

    federation: Federation = field(default_factory=Federation)
    superlink: SuperLink = field(default_factory=SuperLink)
    run: RunConfig = field(default_factory=RunConfig)
    limits: Limits = field(default_factory=Limits)

    @property
    def state(self) -> Path:
        """The server's own directory."""
        return Path(self.federation.state)

    @property
    def out(self) -> Path:
        """The run's directory."""
        return Path(self.run.out)


@dataclass(frozen=True, kw_only=True)
class NodeConfig:
    """The group ``[node]`` of ``node.toml``."""

    client: int = bounded(0, least=0, most=100_000)
    """Which of the run's clients this node is."""
    state: str = "state"
    """Its models, its answers, its socket."""
    superlink: str = "127.0.0.1:18000"
    """The SuperLink's address, or that of the proxy before it."""
    port: int = bounded(18101, least=1, most=65535)
    """The SuperNode's own, on loopback."""
    authority: str = ""
    key: str = ""
    """The node's private key."""
    insecure: bool = False
    data: str = ""
    """The node's own data file, ``.npz`` or ``.csv``, used instead of the run's dataset."""
    bytes: int = bounded(1_000_000_000, least=1)
    """The largest message that is read."""
    trust: bool = False
    """Whether settings that come from the server may name code that is installed here."""

    @property
    def directory(self) -> Path:
        """The node's own directory."""
        return Path(self.state)

    @property
    def socket(self) -> Path:
        """Where the resident worker listens; elsewhere, if the system does not allow so long a name."""
        path = self.directory / "worker.sock"
        if len(os.fsencode(path)) <= LONGEST_SOCKET:
            return path
        name = hashlib.sha256(os.fsencode(path)).hexdigest()[:16]
        return Path(tempfile.gettempdir()) / f"paceline-{os.getuid()}-{name}" / "worker.sock"


@dataclass(frozen=True, kw_only=True)
class _NodeFile:
    node: NodeConfig = field(default_factory=NodeConfig)


def read_server(path: Path) -> ServerConfig:
    """What ``server.toml`` says, with absolute paths."""
    tree = _read(path, ServerConfig)
    for group, names in {
        "federation": ("state",),
        "superlink": ("authority", "certificate", "key"),
        "run": ("out", "file"),
    }.items():
        _resolve(tree.setdefault(group, {}), names, path)
    tree["federation"].setdefault("state", str(_beside(path, "state")))
    tree["run"].setdefault("out", str(_beside(path, "runs/first")))
    if isinstance(keys := tree["superlink"].get("keys"), list):
        tree["superlink"]["keys"] = [str(_beside(path, str(key))) for key in keys]
    found = apply(ServerConfig(), tree, f"{path.name}: ")
    link = found.superlink
    split(link.address)
    if not link.insecure and not (link.authority and link.certificate and link.key):
        raise SettingError(f"{path} says nothing of TLS in [superlink]; give {SECURITY}")
    return found


def read_node(path: Path) -> NodeConfig:
    """What ``node.toml`` says, with absolute paths."""
    tree = _read(path, _NodeFile)
    _resolve(tree.setdefault("node", {}), ("state", "authority", "key", "data"), path)
    tree["node"].setdefault("state", str(_beside(path, "state")))
    found = apply(_NodeFile(), tree, f"{path.name}: ").node
    split(found.superlink)
    if found.data and not found.data.endswith((".npz", ".csv")):
        raise SettingError(f"{path.name}: data is {shown(found.data)}, but must end in .npz or .csv")
    if not found.insecure and not (found.authority and found.key):
        raise SettingError(f"{path} names no authority and key in [node]; give both, or insecure = true")
    return found


def split(address: str) -> tuple[str, str]:
    """Host and port."""
    host, colon, port = address.rpartition(":")
    if not colon or not host or not _PORT.fullmatch(port) or not 1 <= int(port) <= LAST_PORT:
        raise SettingError(
            f"{shown(address)} is no address; wanted host:port, such as 127.0.0.1:18000, with a port of 1 to"
            f" {LAST_PORT}"
        )
    return host, port


def require_files(path: Path, names: Sequence[str]) -> None:
    """Refuse to begin with a file that names others which are not there, or may not be read."""
    for name in filter(None, names):
        if "\0" in name or not os.access(name, os.R_OK) or Path(name).is_dir():
            raise SettingError(f"{path} names {name}, which cannot be read as a file; put it there, or name another")


def toml(groups: Mapping[str, Mapping[str, Any]]) -> str:
    """Groups of plain values as a TOML text."""
    lines = []
    for group, values in groups.items():
        lines.append(f"[{group}]")
        lines += [f"{name} = {_plain(value)}" for name, value in values.items()]
        lines.append("")
    return "\n".join(lines)


def _plain(value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, list):
        return f"[{', '.join(map(_plain, value))}]"
    if isinstance(value, str):
        return '"' + value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n") + '"'
    return repr(value)


def _read(path: Path, kind: type[Any]) -> Tree:
    try:
        tree = parse_toml(read_text(path, SettingError), str(path))
    except FileNotFoundError:
        raise SettingError(f"there is no {path}; `paceline deploy init DIR` writes such files") from None
    except tomllib.TOMLDecodeError as problem:
        raise SettingError(f"{path} is not valid TOML: {problem}") from None
    known = kind.__dataclass_fields__
    for group, values in tree.items():
        if group not in known:
            raise SettingError(f"{path}: unknown group [{group}]; {nearest(group, known)}")
        if not isinstance(values, dict):
            raise SettingError(f"{path}: {group} is no group; write [{group}] above its settings")
    return tree


def _resolve(group: Tree, names: tuple[str, ...], path: Path) -> None:
    for name in names:
        if isinstance(said := group.get(name), str) and said:
            group[name] = str(_beside(path, said))


def _beside(path: Path, said: str) -> Path:
    return (path.absolute().parent / expanded(said)).absolute()
