"""A real SuperLink with TLS and known nodes, from what ``paceline deploy init`` makes: who comes in, who does not.

Intruders speak Flower's own protocol from here; the slow test sends Flower's own SuperNodes.
"""

import http.client
import ssl
import subprocess
import sys
from datetime import timedelta
from types import SimpleNamespace

import pytest

from tests.federation.deploy.apps import write_app
from tests.federation.deploy.processes import PROGRAMS, QUIET, Processes, free_port, until
from tests.federation.deploy.proxies import NGINX, configuration, start_nginx, start_stand_in

pytest.importorskip("flwr")
pytestmark = [
    pytest.mark.federation,
    pytest.mark.filterwarnings("ignore:GitWildMatchPattern:DeprecationWarning"),  # of Flower
]


@pytest.fixture(scope="module")
def federation(tmp_path_factory):
    """A SuperLink that knows node ``one``, a SuperNode with its key that came in by the proxy."""
    folder = tmp_path_factory.mktemp("federation")
    processes, stand_in = Processes(folder), None
    with pytest.MonkeyPatch.context() as patch:
        for name, value in (QUIET | {"FLWR_HOME": str(folder / "flower")}).items():
            patch.setenv(name, value)
        try:
            made = make(folder, processes)
            text = configuration(made.folder, made.inner, made.outer)
            if NGINX:
                start_nginx(processes, text)
            else:
                stand_in = start_stand_in(text)
            until(lambda: answers(made, made.inner, "/v1/fleet/"), made.log.read_text)
            until(lambda: answers(made, made.outer, "/v1/fleet/"), lambda: "the proxy")
            made.node = register(made, made.folder / "nodes/one/key.pub")
            made.one = start_node(made, made.folder / "nodes/one")
            until(lambda: made.node in online(made), made.one[1].read_text)
            yield made
        finally:
            processes.close()
            if stand_in is not None:
                stand_in.shutdown()
                stand_in.server_close()


def make(folder, processes):
    for name, nodes in (("ours", ("one", "two")), ("theirs", ("one",))):
        words = [word for node in nodes for word in ("--node", node)]
        init = [sys.executable, "-m", "paceline", "deploy", "init", str(folder / name), *words]
        subprocess.run(init, check=True, capture_output=True)
    ours, inner, outer = folder / "ours", free_port(), free_port()
    files = {"--ssl-certfile": "server.pem", "--ssl-keyfile": "server.key", "--ssl-ca-certfile": "ca.pem"}
    words = [word for option, name in files.items() for word in (option, str(ours / name))]
    words += ["--enable-supernode-auth", "--host", "127.0.0.1", "--port", str(inner)]
    link, log = processes.start("superlink", PROGRAMS / "flower-superlink", *words)
    return SimpleNamespace(
        folder=ours, others=folder / "theirs", inner=inner, outer=outer, link=link, log=log, processes=processes
    )


def start_node(made, folder, *more, authority=None, key="key"):
    """Flower's own program with what lies in a node's folder."""
    words = ["--superlink", f"127.0.0.1:{made.outer}", "--port", str(free_port()), *more]
    if authority is not False:
        words += ["--root-certificates", str(authority or folder / "ca.pem")]
    if key:
        words += ["--auth-supernode-private-key", str(folder / key)]
    return made.processes.start("supernode", PROGRAMS / "flower-supernode", *words)


def answers(made, port, path):
    """The status with which something answers there, or None."""
    context = ssl.create_default_context(cafile=made.folder / "ca.pem")
    there = http.client.HTTPSConnection("127.0.0.1", port, context=context, timeout=60)
    try:
        there.request("POST", path)
        return there.getresponse().status
    except OSError:
        return None
    finally:
        there.close()


def control(made, port=None):
    from flwr.supercore.control import ControlHttpClient

    authority = (made.folder / "ca.pem").read_bytes()
    return ControlHttpClient.from_server_address(f"127.0.0.1:{port or made.inner}", False, authority, [])


def register(made, public, port=None):
    from cryptography.hazmat.primitives.serialization import load_ssh_public_key
    from flwr.proto.control_pb2 import RegisterNodeRequest
    from flwr.supercore.primitives.asymmetric import public_key_to_bytes

    key = public_key_to_bytes(load_ssh_public_key(public.read_bytes()))
    with control(made, port) as client:
        return client.RegisterNode(RegisterNodeRequest(public_key=key)).node_id


def online(made):
    from flwr.proto.control_pb2 import ListNodesRequest

    with control(made) as client:
        return [node.node_id for node in client.ListNodes(ListNodesRequest()).nodes_info if node.status == "online"]


