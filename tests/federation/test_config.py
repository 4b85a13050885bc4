"""The files of servers and nodes, and the commands that read them."""

import signal
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path
from types import SimpleNamespace

import pytest
from flwr.app import Message, RecordDict
from flwr.common.config import parse_config_args
from flwr.supercore.task_identity import TaskIdentity

from paceline.cli.main import main
from paceline.errors import SettingError
from paceline.federation import clientapp, flower, serving
from paceline.federation.conducting import make
from paceline.federation.config import (
    NodeConfig,
    RunConfig,
    ServerConfig,
    SuperLink,
    read_node,
    read_server,
    require_files,
    split,
    toml,
)
from paceline.federation.joining import join
from paceline.federation.processes import Child, environment
from paceline.federation.records import from_records, to_records
from paceline.federation.resident import Resident, listen
from paceline.federation.trying import free_ports, write_federation
from paceline.ledger.lock import Holder, started
from paceline.worlds.local.frames import Frame, read, write

SERVER = """
[federation]
nodes = 2
[superlink]
address = "127.0.0.1:18000"
authority = "ca.pem"
certificate = "server.pem"
key = "server.key"
keys = ["nodes/one/key.pub"]
[run]
algorithm = "psfl"
settings = ["rounds=3"]
"""


def test_paths_are_relative_to_the_file(tmp_path):
    (tmp_path / "server.toml").write_text(SERVER)
    found = read_server(tmp_path / "server.toml")
    assert found.state == tmp_path / "state" and found.out == tmp_path / "runs/first"
    assert found.superlink.keys == [str(tmp_path / "nodes/one/key.pub")]
    assert found.superlink.authority == str(tmp_path / "ca.pem") and found.run.settings == ["rounds=3"]
    (tmp_path / "node.toml").write_text('[node]\nclient = 1\nauthority = "ca.pem"\nkey = "key"\n')
    node = read_node(tmp_path / "node.toml")
    assert node.client == 1 and node.key == str(tmp_path / "key") and node.directory == tmp_path / "state"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[superlnk]\n", "unknown group \\[superlnk\\]; did you mean 'superlink'"),
        ("[federation]\nnode = 3\n", "unknown setting .*node'; did you mean"),
        ("[superlink]\naddress = '127.0.0.1:1'\n", "says nothing of TLS"),
        ("[superlink]\ninsecure = true\n[limits]\nseconds = 0\n", "it must be"),
        ("[superlink]\nkeys = 'one'\ninsecure = true\n", "wanted a list"),
        ("federation = 3\n", "is no group"),
        ("[", "not valid TOML"),
    ],
)
def test_what_is_wrong_in_a_servers_file_is_named(text, said, tmp_path):
    (tmp_path / "server.toml").write_text(text)
    with pytest.raises(SettingError, match=said):
        read_server(tmp_path / "server.toml")


@pytest.mark.parametrize("missing", ["server.pem", "nodes/one/key.pub"])
def test_files_that_are_not_there_are_named_before_anything_starts(missing, tmp_path):
    (tmp_path / "nodes/one").mkdir(parents=True)
    (tmp_path / "server.toml").write_text(SERVER)
    for name in {"ca.pem", "server.pem", "server.key", "nodes/one/key.pub"} - {missing}:
        (tmp_path / name).touch()
    with pytest.raises(SettingError, match=f"{missing}, which cannot be read"):
        serving.Server(tmp_path / "server.toml", print).check()
    (tmp_path / "node.toml").write_text('[node]\nauthority = "ca.pem"\nkey = "nodes/one/key"\n')
    with pytest.raises(SettingError, match="nodes/one/key, which cannot be read"):
        join(tmp_path / "node.toml", print)


