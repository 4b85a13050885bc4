"""``paceline plan peers``: how long clients without a server wait for each other's models (DA-DPFL)."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Annotated, Any

import typer

from paceline.cli.limits import some_draws
from paceline.cli.options import PlanJson
from paceline.cli.plan_answer import Answer, print_json
from paceline.errors import SettingError
from paceline.plans.neighbours import Peers, degree

if TYPE_CHECKING:
    from paceline.plans.peers import Rounds

MOST_CLIENTS, MOST_LINKS = 2000, 500_000
"""Beyond, even a few draws would take longer than a plan should."""
DRAWS, LEAST_DRAWS, BUDGET = 2000, 5, 20_000_000
CAPS = (0, 1, 2, 5, 10, 20)
"""Wait caps to compare, besides the one asked for and none."""
MEGA = 1e6


def peers_command(
    clients: Annotated[int, typer.Option("--clients", "-n", help="Clients; all take part.")] = Peers.clients,
    neighbours: Annotated[
        int | None,
        typer.Option("--neighbours", "-m", help="Neighbours that each client has (M).", show_default="10 if random"),
    ] = None,
    wait: Annotated[
        int | None,
        typer.Option(
            "--wait", "-w", help="Prior neighbours that a client waits for at most (N).", show_default="all"
        ),
    ] = None,
    rule: Annotated[
        str, typer.Option("--rule", help="Which of them it waits for: the fastest or the lowest (in number).")
    ] = "fastest",
    topology: Annotated[
        str,
        typer.Option("--topology", "-t", help="Who neighbours whom: random (anew every round), ring or complete."),
    ] = Peers.topology,
    draws: Annotated[
        int | None,
        typer.Option(
            "--draws",
            help="How many rounds are simulated.",
            show_default="2000, fewer if large",
            click_type=some_draws,
        ),
    ] = None,
    time: Annotated[float, typer.Option("--time", help="Mean seconds of local training.")] = Peers.time,
    spread: Annotated[
        float, typer.Option("--spread", help="Spread of that time from visit to visit, as a share of it.")
    ] = Peers.spread,
    megabytes: Annotated[float | None, typer.Option("--megabytes", help="Size of a model, in 10^6 bytes.")] = None,
    mbps: Annotated[float | None, typer.Option("--mbps", help="Byte rate of a client's link, in Mbit/s.")] = None,
    watts: Annotated[float | None, typer.Option("--watts", help="Power of a client that trains.")] = None,
    link_watts: Annotated[
        float | None, typer.Option("--link-watts", help="Power of each end of a link in use.")
    ] = None,
    seed: Annotated[int, typer.Option("--seed", help="What all that is random follows from.")] = 0,
    as_json: PlanJson = False,
) -> None:
    """DA-DPFL: how many clients start at once, how long the others wait, what a round takes in time and energy."""
    from paceline.plans.peers import simulate

    places = degree(topology, clients, neighbours)
    if clients > MOST_CLIENTS or clients * places > MOST_LINKS:
        raise SettingError(
            f"{clients} clients with {places} neighbours each are too many to draw; give at most {MOST_CLIENTS}"
            f" clients and {MOST_LINKS} neighbours in all"
        )
    if wait is not None and wait < 0:
        raise SettingError(f"--wait is {wait}; give 0 (all start at once) or more, or leave it out to wait for all")
    peers = Peers(
        clients=clients,
        neighbours=places,
        topology=topology,
        time=time,
        spread=spread,
        fetch=places * _transfer_seconds(megabytes, mbps),
    )
    cap = places if wait is None else min(wait, places)
    caps = sorted({*(c for c in CAPS if c < places), cap, places})
    draws = min(DRAWS, max(LEAST_DRAWS, BUDGET // (clients * places * len(caps)))) if draws is None else draws
    found = dict(zip(caps, simulate(peers, caps, rule=rule, draws=draws, seed=seed), strict=True))
    energy = _energy(peers, _power("watts", watts), _power("link-watts", link_watts))
    if as_json:
        asked = {"wait": wait, "rule": rule, "topology": topology, "draws": draws, "seed": seed}
        print_json(asked | _tree(peers, cap, found, energy, megabytes))
    else:
        _answer(peers, cap, found, energy, rule, draws).print()


def _transfer_seconds(megabytes: float | None, mbps: float | None) -> float:
    if megabytes is None and mbps is None:
        return 0.0
    if megabytes is None or mbps is None:
        absent = "--megabytes" if megabytes is None else "--mbps"
        raise SettingError(
            f"{absent} is missing; give both the size of a model and the byte rate of a link, or neither"
        )
    if not (0 < megabytes < math.inf and 0 < mbps < math.inf):
        raise SettingError(f"--megabytes is {megabytes:g} and --mbps is {mbps:g}; both must be above 0")
    return 8 * megabytes / mbps


def _power(name: str, watts: float | None) -> float | None:
    if watts is not None and not 0 <= watts < math.inf:
        raise SettingError(f"--{name} is {watts:g}; give a number of watts of at least 0")
    return watts


def _energy(peers: Peers, watts: float | None, link: float | None) -> float | None:
    """Joules of a client in a round, at both ends of its M transfers; None where a power that counts is unknown.

    A client that waits draws nothing here, so the energy does not depend on the wait cap.
    """
    if watts is None or (link is None and peers.fetch):
        return None
    return watts * peers.time + 2 * (link or 0.0) * peers.fetch


# -- answers --------------------------------------------------------------------------------------------------------


def _tree(
    peers: Peers, cap: int, found: dict[int, Rounds], energy: float | None, megabytes: float | None
) -> dict[str, Any]:
    M = peers.degree
    return {
        "clients": peers.clients,
        "neighbours": M,
        "time": peers.time,
        "spread": peers.spread,
        "fetch_seconds": peers.fetch,
        "visit_seconds": peers.visit,
        **_numbers(peers, cap, found),
        "parallel_round_seconds": _parallel(found),
        "bytes_per_round": None if megabytes is None else peers.clients * M * megabytes * MEGA,
        "joules_per_client": energy,
        "joules_per_round": None if energy is None else peers.clients * energy,
        "alternatives": [{"wait": c} | _numbers(peers, c, found) for c in found],
    }


def _numbers(peers: Peers, cap: int, found: dict[int, Rounds]) -> dict[str, float | None]:
    """Waits in visits, as Figure 9 has them, and in seconds; what is known in closed form beside the simulation."""
    from paceline.plans.peers import longest_wait, mean_awaited, parallel_share, work_factor
    from paceline.statistics import standard_error

    rounds, M = found[cap], peers.degree
    waits, seconds = float(rounds.max_wait.mean()), float(rounds.seconds.mean())
    sequential = cap >= M == peers.clients - 1  # the mean of a sum needs no constant times
    longest = longest_wait(peers.clients, M, cap) if sequential or cap == 0 or not peers.spread else None
    return {
        "parallel_share": float(rounds.share.mean()),
        "parallel_share_error": _finite(standard_error(rounds.share)),
        "parallel_share_closed_form": parallel_share(M, cap),
        "mean_wait": float(rounds.mean_wait.mean()) / peers.visit,
        "mean_max_wait": waits / peers.visit,
        "mean_max_wait_error": _finite(standard_error(rounds.max_wait) / peers.visit),
        "mean_max_wait_closed_form": longest,
        "mean_wait_seconds": float(rounds.mean_wait.mean()),
        "mean_max_wait_seconds": waits,
        "round_seconds": seconds,
        "slowdown": seconds / _parallel(found),
        "mean_awaited": float(rounds.awaited.mean()),
        "mean_awaited_closed_form": mean_awaited(M, cap),
        "work_factor": work_factor(M, cap),
    }


def _parallel(found: dict[int, Rounds]) -> float:
    """Seconds of a round in which nobody waits."""
    return float(found[0].seconds.mean())


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None


def _answer(peers: Peers, cap: int, found: dict[int, Rounds], energy: float | None, rule: str, draws: int) -> Answer:

    rows = []
    for c in found:
        one = _numbers(peers, c, found)
        cells = [str(c), f"{one['parallel_share']:.1%}", f"{one['mean_awaited']:.2f}"]
        cells += [f"{one[name]:.4g} s" for name in ("mean_wait_seconds", "mean_max_wait_seconds", "round_seconds")]
        rows.append(([*cells, f"x{one['work_factor']:.2f}", _name(peers, c, cap)], c == cap))
    titles = ("wait for", "at once", "awaited", "mean wait", "max wait", "round", "work", "")
    return Answer(columns=titles, left=[""], rows=rows, lines=_lines(peers, cap, found, energy, rule, draws))


def _name(peers: Peers, cap: int, asked: int) -> str:
    names = ["asked"] if cap == asked else []
    if cap == 0:
        names.append("parallel")
    if cap >= peers.degree:
        names.append("sequential" if peers.degree == peers.clients - 1 else "no cap")
    return ", ".join(names)


def _lines(
    peers: Peers, cap: int, found: dict[int, Rounds], energy: float | None, rule: str, draws: int
) -> list[str]:
    from paceline.plans.peers import RULES

    one, M = _numbers(peers, cap, found), peers.degree
    longest = one["mean_max_wait_closed_form"]
    exact = "" if longest is None else f" (closed form {longest:g})"
    fetched = f"{peers.fetch:.4g} s for {M} models, then " if peers.fetch else ""
    lines = [
        f"{peers.clients} clients, {M} neighbours each ({peers.topology}); a client with more prior neighbours waits"
        f" for {RULES[rule]}. Means over {draws} rounds.",
        f"Waiting for {cap}: {one['parallel_share']:.2%}{_plus_minus(one['parallel_share_error'], 100)} of the"
        f" clients start at once (closed form {one['parallel_share_closed_form']:.2%}: Proposition 1, or 1/(M+1)),"
        f" and a client waits for {one['mean_awaited']:.2f} models (closed form"
        f" {one['mean_awaited_closed_form']:.2f}).",
        f"The last one starts after {one['mean_max_wait']:.2f}{_plus_minus(one['mean_max_wait_error'])} visits"
        f"{exact} of {peers.visit:.4g} s ({fetched}{peers.time:.4g} s of training); a round takes"
        f" {one['slowdown']:.1f} times as long as with nobody waiting.",
        "Work: local training behind the mean of M+1 models, relative to all in parallel.",
    ]
    if peers.fetch:
        lines.append(
            "Transfers: all models come one after the other when the wait is over, and nobody stands in line for a"
            " neighbour's link. The algorithm fetches old ones while it waits, and lines count: `paceline run da-dpfl"
            " --dry-run --set da-dpfl.pruning.target=0` has its real times."
        )
    if energy is not None:
        lines.append(
            f"Energy: {energy:.4g} J a client, {peers.clients * energy:.4g} J a round; links draw at both ends, and"
            " who waits draws nothing, so that it does not depend on the cap."
        )
    return lines


def _plus_minus(error: float | None, times: float = 1.0) -> str:
    """A standard error, where there is one."""
    return "" if error is None else f" ± {error * times:.2f}"
