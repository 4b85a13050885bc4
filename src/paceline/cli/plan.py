"""``paceline plan``: what would be best, calculated in an instant; nothing is learned."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console

from paceline.cli.fleet import HELP as FLEET_HELP
from paceline.cli.fleet import fleet_command
from paceline.cli.peers import peers_command
from paceline.cli.plan_answer import Answer, print_json
from paceline.cli.servers import HELP as SERVERS_HELP
from paceline.cli.servers import servers_command
from paceline.cli.structure import structure_command
from paceline.plans.pace import Pace

if TYPE_CHECKING:
    from paceline.plans.overlap import Overlap
    from paceline.topology import Mixing

plan_app = typer.Typer(help="What would be best, without learning anything.", no_args_is_help=True)


@plan_app.callback()
def plans() -> None:
    """What would be best, without learning anything."""


plan_app.command("servers", help=SERVERS_HELP)(servers_command)
plan_app.command("peers")(peers_command)
plan_app.command("structure")(structure_command)
plan_app.command("fleet", help=FLEET_HELP)(fleet_command)


OVERLAP_HELP = (
    "What it gains that devices and server work at the same time: FedAvg, DGA, MIFA, SPFL, APFL.\n\n"
    "Seconds per clock by the formulas of No One Idles, and in an event simulation of the algorithms themselves: for"
    " APFL the mean time between two uploads of a device, with nobody straggling and device k of N starting k/N of"
    " T_l + T_c late (its cycle with all in step, and with absences counted, is given besides); for all others the"
    " mean time between two finished rounds, some devices straggling at every visit."
)


@plan_app.command("overlap", help=OVERLAP_HELP)
def overlap_command(
    t_local: Annotated[float, typer.Option("--t-local", help="T_l, seconds of local training.")],
    t_comm: Annotated[float, typer.Option("--t-comm", help="T_c, seconds of both transfers, down and up.")],
    t_wait: Annotated[float, typer.Option("--t-wait", help="T_w, seconds that a straggler is away.")],
    t_aggregate: Annotated[float, typer.Option("--t-aggregate", help="T_g, seconds of an aggregation.")],
    devices: Annotated[int, typer.Option("--devices", "-n", help="Devices; all take part.")] = Pace.devices,
    dropout: Annotated[
        float, typer.Option("--dropout", help="Share of devices that straggle; if that is nobody, T_w counts 0.")
    ] = Pace.dropout,
    jitter: Annotated[
        float, typer.Option("--jitter", help="Spread of T_l from visit to visit, as a share; simulated only.")
    ] = Pace.jitter,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON on standard output.")] = False,
) -> None:
    """The times of five methods by formula and simulated, and their speed-ups over FedAvg."""
    # Algorithms and worlds need torch; plans that do not should not wait for it.
    from paceline.plans.overlap import compare

    found = compare(
        Pace(
            t_local=t_local,
            t_comm=t_comm,
            t_wait=t_wait,
            t_aggregate=t_aggregate,
            devices=devices,
            dropout=dropout,
            jitter=jitter,
        )
    )
    if as_json:
        print_json(_overlap_tree(found))
    else:
        _overlap_answer(found).print()


def _overlap_tree(found: Overlap) -> dict[str, Any]:
    methods = {name: asdict(method) for name, method in found.methods.items()}
    methods["apfl"] |= {
        "bounds": list(found.bounds),
        "simulated_in_step": found.in_step,
        "simulated_with_absences": found.with_absences,
    }
    return asdict(found.pace) | {"stragglers": found.pace.stragglers, "methods": methods}


def _overlap_answer(found: Overlap) -> Answer:
    from paceline.plans.overlap import NAMES, explain

    rows = []
    for name, one in found.methods.items():
        seconds = (f"{value:.5g} s" for value in (one.closed_form, one.simulated))
        rows.append(([NAMES[name], *seconds, f"x{one.speedup:.2f}", f"x{one.speedup_simulated:.2f}"], False))
    titles = ("method", "closed form", "simulated", "speed-up", "speed-up, simulated")
    return Answer(columns=titles, left=["method"], rows=rows, lines=explain(found))


@plan_app.command("mixing")
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
    weights: Annotated[
        str,
        typer.Option(
            "--weights", "-w", help="How neighbours average: optimal, constant, metropolis, uniform or random."
        ),
    ] = "optimal",
    signed: Annotated[
        bool, typer.Option("--signed", help="Weights may be negative, which helps on trees and barbells.")
    ] = False,
    seed: Annotated[int, typer.Option("--seed", help="For random graphs and random weights.")] = 0,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON, with the matrix, on standard output.")] = False,
) -> None:
    """How fast servers or peers on a graph agree when they average, and the weights with which they agree fastest."""
    # networkx and scipy are imported here and not above: help should not wait for them.
    from paceline.topology import WEIGHTINGS, make_mixing, parse_graph

    links = parse_graph(graph, seed=seed, connected=False)
    chosen = make_mixing(links, weights, signed=signed, seed=seed)
    if not links.connected:
        problem = f"warning: {links.describe_parts()}; mixing brings none of them closer to another"
        Console(stderr=True, highlight=False, markup=False, soft_wrap=True).print(problem)
    if as_json:
        print_json(_mixing_tree(graph, chosen, seed))
        return
    others = {w: make_mixing(links, w, signed=signed, seed=seed) for w in WEIGHTINGS if w != weights}
    _mixing_answer(graph, [chosen if w == weights else others[w] for w in WEIGHTINGS], chosen).print()


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
        "lambda_bound": chosen.bound,
        "rounds_to_halve": chosen.rounds_to_halve,
        "matrix": chosen.matrix.tolist(),
    }


def _mixing_answer(word: str, found: list[Mixing], chosen: Mixing) -> Answer:
    from paceline.topology import WEIGHTINGS

    rows = []
    for one in found:
        rounds = "never" if one.rounds_to_halve is None else str(one.rounds_to_halve)
        about = WEIGHTINGS[one.weights] + (", signed" if one.signed else "")
        rows.append(([one.weights, f"{one.p:.4f}", f"{one.factor:.4f}", rounds, about], one is chosen))
    graph = chosen.graph
    degrees = sorted({min(graph.degrees), max(graph.degrees)})
    across = "" if graph.diameter is None else f", diameter {graph.diameter}"
    lost = graph.disconnection_tolerance
    held = f"any {lost} links may fail" if lost > 1 else "any one link may fail" if lost else "no link may fail"
    robust = f" Edge connectivity {graph.edge_connectivity}: {held} before the graph can fall apart."
    return Answer(
        columns=("weights", "p", "lambda", "rounds to halve", ""),
        left=("weights", ""),
        rows=rows,
        lines=[
            f"{word}: {graph.nodes} nodes, {len(graph.edges)} links, degree {' to '.join(map(str, degrees))}{across}."
            f"{robust if graph.connected and graph.edges else ''}",
            "Rounds to halve: after so many rounds of mixing any disagreement is at most half of what it was.",
        ],
    )
