"""Graphs from words and files, and what is said about them."""

import networkx as nx
import pytest

from paceline.errors import DataError, PacelineError, SettingError
from paceline.topology import Graph, parse_graph, random_graph

FIGURES = {
    # word: nodes, edges, degrees from and to, diameter, edge connectivity
    "complete:9": (9, 36, 8, 8, 1, 8),
    "ring:9": (9, 9, 2, 2, 4, 2),
    "torus:3x3": (9, 18, 4, 4, 2, 4),
    "torus:4x6": (24, 48, 4, 4, 5, 4),
    "tree:9": (9, 8, 1, 3, 5, 1),
    "barbell:3,3": (9, 10, 2, 3, 6, 1),
    "star:9": (9, 8, 1, 8, 2, 1),
    "hypercube:3": (8, 12, 3, 3, 3, 3),
    "ring:1": (1, 0, 0, 0, 0, 0),
    "ring:2": (2, 1, 1, 1, 1, 1),
    "hypercube:0": (1, 0, 0, 0, 0, 0),
}


@pytest.mark.parametrize("word", FIGURES)
def test_figures(word):
    graph = parse_graph(word)
    nodes, edges, least, most, diameter, cut = FIGURES[word]
    assert (graph.nodes, len(graph.edges), graph.diameter, graph.edge_connectivity) == (nodes, edges, diameter, cut)
    assert (min(graph.degrees), max(graph.degrees)) == (least, most)
    assert graph.disconnection_tolerance == max(0, cut - 1)  # PF-E5


def test_edge_connectivity_is_what_networkx_says():
    for seed in range(30):
        graph = parse_graph("random:12,0.35", seed=seed)
        assert graph.edge_connectivity == nx.edge_connectivity(graph.networkx())


def test_the_tree_is_the_binary_heap():
    """PF-E2."""
    assert parse_graph("tree:9").neighbours[0:2] == ((1, 2), (0, 3, 4))


def test_the_spectral_gap_is_the_second_eigenvalue_of_the_laplacian():
    assert parse_graph("complete:9").spectral_gap == pytest.approx(9)
    assert parse_graph("star:9").spectral_gap == pytest.approx(1)
    assert Graph(3, ((0, 1),)).spectral_gap == 0


@pytest.mark.parametrize("word", ["random:9,0.5", "regular:20,4", "smallworld:20,4,0.3"])
def test_random_graphs_follow_their_seed(word):
    graphs = [parse_graph(word, seed=seed) for seed in range(5)]
    assert graphs == [parse_graph(word, seed=seed) for seed in range(5)]
    assert len(set(graphs)) == 5
    assert all(graph.connected for graph in graphs)


def test_a_random_regular_graph_is_regular():
    assert set(parse_graph("regular:100,4").degrees) == {4}


def test_a_random_graph_can_have_exactly_so_many_links():
    assert {len(random_graph(9, 0.5, seed, edges=18).edges) for seed in range(10)} == {18}


@pytest.mark.parametrize(
    ("word", "complaint"),
    [
        ("tors:3x3", "did you mean 'torus'?"),
        ("nowhere.txt", "neither a graph nor a file"),
        ("ring", "neither a graph nor a file"),
        ("", "neither a graph nor a file"),
        ("ring:", "wanted ring:NODES, as in ring:9"),
        ("ring:-3", "wanted ring:NODES, as in ring:9"),
        ("ring:3.5", "wanted ring:NODES, as in ring:9"),
        ("ring:0", "NODES is '0', which is not a whole number from 1 to 5000"),
        ("ring:999999999", "from 1 to 5000"),
        ("torus:3", "wanted torus:ROWSxCOLUMNS, as in torus:3x3, or torus:ROWS,COLUMNS"),
        ("torus:2x9", "at least 3 rows and 3 columns"),
        ("torus:100x100", "10000 nodes"),
        ("barbell:1,3", "cliques of 2 or more"),
        ("hypercube:40", "a whole number from 0 to 12"),
        ("random:9,1.5", "probability from 0 to 1"),
        ("random:50,0.001", "raise the probability"),
        ("regular:9,3", "an even product of nodes and degree"),
        ("regular:4,4", "degree below 4"),
        ("regular:9,0", "ask for more links"),
        ("smallworld:9,20,0.1", "2 to 9 neighbours"),
    ],
)
def test_words_that_cannot_be(word, complaint):
    with pytest.raises(SettingError) as problem:
        parse_graph(word)
    assert complaint in str(problem.value)


@pytest.mark.parametrize(
    ("nodes", "edges"), [(0, ()), (2, ((1, 0),)), (2, ((0, 2),)), (3, ((1, 2), (0, 1))), (2, ((0, 1), (0, 1)))]
)
def test_a_graph_is_in_normal_form(nodes, edges):
    with pytest.raises(SettingError):
        Graph(nodes, edges)


def test_of_sorts_and_drops():
    assert Graph.of(3, [(2, 1), (1, 2), (0, 0), (1, 0)]).edges == ((0, 1), (1, 2))


# -- files ----------------------------------------------------------------------------------------------------------


def test_graphml_comes_back_with_its_names(tmp_path):
    made = nx.relabel_nodes(nx.path_graph(3), {0: "Oslo", 1: "Bonn", 2: "Rome"})
    nx.write_graphml(made, tmp_path / "g.graphml")
    graph = parse_graph(str(tmp_path / "g.graphml"))
    assert graph.names == ("Bonn", "Oslo", "Rome")
    assert graph.edges == ((0, 1), (0, 2))


def test_directions_loops_and_repetitions_are_left_out(tmp_path):
    made = nx.MultiDiGraph([(0, 1), (1, 0), (1, 2), (1, 2), (2, 2)])
    nx.write_graphml(made, tmp_path / "g.xml")
    assert parse_graph(str(tmp_path / "g.xml")).edges == ((0, 1), (1, 2))


@pytest.mark.parametrize("text", ["# links\n2 10\n10 9 0.5\n\n", "2,10,w\n10, 9\n", "2\t10\n9\t10\n"])
def test_an_edge_list_is_numbered_by_value(tmp_path, text):
    (tmp_path / "g.txt").write_text(text)
    graph = parse_graph(str(tmp_path / "g.txt"))
    assert graph.names == ("2", "9", "10")
    assert graph.edges == ((0, 2), (1, 2))


@pytest.mark.parametrize(
    ("content", "complaint"),
    [
        (b"", "holds no node"),
        (b"# nothing\n", "holds no node"),
        (b"a b\nc\n", "line 2"),
        (b"a,\n", "line 1"),
        (b"<graphml><graph", "no GraphML"),
        (b"<html></html>", "no GraphML"),
        (b"\xff\xfe\x00", "cannot be read"),
    ],
)
def test_files_that_hold_no_graph(tmp_path, content, complaint):
    (tmp_path / "g").write_bytes(content)
    with pytest.raises(DataError) as problem:
        parse_graph(str(tmp_path / "g"))
    assert complaint in str(problem.value)


def test_what_is_not_connected_is_named(tmp_path):
    (tmp_path / "g").write_text("a b\nb c\nx y\n")
    with pytest.raises(PacelineError, match=r"2 parts, \{a, b, c\}, \{x, y\}"):
        parse_graph(str(tmp_path / "g"))
    assert parse_graph(str(tmp_path / "g"), connected=False).diameter is None
    many = Graph(40, tuple((i, i + 1) for i in range(29)))
    with pytest.raises(SettingError, match=r"11 parts, \{0, 1, 2, 3, 4, … 30 nodes\}.* and 7 more"):
        many.require_connected()
