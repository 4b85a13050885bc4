"""Admission of nodes as clients: each client is bound to one key, given or first seen.

With TLS a node signs every call, and the SuperLink says by which key. A node that is registered or started anew has
another number in Flower, and the same key. Without TLS the key is new at every start, so a secret replaces it.
"""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any, cast

from paceline.errors import SettingError, WireError
from paceline.federation.config import ServerConfig
from paceline.ledger.directory import write_json
from paceline.reading import cleaned, parse_object, read_text


class Members:
    """The key of each client: from the server's file, or else the one that the client had when it first joined."""

    def __init__(self, path: Path, given: tuple[str, ...] = (), *, signed: bool = False) -> None:
        self._path = path
        self._signed = signed
        """Whether nodes have keys that the SuperLink has checked."""
        self._place = "keys of the server's file" if given else path
        seen = parse_object(read_text(path), str(path)) if path.exists() and not given else {}
        self._known = seen | {str(client): who for client, who in enumerate(given)}

    def admit(self, key: bytes, words: dict[str, Any], clients: int) -> int:
        """Return the client that a node claims to be; ``WireError`` if its key does not belong to that client."""
        client, secret = words.get("client"), str(words.get("secret", ""))
        if "error" in words or type(client) is not int or not 0 <= client < clients:
            raise WireError(cleaned(f"it does not say which client it is: {words.get('error', client)}"))
        proof, claim = key if self._signed else secret.encode(errors="replace"), f"it says it is client {client}"
        if not proof:
            raise WireError(f"{claim}, and nothing proves that")
        new = {str(client): digest(proof)}
        if others := [other for other, who in self._known.items() if who in new.values() and other not in new]:
            raise WireError(f"{claim}, and has the key of client {others[0]}")
        if self._known | new != new | self._known:
            raise WireError(f"{claim}, which has another key; a new one must be put into {self._place}")
        if str(client) not in self._known:
            write_json(self._path, self._known | new)
            self._known |= new
        return client


def members_of(config: ServerConfig) -> Members:
    """Return the members that a server's file describes. Its first key is that of client 0."""
    signed, nodes = not config.superlink.insecure, config.federation.nodes
    given = tuple(digest(_key(Path(path))) for path in config.superlink.keys) if signed else ()
    if given and not nodes <= len(set(given)) == len(given):
        said = f"[superlink] keys has {len(given)} entries and {len(set(given))} keys, but nodes is {nodes}"
        raise SettingError(f"{said}; give every client its own key, in the order of clients")
    return Members(config.state / "clients.json", given, signed=signed)


def digest(token: bytes) -> str:
    """Return the digest that stands for a key or a secret."""
    return hashlib.sha256(token).hexdigest()


def _key(path: Path) -> bytes:
    from cryptography.hazmat.primitives.serialization import load_ssh_public_key
    from flwr.supercore.primitives.asymmetric import public_key_to_bytes

    try:
        return public_key_to_bytes(cast(Any, load_ssh_public_key(read_text(path, SettingError).encode())))
    except ValueError:
        raise SettingError(f"{path} is not a public key; make one with ssh-keygen -t ecdsa -b 384") from None