def knock(made, *, key=None, authority=None, insecure=False):
    """What a SuperNode says when it comes: the number that it is given."""
    from cryptography.hazmat.primitives.serialization import load_ssh_private_key
    from flwr.proto.fleet_pb2 import ActivateNodeRequest, RegisterNodeFleetRequest
    from flwr.supercore.primitives.asymmetric import generate_key_pairs, public_key_to_bytes
    from flwr.supernode.fleet_http_client import FleetHttpClient
    from flwr.supernode.node_auth_http_interceptor import NodeAuthHttpInterceptor

    private = load_ssh_private_key(key.read_bytes(), None) if key else generate_key_pairs()[0]
    public = public_key_to_bytes(private.public_key())
    believed = None if insecure else (authority or made.folder / "ca.pem").read_bytes()
    signs = NodeAuthHttpInterceptor(private, private.public_key())
    with FleetHttpClient.from_server_address(f"127.0.0.1:{made.outer}", insecure, believed, [signs]) as client:
        if key is None:
            client.RegisterNode(RegisterNodeFleetRequest(public_key=public))
        return client.ActivateNode(ActivateNodeRequest(public_key=public, heartbeat_interval=30)).node_id


def echoed(made, name):
    """What nodes answer to a message of a run that is started now."""
    from hashlib import sha256

    from flwr.cli.build import build_fab_from_disk
    from flwr.proto.control_pb2 import StartRunRequest
    from flwr.proto.fab_pb2 import Fab

    out = made.processes.folder / f"{name}.txt"
    content = build_fab_from_disk(write_app(made.processes.folder / name, out))
    with control(made) as client:
        client.StartRun(StartRunRequest(fab=Fab(hash_str=sha256(content).hexdigest(), content=content)))
    until(out.exists, made.log.read_text)
    return out.read_text()


def test_only_registered_keys_come_in_and_the_federation_goes_on(federation, monkeypatch):
    import httpx
    from flwr.supernode import node_auth_http_interceptor as signing

    made = federation
    for words, code in (({"key": made.folder / "nodes/two/key"}, 2004), ({}, 2001)):
        with pytest.raises(httpx.HTTPStatusError) as refused:  # not registered; no key
            knock(made, **words)
        assert refused.value.response.json()["code"] == code
    real = signing.now
    for seconds in (20, -600):  # a clock that is ahead; one that is far behind, or a signature that was seen before
        monkeypatch.setattr(signing, "now", lambda late=seconds: real() + timedelta(seconds=late))
        with pytest.raises(httpx.HTTPStatusError, match="401"):
            knock(made, key=made.folder / "nodes/one/key")
    monkeypatch.undo()
    with pytest.raises(httpx.HTTPError):  # plaintext
        knock(made, insecure=True)
    with pytest.raises(httpx.ConnectError, match="CERTIFICATE_VERIFY_FAILED"):  # another authority
        knock(made, key=made.folder / "nodes/one/key", authority=made.others / "ca.pem")
    with pytest.raises(httpx.HTTPStatusError, match="403"):  # a node that would register its like
        register(made, made.folder / "nodes/two/key.pub", made.outer)
    for path in ("/v1/control/list-nodes", "/v1/runtime/get-nodes", "/v1/fleet/../control/list-nodes", "/docs", "/"):
        assert answers(made, made.outer, path) == 403, path
    with pytest.raises(httpx.HTTPStatusError):  # still not
        knock(made, key=made.folder / "nodes/two/key")
    assert online(made) == [made.node]
    assert echoed(made, "first") == f"{made.node} hello again"


@pytest.mark.slow
def test_supernodes_that_are_not_let_in_end(federation):
    made, two = federation, federation.folder / "nodes/two"
    cases = {
        "not registered": ("--max-retries", "1"),
        "no key": ("--max-retries", "1"),
        "plaintext": ("--max-retries", "1", "--insecure"),
        "another authority": ("--max-retries", "1"),
    }
    started = {
        name: start_node(
            made, two, *words, key=None if name in ("no key", "plaintext") else "key",
            authority={"another authority": made.others / "ca.pem", "plaintext": False}.get(name),
        )
        for name, words in cases.items()
    }  # fmt: skip
    for name, (program, log) in started.items():
        assert made.processes.ended(program), name
        assert "Failed to initialize the connection" in log.read_text(), name
    assert online(made) == [made.node]
    assert echoed(made, "second") == f"{made.node} hello again"
