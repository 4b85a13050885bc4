"""What a plan of methods recommends, why, what it does not know, and what it took for granted."""

from __future__ import annotations

import math
import shlex
from collections.abc import Callable, Sequence

from paceline.plans.methods import Candidate, MethodPlan
from paceline.runs.problem import is_here

FAIR = 0.4
"""The slower half of the devices makes at least this share of the visits, or it is said."""
SHOWN = 4
"""Methods that are worth being tried for real."""


def recommend(plan: MethodPlan) -> list[str]:
    """The choice and its rivals, a sentence or two each."""
    best, base = plan.best, plan.baseline
    told = [_choice(plan, best, base), *_as_fast(plan, best), *_sequences(plan, best), *_cheapest(plan, best)]
    if plan.participants < plan.clients:
        told += _everybody(plan)
    return [*told, *_skewed(plan), _chance(plan)]


def _choice(plan: MethodPlan, best: Candidate, base: Candidate) -> str:
    who = f"{plan.participants} of {plan.clients} devices at a time"
    if plan.participants == plan.clients:
        who = f"all {plan.clients} devices at once"
    seconds, usual = best.figures.visit_seconds, base.figures.visit_seconds
    if best is base:
        return f"{best.method.label}: with {who}, nothing gets through visits faster ({seconds:.3g} s a visit)."
    return (
        f"{best.method.label}: with {who}, it gets through visits fastest: {seconds:.3g} s a visit against"
        f" {usual:.3g} s with FedAvg. It is the faster one to the same accuracy as long as it needs less than"
        f" x{best.break_even:.2g} the visits of FedAvg."
    )


def _as_fast(plan: MethodPlan, best: Candidate) -> list[str]:
    others = [one.method.label for one in plan.fastest if one is not best]
    return [f"As fast, as far as chance lets one say: {'; '.join(others)}."] if others else []


def _sequences(plan: MethodPlan, best: Candidate) -> list[str]:
    """PSFL's visits build upon one another."""
    found = [one for one in plan.main if one.method.algorithm == "psfl" and one is not best]
    if not found:
        return []
    one = found[0]
    share = best.figures.visit_seconds / one.figures.visit_seconds
    return [
        f"In PSFL one visit builds upon another, so that fewer may be needed: {one.method.label} is faster than"
        f" {best.method.label} if it needs less than x{share:.2g} its visits (paceline plan structure weighs that by"
        " the paper's bounds)."
    ]


def _cheapest(plan: MethodPlan, best: Candidate) -> list[str]:
    told = []
    for what, figure, error, form in _COSTS:
        found = [(figure(one), one) for one in plan.main]
        known = [(value, one) for value, one in found if value is not None]
        if not known:
            continue
        value, one = min(known, key=lambda item: item[0])
        others, chance = max(value for value, _ in known), max(error(other) for _, other in known)
        if others - value <= max(0.01 * value, 4 * chance):
            told.append(f"In {what} a visit they are alike, as far as chance lets one say ({form(value)}).")
        elif one is best:
            told.append(f"It also takes least {what} a visit ({form(value)}; up to {form(others)} elsewhere).")
        else:
            told.append(f"Least {what} a visit: {one.method.label}, {form(value)} (up to {form(others)} elsewhere).")
    return told


def _everybody(plan: MethodPlan) -> list[str]:
    found = [one for one in plan.group("all") if one.method.algorithm != "fedavg"]
    if not found:
        return []
    one = found[0]
    return [
        f"With all {plan.clients} devices at once: {one.method.label}, {one.figures.visit_seconds:.3g} s a visit,"
        f" break-even x{one.break_even:.2g} of FedAvg with all of them."
    ]


def _skewed(plan: MethodPlan) -> list[str]:
    found = [one for one in plan.candidates if one.figures.slow_share < FAIR]
    if not found:
        return []
    listed = ", ".join(f"{one.method.label} {one.figures.slow_share:.0%}" for one in found)
    return [
        f"In these methods the slower half of the devices makes fewer than {FAIR:.0%} of the visits, so that what"
        f" only they hold is learned less: {listed}."
    ]


def _chance(plan: MethodPlan) -> str:
    errors = [one.figures.visit_error / one.figures.visit_seconds for one in plan.main]
    known = [error for error in errors if not math.isnan(error)]
    if not known:
        return "Every time is that of one short simulation; how far chance goes is not known."
    return f"Times are means over some rounds, with standard errors of up to {max(known):.1%}."


