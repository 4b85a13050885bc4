"""Make the directory of a federation: everything or nothing, and nothing that is there is touched."""

from __future__ import annotations

import os
import shutil
import tempfile
from pathlib import Path

from paceline.errors import SettingError
from paceline.federation.deploy import texts
from paceline.federation.deploy.texts import Scene


def make_deployment(directory: Path, scene: Scene) -> None:
    """Write all files of a federation into a directory that is new or empty."""
    refuse_taken(directory)
    files = _files(scene)
    directory = directory.absolute()
    directory.parent.mkdir(parents=True, exist_ok=True)
    draft = Path(tempfile.mkdtemp(prefix=f".{directory.name}-", dir=directory.parent))
    try:
        for name, (data, mode) in files.items():
            _write(draft / name, data, mode)
        draft.rename(directory)  # in one step; a directory that was filled meanwhile stays as it is
    except BaseException as problem:
        shutil.rmtree(draft, ignore_errors=True)
        if isinstance(problem, OSError):
            raise SettingError(f"{directory} cannot be made: {problem.strerror}; name another directory") from None
        raise


def refuse_taken(directory: Path) -> None:
    """Nothing is written over, nor beside what is there already."""
    if directory.is_symlink():
        raise SettingError(f"{directory} is a symbolic link; name the directory itself, or one that is new")
    if directory.exists() and not directory.is_dir():
        raise SettingError(f"{directory} is a file; name a directory that is new")
    if directory.exists() and any(directory.iterdir()):
        raise SettingError(
            f"{directory} is not empty, and nothing in it is written over: keys that nodes have would be lost. Name a"
            " directory that is new"
        )


PRIVATE, PUBLIC, PROGRAM = 0o600, 0o644, 0o755


def _files(scene: Scene) -> dict[str, tuple[bytes, int]]:
    """What is written, and who may read it."""
    try:
        from paceline.federation.deploy.certificates import make_authority, make_node_keys, make_server
        from paceline.federation.deploy.readme import readme
    except ModuleNotFoundError as missing:
        raise SettingError(
            f"certificates need the package {missing.name}, which comes with Flower; install the"
            " extra `flower`; see docs/install.md"
        ) from None
    made = make_authority(scene.name)
    authority, server = made.pair(), make_server(made, scene.name, scene.hosts)
    files = {
        "README.md": (readme(scene).encode(), PUBLIC),
        "ca.key": (authority.private, PRIVATE),
        "ca.pem": (authority.public, PUBLIC),
        "server.key": (server.private, PRIVATE),
        "server.pem": (server.public, PUBLIC),
        "server.toml": (texts.server_toml(scene).encode(), PUBLIC),
        "nginx.conf": (texts.nginx_conf(scene).encode(), PUBLIC),
        "paceline-server.service": (texts.server_unit().encode(), PUBLIC),
    }
    for client, name in enumerate(scene.nodes):
        keys, folder = make_node_keys(name), f"nodes/{name}"
        files[f"{folder}/key"] = (keys.private, PRIVATE)
        files[f"{folder}/key.pub"] = (keys.public, PUBLIC)
        files[f"{folder}/ca.pem"] = (authority.public, PUBLIC)
        files[f"{folder}/node.toml"] = (texts.node_toml(scene, client).encode(), PUBLIC)
        files[f"{folder}/paceline-node.service"] = (texts.node_unit().encode(), PUBLIC)
        files[f"{folder}/supervise.sh"] = (texts.supervisor().encode(), PROGRAM)
    return files


def _write(path: Path, data: bytes, mode: int) -> None:
    """A new file, which was never open to more people than it is in the end."""
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, PRIVATE)
    with os.fdopen(handle, "wb") as file:
        file.write(data)
    path.chmod(mode)
