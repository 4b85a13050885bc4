"""Who is linked with whom, and with which weights they average: graphs, mixing matrices, their optimum."""

from paceline.topology.families import parse_graph, random_graph
from paceline.topology.graphs import Graph
from paceline.topology.mixing import SIGNABLE, WEIGHTINGS, Mixing, make_mixing, weigh_parts
from paceline.topology.weights import consensus_rate, disagreement_factor, mixing_matrix

__all__ = [
    "Graph",
    "parse_graph",
    "random_graph",
    "Mixing",
    "SIGNABLE",
    "WEIGHTINGS",
    "make_mixing",
    "weigh_parts",
    "consensus_rate",
    "disagreement_factor",
    "mixing_matrix",
]
