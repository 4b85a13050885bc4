"""Why these servers: what ``servers`` recommends, in words."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from paceline.plans.servers import ONE, Candidate, Parts, Plan

NOTHING = 1e-9
"""A difference that is but rounding, as a share."""
ADVICE = {
    "the clients' own links": "no number of servers shortens that",
    "the rate that a server's clients share": "more servers, or faster ones, shorten that",
    "local training": "no number of servers shortens that",
    "the rate of servers between one another": "fewer links a server shorten that",
    "the links between servers": "only faster links shorten that",
}


def explain(plan: Plan) -> list[str]:
    """The recommendation, what bounds its rounds, why others lose, and how sure it is; a sentence or two each."""
    best = plan.best
    told = [_choice(plan), _bound(best.parts)]
    others = [one for one in plan.candidates if one is not best]
    same = [one for one in others if one.servers == best.servers]
    links = len(best.graph.edges)
    told += _rival("Denser", [one for one in same if len(one.graph.edges) > links], best)
    told += _rival("Sparser", [one for one in same if len(one.graph.edges) < links], best)
    told += _rival("Fewer servers", [one for one in others if 1 < one.servers < best.servers], best)
    told += _rival("More servers", [one for one in others if one.servers > best.servers], best)
    return [*told, _robust(best), *([_range(plan)] if others else []), *_doubts(plan)]


def _choice(plan: Plan) -> str:
    best, one = plan.best, plan.one
    if best is one:
        return f"{ONE}: nobody's rounds are so much shorter that it would reach the same accuracy sooner."
    more = ""
    if best.clients > plan.demand.participants:
        more = f" ({best.clients} in all: {plan.demand.participants} cannot be divided evenly)"
    return (
        f"{best.name}: {best.servers} servers with {best.each} client{'s' * (best.each != 1)} each a round{more}."
        f" A round takes {best.seconds:.4g} s instead of {one.seconds:.4g} s with one server, and"
        f" x{best.rounds_factor:.3f} as many rounds are needed: the same accuracy in"
        f" x{best.score / one.score:.3f} of the time."
    )


def shares(parts: Parts) -> dict[str, float]:
    """The parts of a round by name."""
    between = "the rate of servers between one another" if parts.nodes else "the links between servers"
    return {
        "the clients' own links": parts.clients,
        "the rate that a server's clients share": parts.server,
        "local training": parts.training,
        between: parts.backbone,
    }


def _bound(parts: Parts) -> str:
    named = shares(parts)
    longest = max(named, key=lambda name: named[name])
    listed = ", ".join(f"{name} {seconds:.3g} s" for name, seconds in named.items() if seconds)
    share = named[longest] / parts.seconds
    return f"Its round by formula: {listed}. Most of it, {share:.0%}, is {longest}: {ADVICE[longest]}."


def _rival(what: str, others: Sequence[Candidate], best: Candidate) -> list[str]:
    """The best of these others, and why it loses."""
    if not others:
        return []
    other = min(others, key=lambda one: one.score)
    why = " and ".join(reason for reason in (_slower(other, best), _drifts(other, best)) if reason)
    longer = other.score / best.score - 1
    much = f"takes {longer:.1%} longer to the same accuracy" if longer > 5e-4 else "is as fast, but moves more bytes"
    return [f"{what}: {other.name} {much}{': ' if why else ''}{why}."]


def _slower(other: Candidate, best: Candidate) -> str:
    if other.seconds <= best.seconds * (1 + 5e-4):
        return ""
    causes: list[tuple[Callable[[Parts], float], str]] = [
        (lambda parts: parts.server, f"{other.each} clients share a server, not {best.each}"),
        (lambda parts: parts.backbone, f"a server has up to {other.degree} neighbours, not {best.degree}"),
        (lambda parts: parts.training, f"the slowest of {other.clients} visits is waited for, not of {best.clients}"),
    ]
    part, cause = max(causes, key=lambda item: item[0](other.parts) - item[0](best.parts))
    grown = part(other.parts) > part(best.parts)
    return f"rounds of {other.seconds:.4g} s against {best.seconds:.4g} s{', since ' + cause if grown else ''}"


def _drifts(other: Candidate, best: Candidate) -> str:
    if other.rounds_factor <= best.rounds_factor * (1 + 5e-4):
        return ""
    return (
        f"servers agree more slowly (p = {other.p:.3g} against {best.p:.3g}), which takes x{other.rounds_factor:.3f}"
        f" the rounds against x{best.rounds_factor:.3f}"
    )


def _robust(best: Candidate) -> str:
    if best.servers == 1:
        return "If the server fails, nothing is left: several servers are safer."
    lost = best.graph.disconnection_tolerance
    held = f"Any {lost} links" if lost > 1 else "Any one link" if lost else "No link"
    return f"{held} may fail before its overlay can fall apart."


def drift_range(plan: Plan) -> tuple[float, Candidate | None, float, Candidate | None]:
    """Between which drifts the recommendation holds, and who is better below and above."""
    best, given = plan.best, plan.demand.drift
    low, below, high, above = 0.0, None, 1.0, None
    for other in plan.candidates[1:]:
        # Scores are linear in drift: seconds (1 + drift growth).
        apart = best.seconds - other.seconds
        slope = best.seconds * best.growth - other.seconds * other.growth
        if abs(slope) < NOTHING * best.seconds:
            continue
        crossing = -apart / slope
        if slope > 0 and crossing < high:
            high, above = max(crossing, given), other
        elif slope < 0 and crossing > low:
            low, below = min(crossing, given), other
    return low, below, high, above


def _range(plan: Plan) -> str:
    low, below, high, above = drift_range(plan)
    if below is None and above is None:
        return "Whatever the drift, it stays the best of these."
    sides = [f"{one.name} {where}" for one, where in ((below, "below"), (above, "above")) if one is not None]
    return f"It is the best of these for a drift from {low:.2g} to {high:.2g}; {' and '.join(sides)}."


def _doubts(plan: Plan) -> list[str]:
    """What must be known about the times that were compared."""
    return _of_devices(plan) + _of_times(plan)


def _of_devices(plan: Plan) -> list[str]:
    devices = plan.demand.devices
    if devices is None:
        return []
    told = f"The {devices.count} devices of {devices.file}: simulated one by one; by formula, mean links"
    told += " and the slowest of a round's." if devices.seconds else "."
    if devices.latency:
        told += f" Every transfer waits {devices.latency:.3g} s, their mean latency."
    return [told + (" That some are away at times is left out." if devices.absent else "")]


def _of_times(plan: Plan) -> list[str]:
    if plan.demand.network is not None:
        return [
            f"Judged by the formula, with the rates of {plan.demand.network.file}; unequal links are not simulated."
        ]
    if plan.best.by_formula:
        large = ", ".join(one.name for one in plan.candidates if one.time_simulated is None)
        return [f"Judged by the formula, since some have too many transfers a round to be simulated: {large}."]
    error = max(one.time_error / one.seconds for one in plan.candidates)
    if not error:
        return []
    return [f"Simulated times are means over some rounds, with standard errors of up to {error:.1%}."]
