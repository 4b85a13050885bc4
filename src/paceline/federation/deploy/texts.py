"""The files of a federation that are text: configuration of server and nodes, the proxy, units and a supervisor."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from paceline.federation.deploy.names import address_of, with_port

HOME = "/var/lib/paceline"
"""Where the files lie on the machines."""
PROGRAMS = "/opt/paceline/bin"
"""Where Paceline and Flower are installed on the machines."""
RETRY = 15
"""Seconds between two attempts of a node to join. One that was killed is refused until the SuperLink has missed its
heartbeats for a minute (twice Flower's 30 s), so it must try again for longer than that, and never give up."""


@dataclass(frozen=True, kw_only=True)
class Scene:
    """What is to be deployed."""

    name: str = "paceline"
    nodes: Sequence[str]
    hosts: Sequence[str]
    """As in the server's certificate: the first is the one under which nodes look for the server."""
    inner: int = 18000
    """The port of the SuperLink, on loopback."""
    outer: int = 18443
    """The port of the proxy, where nodes come in."""
    runtime: int = 18101
    """The port of the first node's SuperNode, on its machine's loopback; the others' follow, for one machine may
    have several."""

    @property
    def address(self) -> str:
        """Where nodes look for the server."""
        return with_port(self.hosts[0], self.outer)


def server_toml(scene: Scene) -> str:
    """The configuration of ``paceline serve``."""
    keys = "".join(f'  "nodes/{name}/key.pub",\n' for name in scene.nodes)
    count = len(scene.nodes)
    return f"""\
# For `paceline serve`. Paths are relative to this file.

[federation]
name = "{scene.name}"
nodes = {count}                  # how many take part
state = "state"            # database, sockets and logs

[superlink]
# The SuperLink's control and runtime APIs are on this port too, and open to whoever reaches it: keep it on loopback.
address = "127.0.0.1:{scene.inner}"
fleet = "0.0.0.0:{scene.outer}"    # where the proxy of nginx.conf lets nodes in
authority = "ca.pem"
certificate = "server.pem"
key = "server.key"
keys = [                   # public keys of the nodes that may join: of client 0, of client 1, ...
{keys}]

[run]
algorithm = "fedavg"
settings = ["clients={count}", "partition=iid", "rounds=5"]
out = "runs/first"

[limits]
seconds = 600.0            # after which a task is lost
bytes = 1_000_000_000      # of the largest answer that is read
norm = 0.0                 # bound on how far an update may lie from where the node started; 0 is none
grace = 300.0              # seconds after which a node that is away has left for good
"""


def node_toml(scene: Scene, client: int) -> str:
    """The configuration of ``paceline join`` on one machine."""
    return f"""\
# For `paceline join`, on the machine of {scene.nodes[client]}. Paths are relative to this file.

[node]
client = {client}                 # which of the run's clients this is
state = "state"            # models, masks and answers that were given already
superlink = "{scene.address}"
port = {scene.runtime + client}               # of the SuperNode's own API, on this machine's loopback
authority = "ca.pem"
key = "key"
"""


def nginx_conf(scene: Scene) -> str:
    """A server block of nginx that lets nodes reach the fleet API and nothing else."""
    six = any((found := address_of(host)) and found.version == 6 and not found.is_loopback for host in scene.hosts)
    also = f"\n    listen [::]:{scene.outer} ssl;" if six else ""
    return f"""\
# Nodes come in here, and reach /v1/fleet/ only. The SuperLink's other APIs share its port and are open: whoever
# reaches /v1/control/ can register nodes and start runs. So the SuperLink listens on loopback, and this is the door.
server {{
    listen {scene.outer} ssl;{also}
    ssl_certificate     {HOME}/server.pem;
    ssl_certificate_key {HOME}/server.key;
    ssl_protocols       TLSv1.2 TLSv1.3;
    server_tokens       off;

    client_max_body_size  1g;    # of one request; models travel in pieces that are much smaller
    proxy_http_version    1.1;
    proxy_request_buffering off;
    proxy_buffering       off;
    proxy_read_timeout    120s;

    location /v1/fleet/ {{
        proxy_pass https://127.0.0.1:{scene.inner};
        proxy_ssl_trusted_certificate {HOME}/ca.pem;
        proxy_ssl_name   localhost;
        proxy_ssl_verify on;
    }}

    location / {{
        return 403;
    }}
}}
"""


def server_unit() -> str:
    """The systemd unit of the server: a run that was cut off goes on, one that is over stays so."""
    limit = "# Whatever cut it off, it goes on; but not for ever, if its configuration is wrong.\n"
    limit += "StartLimitIntervalSec=600\nStartLimitBurst=20"
    return _unit("Paceline server: federated learning over Flower", limit, "serve server.toml", "on-failure", 5)


def node_unit() -> str:
    """The systemd unit of a node: it is there again after whatever ended it, and tries until it is let in."""
    limit = "# However often it was refused, it tries again.\nStartLimitIntervalSec=0"
    return _unit("Paceline node: federated learning over Flower", limit, "join node.toml", "always", RETRY)


def _unit(about: str, limit: str, words: str, restart: str, delay: int) -> str:
    return f"""\
[Unit]
Description={about}
Wants=network-online.target
After=network-online.target
{limit}

[Service]
User=paceline
UMask=0077
StateDirectory=paceline
StateDirectoryMode=0700
WorkingDirectory={HOME}
# Flower starts programs of its own by name.
Environment=PATH={PROGRAMS}:/usr/local/bin:/usr/bin:/bin
Environment=FLWR_HOME={HOME}/flower
Environment=FLWR_TELEMETRY_ENABLED=0 FLWR_DISABLE_UPDATE_CHECK=1 FLWR_DISABLE_RUNTIME_DEPENDENCY_INSTALLATION=1
# Change it to where this machine's data lie; home directories are hidden from the service.
Environment=PACELINE_DATA={HOME}/data
ExecStart={PROGRAMS}/paceline {words}
Restart={restart}
RestartSec={delay}
TimeoutStopSec=60
NoNewPrivileges=yes
ProtectSystem=strict
ProtectHome=yes
PrivateTmp=yes

[Install]
WantedBy=multi-user.target
"""


def supervisor() -> str:
    """What the node's unit does, as a script, for machines without systemd."""
    return f"""\
#!/bin/sh
# Keeps this node running where there is no systemd; Ctrl-C or SIGTERM ends both.
# A node that was killed is refused for about a minute, so it tries again every {RETRY} seconds, without end.
cd "$(dirname "$0")" || exit 1
export FLWR_TELEMETRY_ENABLED=0 FLWR_DISABLE_UPDATE_CHECK=1 FLWR_DISABLE_RUNTIME_DEPENDENCY_INSTALLATION=1
export FLWR_HOME="${{FLWR_HOME:-$PWD/flower}}"
umask 077
child=
trap 'trap "" INT TERM; kill -TERM $child 2>/dev/null; wait; exit 0' INT TERM
while :; do
    paceline join node.toml & child=$!
    wait $child
    echo "paceline join ended with status $?; again in {RETRY} s" >&2
    sleep {RETRY} & child=$!
    wait $child
done
"""
