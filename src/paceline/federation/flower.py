"""Flower's programs, as Paceline starts them: their commands, their configuration, and the application they carry."""

from __future__ import annotations

import json
import os
import secrets
import shutil
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

from paceline.errors import PacelineError, SettingError
from paceline.federation.config import NodeConfig, ServerConfig, split, toml
from paceline.federation.processes import environment
from paceline.reading import shown_lines

PACKAGE = "paceline_federation"
PATIENCE = 300.0
"""Most seconds that a command of Flower's may take."""


class FlowerError(PacelineError):
    """A program of Flower's did not do what it was asked."""


def require_flower() -> None:
    """Refuse to begin without Flower."""
    if find_spec("flwr") is None:
        raise SettingError("a federation needs Flower; install the extra `flower`; see docs/install.md")


def program(name: str) -> str:
    """The path of one of Flower's programs: beside this Python, or wherever the system finds it."""
    own = Path(sys.executable).parent / name
    found = str(own) if own.exists() else shutil.which(name)
    if found is None:
        raise SettingError(f"there is no program {name}; install the extra `flower` again; see docs/install.md")
    return found


# -- a server's programs --------------------------------------------------------------------------------------------


def superlink_command(config: ServerConfig) -> list[str]:
    """The SuperLink: its state is on disk, and applications are no children of it, so that both survive it."""
    host, port = split(config.superlink.address)
    link = config.superlink
    command = [program("flower-superlink"), "--host", host, "--port", port, "--isolation", "process"]
    command += ["--database", str(config.state / "superlink.db"), "--disable-runtime-dependency-installation"]
    command += ["--superexec-auth-secret-file", str(secret_at(config.state / "superexec.secret"))]
    if link.insecure:
        return [*command, "--insecure"]
    command += ["--ssl-certfile", link.certificate, "--ssl-keyfile", link.key, "--ssl-ca-certfile", link.authority]
    return [*command, "--enable-supernode-auth"]


def superexec_command(config: ServerConfig) -> list[str]:
    """Who starts the server application."""
    command = [program("flower-superexec"), "--runtime-api-address", local(config.superlink.address)]
    command += ["--superexec-auth-secret-file", str(secret_at(config.state / "superexec.secret"))]
    return command + _trusted(config.superlink.insecure, config.superlink.authority)


def supernode_command(config: NodeConfig) -> list[str]:
    """A node's link to the SuperLink."""
    command = [program("flower-supernode"), "--superlink", config.superlink, "--port", str(config.port)]
    command += ["--node-config", f"socket={json.dumps(str(config.socket))} bytes={config.bytes}"]
    if not config.insecure:
        command += ["--auth-supernode-private-key", config.key]
    return command + _trusted(config.insecure, config.authority)


def _trusted(insecure: bool, authority: str) -> list[str]:
    return ["--insecure"] if insecure else ["--root-certificates", authority]


def secret_at(path: Path) -> Path:
    """Return a file with a secret that only this user can read; write it if it does not exist."""
    if not path.exists():
        draft = path.with_suffix(".part")
        with os.fdopen(os.open(draft, os.O_CREAT | os.O_TRUNC | os.O_WRONLY, 0o600), "wb") as file:
            file.write(secrets.token_bytes(32))
        draft.replace(path)
    return path


def local(address: str) -> str:
    """Where a program of the same machine reaches an address that is listened on."""
    host, port = split(address)
    return f"127.0.0.1:{port}" if host in ("0.0.0.0", "::", "[::]") else address


# -- the application ------------------------------------------------------------------------------------------------


def home(state: Path) -> Path:
    """Where Flower's programs of a server or a node keep their own things."""
    return state / "flower"


def write_application(config: ServerConfig) -> Path:
    """The bundle that Flower carries: two lines that import Paceline, where it is installed."""
    place = config.state / "application"
    package = place / PACKAGE
    package.mkdir(parents=True, exist_ok=True)
    (package / "__init__.py").write_text("")
    for part in ("server", "client"):
        text = f'"""Paceline\'s own."""\n\nfrom paceline.federation import {part}app\n\napp = {part}app.app\n'
        (package / f"{part}.py").write_text(text)
    (place / "pyproject.toml").write_text(_PROJECT)
    return place


_PROJECT = f"""[build-system]
requires = ["hatchling"]
build-backend = "hatchling.build"

[project]
name = "{PACKAGE.replace("_", "-")}"
version = "1.0.0"
description = "Carries messages between Paceline's server and its nodes"
license = "Apache-2.0"
dependencies = []

[tool.hatch.build.targets.wheel]
packages = ["."]

[tool.flwr.app]
publisher = "paceline"

[tool.flwr.app.components]
serverapp = "{PACKAGE}.server:app"
clientapp = "{PACKAGE}.client:app"

[tool.flwr.app.config]
server = ""
attempt = ""
"""


def write_connection(config: ServerConfig) -> None:
    """How Flower's command line finds the SuperLink."""
    link = config.superlink
    trust = {"insecure": True} if link.insecure else {"root-certificates": link.authority}
    name = config.federation.name
    text = toml({"superlink": {"default": name}, f"superlink.{name}": {"address": local(link.address), **trust}})
    home(config.state).mkdir(parents=True, exist_ok=True)
    (home(config.state) / "config.toml").write_text(text)


def flwr(config: ServerConfig, *words: str) -> str:
    """Have Flower's command line do something; what it says."""
    command, own = [program("flwr"), *words], environment(home(config.state))
    try:
        done = subprocess.run(command, env=own, capture_output=True, text=True, check=False, timeout=PATIENCE)
    except subprocess.TimeoutExpired:
        raise FlowerError(f"flwr {' '.join(words[:2])} has not ended within {PATIENCE:g} s") from None
    if done.returncode:
        raise FlowerError(f"flwr {' '.join(words[:2])} failed:\n{shown_lines(done.stdout + done.stderr)}")
    return done.stdout


def start_run(config: ServerConfig, file: Path, attempt: str) -> str:
    """Have the server application started; Flower's number of it."""
    said = f"server={json.dumps(str(file))} attempt={json.dumps(attempt)}"
    name = config.federation.name
    text = flwr(config, "run", str(config.state / "application"), name, "--run-config", said, "--format", "json")
    try:
        return str(json.loads(text[text.index("{") :])["run-id"])
    except (ValueError, KeyError):
        raise FlowerError(f"flwr run did not say which run it started:\n{shown_lines(text)}") from None


def register(config: ServerConfig, key: str) -> None:
    """Let the node with this public key join; one that may already is left as it is."""
    try:
        flwr(config, "supernode", "register", key, config.federation.name)
    except FlowerError as problem:
        if "already" not in str(problem).lower():
            raise
