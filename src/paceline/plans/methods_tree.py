"""A plan of methods as plain values, for JSON."""

from __future__ import annotations

import math
from dataclasses import asdict
from typing import Any

from paceline.plans.methods import Candidate, MethodPlan
from paceline.plans.methods_reasons import absence_rule, assumptions, command, recommend, tries, unknown


def as_tree(plan: MethodPlan) -> dict[str, Any]:
    """All figures; what is not known is None."""
    return {
        "fleet": plan.fleet.path,
        "devices": plan.clients,
        "participants": plan.participants,
        "model": plan.settings.model,
        "dataset": plan.settings.dataset,
        "model_bytes": plan.model_bytes,
        "candidates": [_leaf(one) for one in plan.candidates],
        "absence": absence_rule(plan),
        "skipped": [asdict(one) for one in plan.skipped],
        "recommendation": {
            "name": plan.best.name,
            "as_fast": [one.name for one in plan.fastest if one is not plan.best],
            "reasons": recommend(plan),
            "to_try": tries(plan),
            "command": command(plan),
        },
        "unknown": unknown(plan),
        "assumptions": assumptions(plan),
    }


def _leaf(one: Candidate) -> dict[str, Any]:
    told = {"name": one.name, "label": one.method.label} | asdict(one.figures) | {"break_even": one.break_even}
    return {key: None if isinstance(value, float) and math.isnan(value) else value for key, value in told.items()}