@pytest.mark.parametrize("words", ["fleet.times=uniform", "hostile=random:0.4", "privacy.clip=1", "rounds=x"])
def test_a_trial_that_cannot_begin_leaves_nothing_behind(words, tmp_path, capsys):
    with pytest.raises(SystemExit) as ended:
        main(["deploy", "local", "fedavg", "--set", words, "--out", str(tmp_path / "run")])
    assert ended.value.code == 1 and "error: " in capsys.readouterr().err
    assert not any(tmp_path.iterdir())


@pytest.mark.parametrize(
    "address",
    ["localhost", "localhost:", ":18000", "localhost:0", "localhost:99999", "localhost:٣", f"localhost:{'9' * 5000}"],
)
def test_an_address_that_is_none_is_refused(address, tmp_path):
    (tmp_path / "node.toml").write_text(f'[node]\nsuperlink = "{address}"\ninsecure = true\n')
    with pytest.raises(SettingError, match="is no address"):
        read_node(tmp_path / "node.toml")


@pytest.mark.parametrize(
    "words", [("--absence", ""), ("--checkpoint", ""), ("--set", "absence=nap"), ("--set", "partition=x")]
)
def test_words_of_a_trial_are_read_before_anything_starts(words, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(SystemExit):
        main(["deploy", "local", "fedavg", "--out", "run", *words])
    assert "error: " in capsys.readouterr().err
    assert not any(tmp_path.iterdir())


def partition_of_a_trial(tmp_path, monkeypatch, *words):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "own.toml").write_text('partition = "dirichlet:0.5"\n')
    (tmp_path / "other.toml").write_text("rounds = 2\n")
    monkeypatch.setattr("paceline.cli.deploy._try", lambda *_, **__: None)
    with pytest.raises(SystemExit):
        main(["deploy", "local", "fedavg", "--out", "run", *words])
    return make(read_server(tmp_path / "run.federation" / "server.toml")).settings[0].partition


@pytest.mark.parametrize(
    ("words", "partition"),
    [
        (["--config", "own.toml"], "dirichlet:0.5"),
        (["--config", "own.toml", "--set", "partition=dirichlet:5"], "dirichlet:5"),
        (["--config", "other.toml"], "iid"),
        ([], "iid"),
    ],
)
def test_a_trial_splits_data_as_it_is_told(words, partition, tmp_path, monkeypatch):
    assert partition_of_a_trial(tmp_path, monkeypatch, *words) == partition


def test_files_that_are_no_nodes_are_not_taken_for_some(tmp_path, capsys):
    (tmp_path / "node-of-somebody.toml").touch()
    with pytest.raises(SystemExit):
        main(["deploy", "again", str(tmp_path)])
    assert "holds no nodes" in " ".join(capsys.readouterr().err.split())


def test_a_home_of_nobody_is_a_directory_like_any_other(tmp_path):
    (tmp_path / "node.toml").write_text('[node]\nstate = "~no such user/x"\ninsecure = true\n')
    assert read_node(tmp_path / "node.toml").directory == tmp_path / "~no such user/x"


def test_a_name_with_a_zero_byte_is_no_file(tmp_path):
    with pytest.raises(SettingError, match="cannot be read as a file"):
        require_files(tmp_path / "server.toml", ["a\0b"])


def test_a_node_without_keys_says_so(tmp_path):
    (tmp_path / "node.toml").write_text("[node]\nclient = 0\n")
    with pytest.raises(SettingError, match="insecure = true"):
        read_node(tmp_path / "node.toml")


def test_what_is_written_is_read(tmp_path):
    run = RunConfig(algorithm="fedavg", settings=['a="b\\c"'], out=str(tmp_path / "out"))
    server, nodes = write_federation(tmp_path / "all", run, 2)
    found = read_server(server)
    assert found.run.settings == run.settings and found.out == tmp_path / "out" and found.federation.nodes == 2
    assert [read_node(node).client for node in nodes] == [0, 1]
    assert len(set(free_ports(5))) == 5
    assert toml({"a": {"b": True}}) == "[a]\nb = true\n"


