"""``paceline plan``: what would be best, calculated in an instant; nothing is learned."""

from __future__ import annotations

import json
import math
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Table

from paceline.algorithms.structure import (
    Alternative,
    Structure,
    bound_ratio,
    choose_structure,
    expected_round_seconds,
    explain,
    measured_times,
)
from paceline.errors import SettingError

plan_app = typer.Typer(help="What would be best, without learning anything.", no_args_is_help=True)


@plan_app.callback()
def plans() -> None:
    """What would be best, without learning anything."""


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
    mean, std, population = _times(times, time_mean, time_std, population)
    weight = _ratio(ratio, sigma2, heterogeneity, c0)
    if clients is None:
        raise SettingError("--clients is missing; give the number of clients that take part in a round")
    found = choose_structure(participants=clients, time_mean=mean, time_std=std, ratio=weight, population=population)
    if as_json:
        typer.echo(json.dumps(_tree(found, population), indent=2))
    else:
        _print(found)


def _times(
    file: Path | None, mean: float | None, std: float | None, population: int | None
) -> tuple[float, float, int | None]:
    """Mean, spread and population, from the file or from the options."""
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


def _print(structure: Structure) -> None:
    console = Console(highlight=False)
    table = Table(box=None, pad_edge=False, header_style="bold")
    for title in ("W abreast", "S in a row", "clients", "round", "time to accuracy"):
        table.add_column(title, justify="right", no_wrap=True)
    table.add_column("")
    for place, other in enumerate(structure.alternatives):
        S, W, cost = other
        seconds = f"{_seconds(structure, S, W):.4g} s"
        table.add_row(
            str(W),
            str(S),
            str(S * W),
            seconds,
            f"x{cost:.3f}",
            _name(structure, other),
            style="" if place else "bold",
        )
    console.print(table)
    console.print(explain(structure), markup=False)


def _seconds(structure: Structure, S: int, W: int) -> float:
    return expected_round_seconds(S, W, structure.time_mean, structure.time_std)


def _name(structure: Structure, one: Alternative) -> str:
    names = [name for name, holds in (("FedAvg", one.S == 1), ("sequential FL", one.W == 1)) if holds]
    if (one.S, one.W) == (structure.S, structure.W):
        names.insert(0, "best")
    return ", ".join(names)
