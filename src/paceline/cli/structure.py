"""``paceline plan structure``: how many sequences of how many clients PSFL should have."""

from __future__ import annotations

import math
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from paceline.cli.options import PlanJson
from paceline.cli.plan_answer import Answer, print_json
from paceline.errors import SettingError

if TYPE_CHECKING:
    from paceline.algorithms.seen_times import SeenTimes
    from paceline.algorithms.structure import Alternative, Structure


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
    kappa: Annotated[
        str, typer.Option("--kappa", help="With --times: spread of a client on average (mean), or at most (max).")
    ] = "mean",
    rounds_by: Annotated[
        str, typer.Option("--rounds-by", help="Seconds of a round: the paper's bound, or a simulation with --times.")
    ] = "bound",
    smoothness: Annotated[
        float | None, typer.Option("--smoothness", help="L of the loss: shows which learning rates the bound allows.")
    ] = None,
    distance: Annotated[
        float | None,
        typer.Option("--distance", help="Squared distance of the first model from the optimum, for the bound's gap."),
    ] = None,
    rounds: Annotated[
        int, typer.Option("--rounds", help="Rounds after which --distance shows the gap.", min=1)
    ] = 1000,
    as_json: PlanJson = False,
) -> None:
    """PSFL's best structure: how many sequences abreast (W), how many clients in each (S)."""
    from paceline.algorithms.structure import choose_structure

    mean, std, seen = _times(times, time_mean, time_std, kappa)
    weight = _ratio(ratio, sigma2, heterogeneity, c0)
    if clients is None:
        raise SettingError("--clients is missing; give the number of clients that take part in a round")
    if rounds_by not in ("bound", "simulation"):
        raise SettingError(f"--rounds-by is {rounds_by!r}; wanted bound, or simulation (with --times)")
    if population is None and seen is not None:
        population = len(seen)
    found = choose_structure(
        participants=clients,
        time_mean=mean,
        time_std=std,
        ratio=weight,
        population=population,
        times=seen,
        rounds_by="simulation" if rounds_by == "simulation" else "bound",
    )
    bounds = _bounds(found, c0, sigma2, heterogeneity, smoothness, distance, rounds)
    if as_json:
        print_json(_tree(found, population) | bounds)
    else:
        _answer(found, bounds).print()


def _times(
    file: Path | None, mean: float | None, std: float | None, kappa: str
) -> tuple[float, float, SeenTimes | None]:
    """Mean and spread, from the file, which also has what was seen of each device, or from the options."""
    from paceline.algorithms.seen_times import SeenTimes

    if kappa not in ("mean", "max"):
        raise SettingError(f"--kappa is {kappa!r}; wanted mean (Eq. 26) or max (Assumption 5)")
    if file is not None:
        if mean is not None or std is not None:
            raise SettingError("--times and --time-mean or --time-std both give times; leave one of the two out")
        seen = SeenTimes.read(file)
        return seen.mean, seen.spread("max" if kappa == "max" else "mean"), seen
    if mean is None or std is None:
        absent = " and ".join(name for name, v in (("--time-mean", mean), ("--time-std", std)) if v is None)
        raise SettingError(
            f"the times of clients are not known: give {absent}, or measurements with --times FILE.csv"
        )
    return mean, std, None


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
        {"S": one.S, "W": one.W, "relative_cost": one.cost, "expected_round_seconds": one.seconds}
        for one in structure.alternatives
    ]
    return tree


def _bounds(
    best: Structure,
    c0: float | None,
    sigma2: float | None,
    heterogeneity: float | None,
    smoothness: float | None,
    distance: float | None,
    rounds: int,
) -> dict[str, float]:
    """What Theorem 1 and Corollary 1 say of the structure, as far as their constants are given (PS-6)."""
    from paceline.algorithms.convergence import Convergence

    if smoothness is None:
        if distance is not None:
            raise SettingError("--distance is given without --smoothness; the bound needs both")
        return {}
    bound = Convergence(smoothness=smoothness, c0=0.1 if c0 is None else c0)
    told = {"largest_rate": bound.largest_rate(best.S)}
    if distance is None:
        return told
    if sigma2 is None or heterogeneity is None:
        raise SettingError("--distance needs --sigma2 and --heterogeneity too: their ratio says nothing of the gap")
    if not 0 < distance < math.inf:
        raise SettingError(f"--distance is {distance:g}; wanted a squared distance, a finite number above 0")
    spread = bound.spread(sigma2, heterogeneity, best.S, best.W)
    rate, gap = bound.best_rate(rounds, distance, spread, best.S), bound.gap(rounds, distance, spread, best.S)
    return told | {"rounds": rounds, "best_rate": rate, "gap": gap}


def _in_words(bounds: dict[str, float]) -> list[str]:
    """The same as sentences."""
    if not bounds:
        return []
    lines = [f"Theorem 1 holds for local learning rates up to {bounds['largest_rate']:.3g}."]
    if "gap" in bounds:
        lines.append(
            f"After {bounds['rounds']:,} rounds at the learning rate {bounds['best_rate']:.3g} of Corollary 1 the"
            f" loss is at most {bounds['gap']:.3g} above its least, on average."
        )
    return lines


def _answer(structure: Structure, bounds: dict[str, float]) -> Answer:
    from paceline.algorithms.explaining import explain

    rows = []
    for place, other in enumerate(structure.alternatives):
        S, W, cost, seconds = other
        cells = [str(W), str(S), str(S * W), f"{seconds:.4g} s", f"x{cost:.3f}", _name(structure, other)]
        rows.append((cells, place == 0))
    titles = ("W abreast", "S in a row", "clients", "round", "time to accuracy", "")
    return Answer(columns=titles, left=[""], rows=rows, lines=[explain(structure), *_in_words(bounds)])


def _name(structure: Structure, one: Alternative) -> str:
    names = [name for name, holds in (("FedAvg", one.S == 1), ("sequential FL", one.W == 1)) if holds]
    if (one.S, one.W) == (structure.S, structure.W):
        names.insert(0, "best")
    return ", ".join(names)
