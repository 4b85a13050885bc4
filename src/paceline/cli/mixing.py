"""``paceline plan mixing``: how fast nodes of a graph agree, and the weights that are best for them."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console

from paceline.cli.plan_answer import Answer, print_json
from paceline.errors import SettingError, nearest

if TYPE_CHECKING:
    from paceline.topology import Mixing

OBJECTIVES = {"slowest": "optimal", "all-modes": "all-modes"}
"""What weights may be best for, and their name then."""


def mixing_command(
    graph: Annotated[
        str,
        typer.Option(
            "--graph",
            "-g",
            help="complete:9, ring:9, torus:3x3, tree:9, barbell:3,3, star:9, hypercube:3, random:9,0.5,"
            " regular:100,4, smallworld:20,4,0.1, or a GraphML or edge-list file.",
        ),
    ],
    objective: Annotated[
        str | None,
        typer.Option(
            "--objective",
            help="What the best weights make least. slowest: the largest second eigenvalue λ in size, so that any"
            " disagreement fades fastest. all-modes: the sum of λ²/(1 - λ²) over all modes of disagreement, so that"
            " servers that stray again in every round stay closest together.",
            show_default="slowest",
        ),
    ] = None,
    weights: Annotated[
        str | None,
        typer.Option(
            "--weights",
            "-w",
            help="Instead of the best ones: constant, metropolis, uniform or random (optimal and all-modes are those"
            " of the two objectives).",
        ),
    ] = None,
    signed: Annotated[
        bool, typer.Option("--signed", help="Weights may be negative, which helps on trees and barbells.")
    ] = False,
    seed: Annotated[int, typer.Option("--seed", help="For random graphs and random weights.")] = 0,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON, with the matrix, on standard output.")] = False,
) -> None:
    """How fast servers or peers on a graph agree when they average, and the weights with which they agree fastest."""
    # networkx and scipy are imported here and not above: help should not wait for them.
    from paceline.topology import WEIGHTINGS, make_mixing, parse_graph

    wanted = _wanted(objective, weights)
    links = parse_graph(graph, seed=seed, connected=False)
    chosen = make_mixing(links, wanted, signed=signed, seed=seed)
    if not links.connected:
        problem = f"warning: {links.describe_parts()}; mixing brings none of them closer to another"
        Console(stderr=True, highlight=False, markup=False, soft_wrap=True).print(problem)
    if as_json:
        print_json(_mixing_tree(graph, chosen, seed))
        return
    others = {w: make_mixing(links, w, signed=signed, seed=seed) for w in WEIGHTINGS if w != wanted}
    _mixing_answer(graph, [chosen if w == wanted else others[w] for w in WEIGHTINGS], chosen).print()


def _wanted(objective: str | None, weights: str | None) -> str:
    """The weights that are asked for, by their own name or by what they are best for."""
    if objective is not None and weights is not None:
        raise SettingError("--objective and --weights both say which weights are wanted; leave one of the two out")
    if weights is not None:
        return weights
    if (goal := objective or "slowest") not in OBJECTIVES:
        raise SettingError(f"--objective is {goal!r}; {nearest(goal, OBJECTIVES)}")
    return OBJECTIVES[goal]


def _mixing_tree(word: str, chosen: Mixing, seed: int) -> dict[str, Any]:
    graph = chosen.graph
    return {
        "graph": word,
        "nodes": graph.nodes,
        "edges": len(graph.edges),
        "names": list(graph.names) or None,
        "connected": graph.connected,
        "diameter": graph.diameter,
        "degrees": list(graph.degrees),
        "edge_connectivity": graph.edge_connectivity,
        "disconnection_tolerance": graph.disconnection_tolerance,
        "spectral_gap": graph.spectral_gap,
        "weights": chosen.weights,
        "signed": chosen.signed,
        "seed": seed,
        "p": chosen.p,
        "lambda": chosen.factor,
        "lambda_bound": chosen.bound if chosen.weights == "optimal" else None,
        "all_modes": _finite(chosen.all_modes),
        "all_modes_bound": chosen.bound if chosen.weights == "all-modes" else None,
        "lasting_disagreement": _finite(chosen.lasting),
        "rounds_to_halve": chosen.rounds_to_halve,
        "matrix": chosen.matrix.tolist(),
    }


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None


def _mixing_answer(word: str, found: list[Mixing], chosen: Mixing) -> Answer:
    from paceline.topology import WEIGHTINGS

    rows = []
    for one in found:
        rounds = "never" if one.rounds_to_halve is None else str(one.rounds_to_halve)
        about = WEIGHTINGS[one.weights] + (", signed" if one.signed else "")
        lasting = f"{one.lasting:.4f}" if math.isfinite(one.lasting) else "ever more"
        rows.append(([one.weights, f"{one.p:.4f}", f"{one.factor:.4f}", rounds, lasting, about], one is chosen))
    graph = chosen.graph
    degrees = sorted({min(graph.degrees), max(graph.degrees)})
    across = "" if graph.diameter is None else f", diameter {graph.diameter}"
    lost = graph.disconnection_tolerance
    held = f"any {lost} links may fail" if lost > 1 else "any one link may fail" if lost else "no link may fail"
    robust = f" Edge connectivity {graph.edge_connectivity}: {held} before the graph can fall apart."
    return Answer(
        columns=("weights", "p", "lambda", "rounds to halve", "apart", ""),
        left=("weights", ""),
        rows=rows,
        lines=[
            f"{word}: {graph.nodes} nodes, {len(graph.edges)} links, degree {' to '.join(map(str, degrees))}{across}."
            f"{robust if graph.connected and graph.edges else ''}",
            "Rounds to halve: after so many rounds of mixing any disagreement is at most half of what it was.",
            "Apart: how far servers stay from their mean, squared, that each stray by 1 in a direction of their own"
            " in every round; the sum of lambda²/(1 - lambda²) over all modes, for one server.",
        ],
    )
