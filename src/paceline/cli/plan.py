"""``paceline plan``: what would be best, calculated in an instant; nothing is learned."""

from __future__ import annotations

import math
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console

from paceline.cli.fleet import HELP as FLEET_HELP
from paceline.cli.fleet import fleet_command
from paceline.cli.peers import peers_command
from paceline.cli.plan_answer import Answer, print_json
from paceline.cli.servers import HELP as SERVERS_HELP
from paceline.cli.servers import servers_command
from paceline.errors import SettingError
from paceline.plans.pace import Pace

if TYPE_CHECKING:
    from paceline.algorithms.structure import Alternative, Structure
    from paceline.plans.overlap import Overlap
    from paceline.topology import Mixing

plan_app = typer.Typer(help="What would be best, without learning anything.", no_args_is_help=True)


@plan_app.callback()
def plans() -> None:
    """What would be best, without learning anything."""


plan_app.command("servers", help=SERVERS_HELP)(servers_command)
plan_app.command("peers")(peers_command)
plan_app.command("fleet", help=FLEET_HELP)(fleet_command)


@plan_app.command("structure")
def structure_command(
    clients: Annotated[int | None, typer.Option("--clients", "-n", help="Clients that take part in a round.")] = None,
    population: Annotated[
        int | None, typer.Option("--population", help="Clients there are; with --times, the devices of the file.")
    ] = None,
    time_mean: Annotated[float | None, typer.Option("--time-mean", help="Mean seconds of a client's visit.")] = None,
    time_std: Annotated[
        float | None, typer.Option("--time-std", help="Spread of one client's seconds from round to round.")
    ] = None,
    times: Annotated[
        Path | None,
        typer.Option("--times", help="A CSV file with the columns device,seconds, instead of --time-mean and -std."),
    ] = None,
    sigma2: Annotated[float | None, typer.Option("--sigma2", help="Variance of the stochastic gradients.")] = None,
    heterogeneity: Annotated[
        float | None,
        typer.Option("--heterogeneity", help="Mean squared distance of client gradients from their mean."),
    ] = None,
    c0: Annotated[
        float | None, typer.Option("--c0", help="Constant of the bound, 0 to 0.2.", show_default="0.1")
    ] = None,
    ratio: Annotated[
        float | None,
        typer.Option("--ratio", help="alpha/beta of the bound, instead of --sigma2 and --heterogeneity."),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON on standard output.")] = False,
) -> None:
    """PSFL's best structure: how many sequences abreast (W), how many clients in each (S)."""
    from paceline.algorithms.structure import choose_structure

    mean, std, population = _times(times, time_mean, time_std, population)
    weight = _ratio(ratio, sigma2, heterogeneity, c0)
    if clients is None:
        raise SettingError("--clients is missing; give the number of clients that take part in a round")
    found = choose_structure(participants=clients, time_mean=mean, time_std=std, ratio=weight, population=population)
    if as_json:
        print_json(_tree(found, population))
    else:
        _answer(found).print()


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


def _times(
    file: Path | None, mean: float | None, std: float | None, population: int | None
) -> tuple[float, float, int | None]:
    """Mean, spread and population, from the file or from the options."""
    from paceline.algorithms.structure import measured_times

    if file is not None:
        if mean is not None or std is not None:
            raise SettingError("--times and --time-mean or --time-std both give times; leave one of the two out")
        mean, std, devices = measured_times(file)
        return mean, std, devices if population is None else population
    if mean is None or std is None:
        absent = " and ".join(name for name, v in (("--time-mean", mean), ("--time-std", std)) if v is None)
        raise SettingError(
            f"the times of clients are not known: give {absent}, or measurements with --times FILE.csv"
        )
    return mean, std, population


def _ratio(ratio: float | None, sigma2: float | None, heterogeneity: float | None, c0: float | None) -> float:
    """alpha/beta, given or from what the bound makes it of."""
    from paceline.algorithms.structure import bound_ratio

    parts = {"--sigma2": sigma2, "--heterogeneity": heterogeneity}
    if ratio is not None:
        given = [name for name, value in {**parts, "--c0": c0}.items() if value is not None]
        if given:
            raise SettingError(f"--ratio and {', '.join(given)} both give alpha/beta; leave one of the two out")
        return ratio
    if sigma2 is None or heterogeneity is None:
        absent = " and ".join(name for name, value in parts.items() if value is None)
        raise SettingError(f"alpha/beta is not known: give {absent}, or the ratio itself with --ratio")
    return bound_ratio(sigma2, heterogeneity, 0.1 if c0 is None else c0)


def _tree(structure: Structure, population: int | None) -> dict[str, Any]:
    """The structure as JSON has it, which knows no infinity."""
    tree = asdict(structure) | {"population": population}
    tree["ratio"] = "inf" if math.isinf(structure.ratio) else structure.ratio
    tree["alternatives"] = [
        {"S": S, "W": W, "relative_cost": cost, "expected_round_seconds": _seconds(structure, S, W)}
        for S, W, cost in structure.alternatives
    ]
    return tree


def _answer(structure: Structure) -> Answer:
    from paceline.algorithms.structure import explain

    rows = []
    for place, other in enumerate(structure.alternatives):
        S, W, cost = other
        seconds = f"{_seconds(structure, S, W):.4g} s"
        rows.append(([str(W), str(S), str(S * W), seconds, f"x{cost:.3f}", _name(structure, other)], place == 0))
    titles = ("W abreast", "S in a row", "clients", "round", "time to accuracy", "")
    return Answer(columns=titles, left=[""], rows=rows, lines=[explain(structure)])


def _seconds(structure: Structure, S: int, W: int) -> float:
    from paceline.algorithms.structure import expected_round_seconds

    return expected_round_seconds(S, W, structure.time_mean, structure.time_std)


def _name(structure: Structure, one: Alternative) -> str:
    names = [name for name, holds in (("FedAvg", one.S == 1), ("sequential FL", one.W == 1)) if holds]
    if (one.S, one.W) == (structure.S, structure.W):
        names.insert(0, "best")
    return ", ".join(names)
