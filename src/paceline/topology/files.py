"""Graphs from files: GraphML, or an edge list of two names a line."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from paceline.errors import DataError
from paceline.reading import expanded, read_text
from paceline.topology.graphs import MOST, Graph

LARGEST = 50_000_000
"""Bytes of a file beyond which it is not a graph of this size."""


def read_graph(path: str | Path) -> Graph:
    """The graph of a GraphML file or of an edge list; directions, weights, loops and repetitions are left out.

    An edge list has two names a line, separated by blanks, tabs or a comma; what follows them, and lines that begin
    with #, are not read. Nodes are numbered in the order of their names, by value where all names are whole numbers.
    """
    file = expanded(path)
    try:
        text = read_text(file, most=LARGEST)
    except FileNotFoundError:
        raise DataError(f"there is no file {file}; give the path of a GraphML or edge-list file") from None
    is_xml = text.lstrip().startswith("<")
    names, pairs = _graphml(file, text) if is_xml else _edge_list(file, text)
    if not names:
        raise DataError(f"{file} holds no node; wanted a GraphML file or an edge list, two names a line")
    if len(names) > MOST:
        raise DataError(f"{file} has {len(names)} nodes; a graph may have 1 to {MOST}")
    order = sorted(names, key=_by_value if all(_is_whole(name) for name in names) else None)
    place = {name: k for k, name in enumerate(order)}
    return Graph.of(len(order), ((place[a], place[b]) for a, b in pairs), tuple(order))


def _is_whole(name: str) -> bool:
    return name.isascii() and name.isdecimal() and len(name) < 1000


def _by_value(name: str) -> tuple[int, str]:
    return int(name), name


def _graphml(file: Path, text: str) -> tuple[set[str], list[tuple[str, str]]]:
    import networkx as nx

    try:
        graph: Any = nx.parse_graphml(text, node_type=str)
    except Exception as wrong:  # a damaged one can fail in any way, inside of networkx
        raise DataError(f"{file} is no GraphML that can be read: {wrong or type(wrong).__name__}") from wrong
    return {str(node) for node in graph}, [(str(a), str(b)) for a, b in graph.edges()]


def _edge_list(file: Path, text: str) -> tuple[set[str], list[tuple[str, str]]]:
    pairs: list[tuple[str, str]] = []
    for number, line in enumerate(text.splitlines(), 1):
        if not line.strip() or line.lstrip().startswith("#"):
            continue
        words = [word.strip() for word in (line.split(",") if "," in line else line.split())]
        if len(words) < 2 or not words[0] or not words[1]:
            raise DataError(
                f"{file}, line {number}: {line.strip()[:60]!r} names no two nodes; an edge list has two names a line"
            )
        pairs.append((words[0], words[1]))
    return {name for pair in pairs for name in pair}, pairs
