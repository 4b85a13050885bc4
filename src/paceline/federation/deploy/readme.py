"""The page for whoever sets a federation up, with its own names and addresses in it."""

from __future__ import annotations

import paceline
from paceline.federation.deploy.certificates import AUTHORITY_DAYS, SERVER_DAYS
from paceline.federation.deploy.texts import HOME, RETRY, Scene

_PAGE = """\
# This federation

Made by `paceline deploy init`. One server, $COUNT nodes, TLS everywhere, and only nodes whose keys are known
may join.

| file | what it is | who has it |
|---|---|---|
| `ca.key` | the private authority's key, which makes certificates that nodes believe | **no machine**: move it away |
| `ca.pem` | the authority's certificate | server and nodes |
| `server.key`, `server.pem` | the server's key and certificate, for $HOSTS | the server |
| `server.toml` | what is run, who may join, limits | the server |
| `nginx.conf` | the door for nodes | the server |
| `paceline-server.service` | the systemd unit of the server | the server |
| `nodes/NAME/` | all that one node needs: configuration, key pair, `ca.pem`, unit, supervisor | that node |
| `nodes/NAME/key` | the node's private key | that node, and **only** it |
| `nodes/NAME/key.pub` | its public key | the server |

## The trap: an open control port

Flower's SuperLink has three APIs on one port. The fleet API asks every node for a signature by a registered key. The
control API (register nodes, start and stop runs) and the runtime API ask nobody for anything: whoever reaches the
port and has `ca.pem` can register a node of their own. Therefore

- the SuperLink listens on `127.0.0.1:$INNER` (`address` in `server.toml`). Never put another address there, unless
  that network is yours alone;
- nodes come in by nginx on port $OUTER, which passes `/v1/fleet/` on and answers 403 to everything else;
- whoever has an account on the server's machine can reach the loopback port: give none to people whom you would not
  let start runs.

Look from a node's machine. The first must print 403, the second must not connect:

    curl -s -o /dev/null -w '%{http_code}\\n' --cacert ca.pem https://$ADDRESS/v1/control/list-nodes -X POST
    curl -m 5 --cacert ca.pem https://$SERVER:$INNER/

## On every machine

    sudo useradd --system --home-dir $HOME --shell /usr/sbin/nologin paceline
    sudo python3 -m venv /opt/paceline
    sudo /opt/paceline/bin/pip install './paceline-$VERSION-py3-none-any.whl[flower]'
    sudo install -d -o paceline -g paceline -m 700 $HOME

`make dist` in a clone of Paceline makes the wheel (docs/install.md). The same versions of Paceline, torch and flwr
everywhere: then results have the same bits as a simulation.

## The server

From here; the nodes' private keys and `ca.key` stay behind:

    rsync -a --exclude ca.key --exclude 'nodes/*/key' --rsync-path='sudo rsync' ./ $SERVER:$HOME/

and there:

    sudo chown -R paceline:paceline $HOME
    sudo apt-get install nginx            # or what your system has for it
    sudo cp $HOME/nginx.conf /etc/nginx/conf.d/paceline.conf
    sudo nginx -t && sudo systemctl reload nginx
    sudo cp $HOME/paceline-server.service /etc/systemd/system/
    sudo systemctl daemon-reload
    sudo systemctl start paceline-server  # a run begins; it is over when this is

The firewall opens port $OUTER for the nodes, and nothing else of this.

## Each node

Node $FIRST, for example; only outgoing connections to `$ADDRESS` are needed:

    rsync -a --rsync-path='sudo rsync' nodes/$FIRST/ MACHINE:$HOME/

and there:

    sudo chown -R paceline:paceline $HOME
    sudo cp $HOME/paceline-node.service /etc/systemd/system/
    sudo systemctl daemon-reload
    sudo systemctl enable --now paceline-node

Without systemd, `./supervise.sh` does the same. Then delete `nodes/$FIRST/key` here: the node has it.

A node that was killed is refused for about a minute when it comes back, because the SuperLink still takes it for
present. The unit tries again every $RETRY s without end; that is no fault.

## What to watch

    paceline deploy status server.toml    # on the server: who is there, how far the run is
    journalctl -fu paceline-server        # progress; who was rejected, and why
    journalctl -fu paceline-node          # on a node; more in state/logs there

- Nodes that are away for long, and answers that were refused: the log names the client, and `summary.json` counts.
- `[code: 2004]` in a node's log, for more than a minute: its key is not in `server.toml`. A 401: its clock is more
  than 5 s ahead of the server's, or 5 minutes behind (signatures carry the time: run NTP everywhere).
- `certificate verify failed`: the node's `ca.pem` is not this one, or `superlink` in `node.toml` is a name that the
  certificate does not have. `openssl x509 -in server.pem -noout -text` shows names and dates.

After a run, `paceline plan fleet $HOME/runs/first --out fleet.toml` makes a fleet file of it, with which a simulation
predicts the next one.

## Later

- **Another node**: `ssh-keygen -t ecdsa -b 384 -N '' -f key` on its machine; its `node.toml` is another's with
  `client` changed; the public key goes to the end of `keys` in `server.toml`, which are in the order of clients, and
  `nodes` and `clients=` there count one more.
- **A node that must go**: put the key of the one in its place where its own was in `keys`, delete `state/` of the
  server (its database remembers keys), and start the server again.
- **The server's certificate** holds for $SERVER_DAYS days, the authority for $AUTHORITY_DAYS. To renew it, with
  `ca.key`:

      openssl req -new -key server.key -subj '/CN=paceline server' -out server.csr
      printf '%s\\n' 'subjectAltName=$SAN' \\
        'extendedKeyUsage=serverAuth' 'keyUsage=critical,digitalSignature' 'basicConstraints=critical,CA:FALSE' \\
        'subjectKeyIdentifier=hash' 'authorityKeyIdentifier=keyid' > server.ext
      openssl x509 -req -in server.csr -CA ca.pem -CAkey ca.key -days $SERVER_DAYS -extfile server.ext -out server.pem
"""


def readme(scene: Scene) -> str:
    """The page of one federation."""
    from paceline.federation.deploy.names import address_of

    words = {
        "COUNT": str(len(scene.nodes)),
        "HOSTS": ", ".join(scene.hosts),
        "INNER": str(scene.inner),
        "OUTER": str(scene.outer),
        "ADDRESS": scene.address,
        "SERVER_DAYS": str(SERVER_DAYS),
        "AUTHORITY_DAYS": str(AUTHORITY_DAYS),
        "SERVER": scene.hosts[0],
        "HOME": HOME,
        "FIRST": scene.nodes[0],
        "RETRY": str(RETRY),
        "VERSION": paceline.__version__,
        "SAN": ",".join(f"{'DNS' if address_of(host) is None else 'IP'}:{host}" for host in scene.hosts),
    }
    page = _PAGE
    for name in sorted(words, key=len, reverse=True):  # $SERVER_DAYS before $SERVER
        page = page.replace(f"${name}", words[name])
    return page
