"""``paceline plan``: what would be best, calculated in an instant; nothing is learned."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, Any

import typer

from paceline.cli.fleet import HELP as FLEET_HELP
from paceline.cli.fleet import fleet_command
from paceline.cli.mixing import mixing_command
from paceline.cli.options import PlanJson
from paceline.cli.peers import peers_command
from paceline.cli.plan_answer import Answer, print_json
from paceline.cli.servers import HELP as SERVERS_HELP
from paceline.cli.servers import servers_command
from paceline.cli.structure import structure_command
from paceline.plans.pace import Pace

if TYPE_CHECKING:
    from paceline.plans.overlap import Overlap

plan_app = typer.Typer(help="What would be best, without learning anything.", no_args_is_help=True)


@plan_app.callback()
def plans() -> None:
    """What would be best, without learning anything."""


plan_app.command("servers", help=SERVERS_HELP)(servers_command)
plan_app.command("mixing")(mixing_command)
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
    as_json: PlanJson = False,
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