def test_commands_of_flower_have_what_keeps_them_safe(tmp_path):
    link = SuperLink(address="0.0.0.0:18443", authority="ca", certificate="crt", key="key")
    config = ServerConfig(superlink=link)
    object.__setattr__(config.federation, "state", str(tmp_path))
    words = flower.superlink_command(config)
    assert "--enable-supernode-auth" in words and "--insecure" not in words and "--ssl-ca-certfile" in words
    assert words[words.index("--isolation") + 1] == "process"
    assert (tmp_path / "superexec.secret").stat().st_mode & 0o777 == 0o600
    assert flower.superexec_command(config)[2] == "127.0.0.1:18443"
    node = NodeConfig(state=str(tmp_path / "a b"), authority="ca", key="mine")
    words = flower.supernode_command(node)
    assert "--auth-supernode-private-key" in words and "--insecure" not in words
    said = words[words.index("--node-config") + 1]
    assert parse_config_args([said]) == {"socket": str(node.socket), "bytes": 1_000_000_000}
    with pytest.raises(SettingError, match="no address"):
        split("here")


def test_a_long_directory_has_its_socket_elsewhere(tmp_path):
    config = NodeConfig(state=str(tmp_path / ("long" * 30)))
    assert len(str(config.socket)) < 100 and config.socket == NodeConfig(state=config.state).socket


def test_a_worker_that_dies_is_asked_again(tmp_path):
    """The first takes the question and is gone; the second answers."""
    path, config = tmp_path / "s", NodeConfig(state=str(tmp_path), insecure=True)
    first = socket.socket(socket.AF_UNIX)
    first.bind(str(path))
    first.listen()
    answers = []
    asking = threading.Thread(target=lambda: answers.append(clientapp.ask(str(path), Frame({"do": "nonsense"}))))
    asking.start()
    connection, _ = first.accept()
    assert read(connection).words == {"do": "nonsense"}
    connection.close()
    first.close()
    threading.Thread(target=listen, args=(Resident(config, None), path), daemon=True).start()
    asking.join(60)
    assert "speaks format None" in answers[0].words["error"]
    assert path.stat().st_mode & 0o777 == 0o600
    with socket.socket(socket.AF_UNIX) as bad:
        bad.connect(str(path))
        write(bad, {"do": "hello", "format": 1})
        assert "error" in read(bad).words
    with pytest.raises(RuntimeError, match="does not answer"):
        clientapp.ask(str(tmp_path / "none"), Frame({}), patience=0.0)


def test_a_message_that_is_too_large_or_none_is_refused_by_the_node(tmp_path):
    TaskIdentity.run_id = TaskIdentity.task_id = TaskIdentity.node_id = 1  # as Flower's processes have it
    context = SimpleNamespace(node_config={"socket": str(tmp_path / "none"), "bytes": 100})
    for content, said in (
        (to_records({"do": "tasks"}, [bytes(200)]), "at most 100 are read"),
        (RecordDict({}), "not words and blobs"),
    ):
        reply = clientapp.pass_on(Message(content, 1, "query"), context)
        assert said in from_records(reply.content, 1 << 30).words["error"]


def test_a_process_that_ends_is_started_again_and_ended_with_all_it_started(tmp_path):
    child = Child("one", ["sh", "-c", "sleep 1000 & echo $!; wait"], tmp_path / "log", environment(tmp_path))
    child.start()
    end = time.monotonic() + 60
    while not (tmp_path / "log").read_text().strip() and time.monotonic() < end:
        time.sleep(0.01)
    child._process.kill()
    said = []
    while child.starts < 2 and time.monotonic() < end:
        child.tend(said.append)
        time.sleep(0.01)
    assert child.starts == 2 and child.pid is not None
    assert len(said) == 1 and said[0].startswith("one has ended (status -9); again in ")
    child.stop()
    assert child.pid is None


