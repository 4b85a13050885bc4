"""``paceline plan servers``: how many servers, and linked how."""

from __future__ import annotations

import math
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from paceline.cli.options import PlanJson
from paceline.cli.plan_answer import Answer, print_json, refuse_existing
from paceline.errors import SettingError
from paceline.plans.demand import Demand

if TYPE_CHECKING:
    from paceline.plans.servers import Candidate, Plan

HELP = (
    "How many servers, and linked how: time per round, traffic and consensus of P-FedAvg on several overlays.\n\n"
    "The time of a round is given by the paper's formula (PF-10: the server's share, the client's own link, the"
    " longest training and the slowest link between servers, one after the other) and in an event simulation of"
    " P-FedAvg on links shared fairly, where a transfer is as fast as its slower end. One server is FedAvg.\n\n"
    "The best is the one with the least time per round times rounds needed. These are, for as many of FedAvg,"
    " 1 - d + d g, with d the --drift and g = (128/p² + 64/p + 4/K) / (192 + 4/K₀) from the paper's Theorem 2: p is"
    " the consensus rate of the overlay, K the clients of a round and K₀ those asked for. The theorem is a bound, and"
    " d a guess: see between which values the recommendation holds.\n\n"
    "With --fleet, the devices of a file are the clients, each with its own seconds and byte rates: simulated one by"
    " one, and in the formula by their mean link and the expected slowest of a round.\n\n"
    "With --design, overlay and weights are chosen together for each number of servers: for every time that the"
    " slowest link between servers may take, servers get as many neighbours as they can serve in it, chosen so that"
    " all agree fastest; the best time is that of the least seconds times rounds."
)