def absence_rule(plan: MethodPlan) -> str:
    """Name the rule for absent devices under which the methods were compared."""
    rules: dict[str, list[str]] = {}
    for one in plan.candidates:
        rules.setdefault(one.figures.absence, []).append(one.method.label)
    if len(rules) == 1:
        return f"Absent devices: {next(iter(rules))}, for all methods (--set absence=...)."
    listed = "; ".join(f"{rule}: {', '.join(labels)}" for rule, labels in rules.items())
    return f"Absent devices are treated differently, which the times also measure: {listed}."


def unknown(plan: MethodPlan) -> list[str]:
    """What nobody knows before something is learned."""
    return [
        "Accuracy: nothing was learned. How many visits a method needs depends on data, model and recipe; a late"
        " update, or a model that passed through several devices, is not worth the same as an update of FedAvg.",
    ]


def command(plan: MethodPlan) -> str:
    """What would find out: a comparison of those worth it, for real."""
    words = [word for said in plan.said for word in ("--set", said)]
    return shlex.join(["paceline", "compare", *tries(plan), "--until", "accuracy=0.9", *words])


def tries(plan: MethodPlan) -> list[str]:
    """The best, FedAvg, the fastest structure of PSFL and the fastest with all devices: those worth a real run."""
    groups = (
        [plan.best],
        [plan.baseline],
        [one for one in plan.main if one.method.algorithm == "psfl"],
        [one for one in plan.group("all") if one.method.algorithm != "fedavg"],
    )
    return list(dict.fromkeys(group[0].name for group in groups if group))[:SHOWN]


def assumptions(plan: MethodPlan) -> list[str]:
    """What was taken for granted, and which setting says otherwise."""
    listed, fleet = plan.fleet, plan.settings.fleet
    local = plan.settings.algorithm.local
    passes = "one pass" if (local.epochs or 1) == 1 else f"{local.epochs} passes"
    work = f"{local.steps} steps" if local.steps else f"{passes} over a device's data"
    told = [
        f"Every visit is {work}, in batches of {local.batch}, with every method (--set local.epochs=...); models of"
        f" {plan.model_bytes:,} bytes, {plan.settings.model} for {plan.settings.dataset}.",
    ]
    if not is_here(plan.settings.dataset):
        told.append(f"{plan.settings.dataset} is not here, so that all devices have as many samples.")
    if "seconds" in listed.numbers:
        told.append("A visit takes the seconds in the file, whatever the model and the recipe; flops would say more.")
    elif "flops" not in listed.numbers:
        told.append(f"The file says nothing of speed: fleet.times={fleet.times} was taken.")
    if "up_mbps" not in listed.numbers and fleet.links == "free":
        told.append("Models travel in no time, for the file has no up_mbps and down_mbps (--set fleet.links=...).")
    elif fleet.sharing == "none":
        how = "a file without latency, and --set" if "latency" in listed.numbers else "--set"
        told.append(f"Transfers do not slow one another down ({how} fleet.sharing=fair, fleet.server_mbps=...).")
    if listed.server is None and fleet.server == "free":
        told.append(
            "A server's work takes no time (--set fleet.server=...), so that what SPFL and APFL save is not seen."
        )
    if fleet.backbone == "free" and any(one.method.algorithm == "p-fedavg" for one in plan.candidates):
        told.append("Models travel between servers in no time (--set fleet.backbone=...).")
    if plan.computing_only:
        told.append("Joules are of computing alone: the power of links is not known (--set fleet.link_watts=...).")
    elif plan.baseline.figures.visit_joules is None:
        told.append("Joules are not known: the file has no watts.")
    return told + _assumed(plan)


def _assumed(plan: MethodPlan) -> list[str]:
    """What schedules that depend on something learned took for granted; the same words once."""
    said: dict[str, list[str]] = {}
    for one in plan.candidates:
        said.setdefault(one.figures.assumed, []).append(one.method.label)
    return [f"{'; '.join(labels)}: {text}." for text, labels in said.items() if text]


_Costs = tuple[str, Callable[[Candidate], float | None], Callable[[Candidate], float], Callable[[float], str]]
_COSTS: Sequence[_Costs] = (
    ("traffic", lambda one: one.figures.visit_bytes, lambda one: 0.0, lambda value: f"{value / 1e6:.3g} MB"),
    ("energy", lambda one: one.figures.visit_joules, lambda one: one.figures.joules_error, "{:.3g} J".format),
)
