"""Why PSFL has the structure that it has, in words."""

from __future__ import annotations

import math

from paceline.algorithms.structure import Structure


def explain(structure: Structure) -> str:
    """Why this structure, in a few plain sentences."""
    participants, ratio = structure.participants, structure.ratio
    rounds = "in proportion to W" if math.isinf(ratio) else f"as {ratio:.3g}*W + 1"
    return (
        f"With alpha/beta = {ratio:.3g} the rounds needed grow {rounds}, while a round of S clients in a row takes"
        f" {structure.time_mean:.3g} s * S and some waiting for the slowest of W sequences. With {participants}"
        f" clients a round the two balance at W = {structure.width:.2f} and S = {structure.length:.2f}, in whole"
        f" clients W = {structure.W} and S = {structure.S}{_by(structure)}. A round then takes about"
        f" {structure.expected_round_seconds:.3g} s, {_how(structure)}. To the same accuracy, by the"
        f" {'bound on rounds' if structure.rounds_by == 'simulation' else 'bounds'}, {_ends(structure)}."
    )


def _by(structure: Structure) -> str:
    return ", chosen by simulated rounds" if structure.rounds_by == "simulation" else ""


def _how(structure: Structure) -> str:
    """What a round's seconds are worth."""
    if structure.simulated:
        return "simulated with the times that were seen of the clients"
    return (
        f"if every client took {structure.time_mean:.3g} s on average; where clients differ, wide structures take"
        " longer than that"
    )


def _ends(structure: Structure) -> str:
    """Where FedAvg and sequential FL stand."""
    cost = {(one.S, one.W): one.cost for one in structure.alternatives}
    told = []
    for name, S, W in (("FedAvg", 1, structure.participants), ("sequential FL", structure.participants, 1)):
        if (S, W) == (structure.S, structure.W):
            told.append(f"{name} (W = {W}, S = {S}) is the best structure")
        else:
            told.append(f"{name} (W = {W}, S = {S}) takes {cost[S, W]:.2f} times as long")
    return " and ".join(told)