def servers_command(
    fleet: Annotated[
        str | None,
        typer.Option(
            "--fleet",
            "-f",
            help="A fleet file (docs/fleets.md): its devices are the clients, with their own seconds and byte rates.",
        ),
    ] = None,
    clients: Annotated[
        int | None,
        typer.Option("--clients", "-n", help="Clients there are.", show_default=f"{Demand.clients}, or the fleet's"),
    ] = None,
    participants: Annotated[
        int, typer.Option("--participants", "-k", help="Clients that take part in a round, at all servers together.")
    ] = Demand.participants,
    megabits: Annotated[
        float | None, typer.Option("--megabits", help="Size of a model in Mbit.", show_default=f"{Demand.megabits:g}")
    ] = None,
    model: Annotated[
        str | None, typer.Option("--model", help="Instead of --megabits: a model such as mlp:512 or resnet18.")
    ] = None,
    dataset: Annotated[str, typer.Option("--dataset", help="The dataset that --model is for.")] = "mnist",
    client_mbps: Annotated[
        str | None,
        typer.Option(
            "--client-mbps",
            help="Byte rate of a client's link, both ways, or UP,DOWN as in 5,20.",
            show_default=f"{Demand.client_up:g}, or the fleet's",
        ),
    ] = None,
    server_mbps: Annotated[
        float, typer.Option("--server-mbps", help="What a server's clients share, each way (b); inf: unlimited.")
    ] = Demand.server,
    node_mbps: Annotated[
        float, typer.Option("--node-mbps", help="What a server's links to servers share, each way (B); or inf.")
    ] = Demand.node,
    link_mbps: Annotated[
        float, typer.Option("--link-mbps", help="Byte rate of a link between two servers, each way (A); or inf.")
    ] = Demand.link,
    compute: Annotated[
        float | None,
        typer.Option(
            "--compute",
            help="Mean seconds that a client trains.",
            show_default=f"{Demand.compute:g}, or the fleet's",
        ),
    ] = None,
    spread: Annotated[
        float, typer.Option("--spread", help="Spread of that time from visit to visit, as a share of it; 0 to 0.5.")
    ] = Demand.spread,
    topology: Annotated[
        list[str] | None,
        typer.Option(
            "--topology",
            "-t",
            help="complete, torus, ring, tree, hypercube, star or barbell, tried with every number of servers; or one"
            " overlay such as torus:3x5, regular:20,4 or a file. Repeat it for several.",
            show_default="all but barbell",
        ),
    ] = None,
    servers: Annotated[
        list[int] | None,
        typer.Option(
            "--servers",
            "-m",
            help="A number of servers to try; repeat it for several.",
            show_default="1, 4, 9, 16, 25",
        ),
    ] = None,
    weights: Annotated[
        str,
        typer.Option(
            "--weights", "-w", help="How servers average: optimal, constant, metropolis, uniform or random."
        ),
    ] = Demand.weights,
    drift: Annotated[
        float,
        typer.Option("--drift", help="Share of the error, at p = 1, that grows as servers agree less; 0 to 1."),
    ] = Demand.drift,
    design: Annotated[
        bool,
        typer.Option("--design", help="Also look for overlays that fit the rates of servers and links best."),
    ] = False,
    network: Annotated[
        str | None,
        typer.Option(
            "--network",
            help="A CSV file with the columns server, neighbour, mbps: links that can be had and, without a"
            " neighbour, the rate of a server. In the place of --servers, --node-mbps and --link-mbps; formulas"
            " only.",
        ),
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option("--out", "-o", help="A new file for the best overlay's links, which p-fedavg.topology takes."),
    ] = None,
    closed_form: Annotated[
        bool, typer.Option("--closed-form", help="Formulas only, at once; nothing is simulated.")
    ] = False,
    as_json: PlanJson = False,
) -> None:
    """All candidates by formula and simulated, and which to choose."""
    # networkx is imported here and not above: help should not wait for it.
    from paceline.plans.servers import plan_servers
    from paceline.plans.servers_families import SERVERS, TOPOLOGIES

    if out is not None:
        refuse_existing(out)
    demand = Demand(
        **_clients(fleet, clients, client_mbps, compute),
        **_network(network, servers),
        participants=participants,
        megabits=_megabits(megabits, model, dataset),
        server=server_mbps,
        node=node_mbps,
        link=link_mbps,
        spread=spread,
        weights=weights,
        drift=drift,
    )
    found = plan_servers(demand, topology or TOPOLOGIES, servers or SERVERS, simulate=not closed_form, design=design)
    if out is not None:
        _write(found, out)
    if as_json:
        print_json(_tree(found))
    else:
        _answer(found).print()


def _clients(fleet: str | None, clients: int | None, mbps: str | None, compute: float | None) -> dict[str, Any]:
    """How many there are, how fast they are, and how they are linked: as was said, or as the fleet's file says."""
    up, down = (None, None) if mbps is None else _both_ways(mbps)
    said = {"clients": clients, "client_up": up, "client_down": down, "compute": compute}
    given = {name: value for name, value in said.items() if value is not None}
    if fleet is None:
        return given
    from paceline.plans.demand_devices import from_devices, read_devices

    return given | from_devices(read_devices(fleet), given)


def _network(file: str | None, servers: list[int] | None) -> dict[str, Any]:
    if file is None:
        return {}
    if servers:
        raise SettingError(f"{file} says which servers there are; leave out --servers")
    from paceline.plans.capacities import read_capacities

    return {"network": read_capacities(file)}


def _write(plan: Plan, out: Path) -> None:
    """The links of the best overlay, two numbers a line, counted from 0 as the servers of a run are."""
    if not plan.best.graph.edges:
        raise SettingError(f"one server alone is best, which has no links to write; leave out --out {out}")
    try:
        out.write_text("".join(f"{i} {j}\n" for i, j in plan.best.graph.edges), encoding="utf-8")
    except OSError as problem:
        raise SettingError(f"--out {out} cannot be written: {problem.strerror}") from None


