"""Names of nodes and of the server's hosts: checked before anything is made with them."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Sequence

from paceline.errors import SettingError
from paceline.reading import shown

MOST_NODES = 1000
LOOPBACK = ("localhost", "127.0.0.1", "::1")
"""Hosts that every server certificate names: the server's own parts meet there."""
_NODE = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,62}")
_LABEL = re.compile(r"(?!-)[A-Za-z0-9-]{1,63}(?<!-)")

Address = ipaddress.IPv4Address | ipaddress.IPv6Address


def check_nodes(count: int | None, names: Sequence[str]) -> list[str]:
    """The names of the nodes: those that were given, or so many that are numbered; three unless told otherwise."""
    if names and count is not None:
        raise SettingError(f"--nodes {count} and --node {names[0]} both say which nodes there are; leave one out")
    if not names:
        names = [f"node-{number}" for number in range(1, _checked_count(3 if count is None else count) + 1)]
    _checked_count(len(names))
    seen: set[str] = set()
    for name in names:
        _check_node(name)
        if name.lower() in seen:  # on some file systems these are one folder
            raise SettingError(f"the node {name!r} is named twice (small and capital letters count as the same)")
        seen.add(name.lower())
    return list(names)


def _checked_count(count: int) -> int:
    if not 1 <= count <= MOST_NODES:
        raise SettingError(f"{count} nodes; wanted 1 to {MOST_NODES}")
    return count


def _check_node(name: str) -> None:
    if not _NODE.fullmatch(name):
        raise SettingError(
            f"--node is {shown(name)}; a node's name is a folder's, too: letters, digits, - and _, at most 63, a"
            " letter or digit first"
        )


def check_hosts(hosts: Sequence[str]) -> list[str]:
    """The server's names and addresses as they stand in its certificate: those that were given, then loopback."""
    for host in hosts:
        if address_of(host) is None and not _is_name(host):
            raise SettingError(
                f"--host is {shown(host)}; wanted a name such as fl.example.org or an address such as 192.0.2.7,"
                " without a port"
            )
    return list(dict.fromkeys((*hosts, *LOOPBACK)))


def _is_name(host: str) -> bool:
    last = host.rpartition(".")[2]
    return len(host) <= 253 and all(map(_LABEL.fullmatch, host.split("."))) and not last.isdigit()


def address_of(host: str) -> Address | None:
    """The address that a host is written as, if it is one."""
    try:
        found = ipaddress.ip_address(host)
    except ValueError:
        return None
    if isinstance(found, ipaddress.IPv6Address) and found.scope_id:
        return None
    return found


def with_port(host: str, port: int) -> str:
    """A host and a port in one word."""
    found = address_of(host)
    return f"[{host}]:{port}" if found is not None and found.version == 6 else f"{host}:{port}"
