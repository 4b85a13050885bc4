"""A node opens no path that comes over the wire, no path is sent, and nothing that a file holds is told."""

import sys

import pytest

from paceline.errors import DataError, SettingError, WireError
from paceline.federation.config import read_node
from paceline.federation.joining import join
from paceline.federation.terms import SHARED, problem_of, read_terms, terms_of
from paceline.runs.recorder import describe
from paceline.runs.replay import replay
from paceline.runs.settings import make_settings
from paceline.worlds.local.checks import Checks
from paceline.worlds.local.expressions import function_named
from paceline.worlds.local.frames import Frame
from tests.federation.memory import MemoryGrid, MemoryNode
from tests.federation.test_worlds import played

OPENED = set()
sys.addaudithook(lambda name, words: OPENED.add(str(words[0])) if name == "open" else None)
SECRET = "sunk-4711"


@pytest.fixture
def secret(tmp_path):
    """A file of the node's machine that is nobody's data."""
    path = tmp_path / "secret.csv"
    path.write_text(f"{SECRET},label\n{SECRET},\n" * 30)
    OPENED.clear()
    return str(path)


def greeted(node, **terms):
    whole = terms_of(describe(make_settings("fedavg", ["clients=1", "partition=iid"])))
    return node.resident.answer(Frame({"do": "hello", "format": 2, "run": "a", "terms": whole | terms})).words


PLACES = {
    "dataset": lambda path: {"dataset": path},
    "dataset of arrays": lambda path: {"dataset": path.replace(".csv", ".npz")},
    "topology": lambda path: {"topology": path},
    "options": lambda path: {"algorithm": "p-fedavg", "options": {"topology": path}},
    "fleet": lambda path: {"fleet": {"file": path}},
    "times": lambda path: {"fleet": {"times": f"csv:{path}"}},
    "executor": lambda path: {"executor": {"name": "ray", "cluster": path}},
    "partition": lambda path: {"partition": path},
    "partition with a file": lambda path: {"partition": f"file:{path}"},
    "model": lambda path: {"model": path},
    "clients": lambda path: {"clients": path},
}


@pytest.mark.parametrize("trust", [False, True])
@pytest.mark.parametrize("where", PLACES)
def test_no_path_that_a_server_names_is_opened(where, trust, secret, tmp_path):
    node = MemoryNode(0, tmp_path / "node", trust=trust)
    terms = PLACES[where](secret)
    said = greeted(node, **terms)["error"]
    assert next(iter(terms)) in said and SECRET not in said
    assert not OPENED & {secret, secret.replace(".csv", ".npz")}
    assert greeted(node)["client"] == 0


def test_what_a_server_has_in_files_is_not_sent(tmp_path):
    graph = tmp_path / "graph.txt"
    graph.write_text("0 1\n1 2\n2 0\n")
    words = ["clients=3", f"p-fedavg.topology={graph}", "dataset=/home/me/mine.csv", "partition=iid"]
    sent = terms_of(describe(make_settings("p-fedavg", words)))
    assert sent.keys() == set(SHARED) and sent["dataset"] == "" and "/" not in str(sent)
    with pytest.raises(SettingError, match=r"data in node\.toml"):
        problem_of(read_terms(sent, trust=False))


def rows(path):
    path.write_text("a,b,label\n" + "".join(f"{k % 7},{k % 3 - 1},{k % 2}\n" for k in range(200)))
    return str(path)


def test_a_node_takes_the_data_that_its_own_file_names(tmp_path):
    grid = MemoryGrid(tmp_path, 2)
    servers, own = rows(tmp_path / "server.csv"), [rows(tmp_path / f"own{k}.csv") for k in range(2)]
    for client, path in enumerate(own):
        grid.nodes[100 + client].resident._config = MemoryNode(client, tmp_path / f"node{client}", data=path).config
    words = ["clients=2", "rounds=2", f"dataset={servers}", "partition=iid", "model=mlp:8", "local.batch=5"]
    run = played(grid, "fedavg", words, tmp_path / "run", checks=Checks())
    assert run.world.ledger.visits == 4 and replay(tmp_path / "run").equal
    assert set(own) <= OPENED and servers not in str(grid.sent)


def test_nothing_of_a_nodes_own_data_is_told_when_they_cannot_be_read(secret, tmp_path, capfd):
    node = MemoryNode(0, tmp_path / "node", data=secret)
    said = greeted(node)["error"]
    assert "the data ('digits') cannot be read here; see the worker's log" in said and SECRET not in said
    assert "secret.csv" in capfd.readouterr().err
    with pytest.raises(DataError, match="see the worker's log"):
        problem_of(make_settings("fedavg", ["clients=1"]), str(tmp_path / "none.npz"))


def test_a_nodes_data_file_is_checked_before_anything_starts(tmp_path):
    file = tmp_path / "node.toml"
    file.write_text('[node]\ninsecure = true\ndata = "mine.csv"\n')
    assert read_node(file).data == str(tmp_path / "mine.csv")
    with pytest.raises(SettingError, match=r"mine.csv, which cannot be read as a file"):
        join(file, print)
    file.write_text('[node]\ninsecure = true\ndata = "mine.txt"\n')
    with pytest.raises(SettingError, match=r"data is '.*, but must end in .npz or .csv"):
        read_node(file)


@pytest.mark.parametrize(
    "name",
    ["paceline.reading:read_text", "paceline.data.own:load_own", "paceline.learn.graph:Model", "os:remove",
     "paceline.worlds.local.expressions:import_module", "paceline.learn.models:load_reference", "paceline.learn:nil"],
)  # fmt: skip
def test_a_device_computes_what_belongs_to_learning_alone(name):
    with pytest.raises(WireError, match=r"is not a function|there is no function"):
        function_named(name)