def _both_ways(text: str) -> tuple[float, float]:
    try:
        rates = [float(part) for part in text.split(",")]
    except ValueError:
        rates = []
    if not 1 <= len(rates) <= 2:
        raise SettingError(
            f"--client-mbps is {text!r}; give one byte rate in Mbit/s, as in 10, or UP,DOWN as in 5,20"
        )
    return rates[0], rates[-1]


def _megabits(given: float | None, model: str | None, dataset: str) -> float:
    if model is None:
        return Demand.megabits if given is None else given
    if given is not None:
        raise SettingError("--megabits and --model both give the size of a model; leave one of the two out")
    from paceline.data.registry import parse_name
    from paceline.runs.problem import make_space

    spec, _ = parse_name(dataset)
    return make_space(model, spec.shape, spec.classes, "float32").nbytes * 8 / 1e6


def _tree(plan: Plan) -> dict[str, Any]:
    from paceline.plans.servers_reasons import explain

    devices = plan.demand.devices
    demand = {key: None if value == math.inf else value for key, value in asdict(plan.demand).items()}
    demand["devices"] = None if devices is None else devices.file
    demand["network"] = None if plan.demand.network is None else plan.demand.network.file
    return {
        "demand": demand,
        "candidates": [_leaf(one, plan) for one in plan.candidates],
        "skipped": [asdict(one) for one in plan.skipped],
        "recommendation": {"name": plan.best.name, "reasons": explain(plan)},
    }


def _leaf(one: Candidate, plan: Plan) -> dict[str, Any]:
    network = plan.demand.network if one.servers > 1 else None
    return {
        "name": one.name,
        "designed": one.designed,
        "servers": one.servers,
        "links": [[network.called(k) for k in pair] if network else list(pair) for pair in one.graph.edges],
        "clients": one.clients,
        "time_closed_form": one.time_closed_form,
        "time_simulated": one.time_simulated,
        "time_simulated_error": None if one.time_simulated is None else one.time_error,
        "parts": asdict(one.parts),
        "peak_bytes": one.peak_bytes,
        "total_bytes": one.total_bytes,
        "p": one.p,
        "degree": one.degree,
        "diameter": one.graph.diameter,
        "edge_connectivity": one.graph.edge_connectivity,
        "disconnection_tolerance": one.graph.disconnection_tolerance,
        "rounds_factor": one.rounds_factor,
        "score": one.score,
    }


def _answer(plan: Plan) -> Answer:
    from paceline.plans.servers_reasons import explain

    simulated = any(one.time_simulated is not None for one in plan.candidates)
    # What a terminal of 80 columns holds; --json has more.
    titles = ["K", "p", "round,\nformula", *(["round,\nsimul."] if simulated else [])]
    titles += ["peak\ntraffic", "total\ntraffic", "may\nfail", "rounds", "time to\naccur."]
    left = "; ".join(f"{one.name} ({one.reason})" for one in plan.skipped)
    return Answer(
        columns=["\noverlay", *(title if "\n" in title else f"\n{title}" for title in titles)],
        left=["\noverlay"],
        rows=[(_cells(one, plan.one, simulated=simulated), one is plan.best) for one in plan.candidates],
        dim=f"Left out: {left}." if left else "",
        lines=explain(plan),
        close=True,
    )


def _cells(one: Candidate, alone: Candidate, *, simulated: bool) -> list[str]:
    from paceline.report.text import MISSING, size

    seconds = [one.time_closed_form, *([one.time_simulated] if simulated else [])]
    single = one.servers == 1
    return [
        "FedAvg" if single else one.name,
        str(one.clients),
        f"{one.p:.3f}",
        *(MISSING if value is None else f"{value:.3g} s" for value in seconds),
        size(one.peak_bytes),
        size(one.total_bytes),
        MISSING if single else str(one.graph.disconnection_tolerance),
        f"x{one.rounds_factor:.3g}",
        f"x{one.score / alone.score:.3g}",
    ]