def gone(pid):
    """Whether a process has ended; one that nobody has waited for counts."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except OSError:
        return True


def until(true):
    end = time.monotonic() + 60
    while not true():
        assert time.monotonic() < end
        time.sleep(0.01)


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="looks at processes as Linux shows them")
def test_a_server_application_ends_when_who_started_it_is_killed(tmp_path):
    words = "import os, time; from paceline.federation import serverapp; serverapp.end_with(os.getppid())"
    (tmp_path / "app.py").write_text(f"{words}; print(os.getpid(), flush=True); time.sleep(600)")
    start = f'import subprocess, sys; subprocess.run([sys.executable, "{tmp_path / "app.py"}"])'
    with subprocess.Popen([sys.executable, "-c", start], stdout=subprocess.PIPE) as parent:
        pid = int(parent.stdout.readline())
        parent.kill()
    until(lambda: gone(pid))


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="looks at processes as Linux shows them")
def test_a_server_application_that_was_left_behind_is_ended_before_the_next_begins(monkeypatch):
    """Also one that does not listen."""
    monkeypatch.setattr(serving, "PARTING", 0.2)
    words = (
        "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); print(1, flush=True); time.sleep(600)"
    )
    with subprocess.Popen([sys.executable, "-c", words], stdout=subprocess.PIPE) as left:
        left.stdout.readline()
        serving.end(Holder(left.pid, started(left.pid)))
        assert left.wait(60) == -signal.SIGKILL
    serving.end(None)
    serving.end(Holder(left.pid, "another's"))


def test_without_flower_the_commands_say_how_to_get_it(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(flower, "find_spec", lambda name: None)
    server, nodes = write_federation(tmp_path, RunConfig(), 1)
    for words in (["serve", str(server)], ["join", str(nodes[0])], ["deploy", "local", "fedavg"]):
        with pytest.raises(SystemExit):
            main(words)
        assert "install the extra `flower`; see docs/install.md" in capsys.readouterr().err


def test_a_port_that_somebody_has_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(serving, "PARTING", 0.0)
    server, _ = write_federation(tmp_path, RunConfig(out=str(tmp_path / "out"), settings=["partition=iid"]), 1)
    served = serving.Server(server, print)
    served.check()
    with socket.socket() as other:
        other.bind(("127.0.0.1", int(served.config.superlink.address.rpartition(":")[2])))
        other.listen()
        with pytest.raises(SettingError, match="somebody listens at"):
            served.start()


def test_every_node_is_one_client(tmp_path):
    server, _ = write_federation(tmp_path, RunConfig(settings=["clients=5", "partition=iid"]), 2)
    with pytest.raises(SettingError, match="every node is one client"):
        make(read_server(server))


def test_status_and_errors_of_the_commands(tmp_path, capsys):
    server, _ = write_federation(tmp_path / "all", RunConfig(out=str(tmp_path / "out")), 2)
    with pytest.raises(SystemExit) as end:
        main(["deploy", "status", str(server.parent)])
    assert not end.value.code
    told = capsys.readouterr().out
    assert "nobody listens" in told and "has not begun" in told and "client 1: no trip yet" in told
    for words, said in [
        (["serve", str(tmp_path / "none.toml")], "there is no"),
        (["join", str(tmp_path / "none.toml")], "there is no"),
        (["deploy", "again", str(tmp_path)], "holds no nodes"),
        (["deploy", "status", str(tmp_path)], "there is no"),
        (["deploy", "local", "fedavg", "--set", "clients=5"], "--nodes instead of clients"),
        (["deploy", "local", "fedavg", "--set", "rounds=0", "--out", str(tmp_path / "x")], "rounds"),
    ]:
        with pytest.raises(SystemExit) as end:
            main(words)
        assert end.value.code == 1 and said in capsys.readouterr().err.replace("\n", " ")


def test_a_process_that_was_killed_runs_no_more_though_nobody_has_waited_for_it():
    with subprocess.Popen(["sleep", "1000"]) as process:
        holder = Holder(process.pid, started(process.pid))
        assert holder.runs
        process.kill()
        while holder.runs:
            time.sleep(0.01)
        assert process.returncode is None
