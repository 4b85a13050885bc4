"""The tables of docs/peers.md from the JSON that a run has written."""

from __future__ import annotations

import statistics
from typing import Any

from benchmarks.peers.environments import PEERS

LOSS_TOLERANCE = 0.01
"""Relative difference from the plain loop's last loss, for peers that learn from the same batches: sums are taken in
another order, and hundreds of steps enlarge what that changes in the last bits."""
ACCURACY_BAND = 0.02
"""Difference from the plain loop's last accuracy, for peers that draw batches or participants themselves."""
WARM = 6
"""Rounds before those that count in visits a second, as in `make bench`."""

Run = dict[str, Any]


def rate(run: Run, participants: int) -> float:
    """Client visits a second once everything is warm."""
    told = run["told"]
    if "rate" in told:
        return float(told["rate"])
    marks = told["marks"]
    first = min(WARM, len(marks) - 1)
    return participants * (len(marks) - first) / (marks[-1] - (marks[first - 1] if first else 0.0))


def agreement(peer: str, run: Run, plain: Run | None) -> tuple[bool | None, str]:
    """Whether a peer learned what the plain loop did (None where there is nothing to compare with), in words."""
    if plain is None:
        return None, "no plain loop beside it"
    if PEERS[peer].agrees == "batches":
        theirs, ours = run["told"]["losses"][-1], plain["told"]["losses"][-1]
        apart = abs(theirs - ours) / ours
        return apart <= LOSS_TOLERANCE, f"loss within {apart:.0e}"
    apart = abs(run["told"]["accuracies"][-1] - plain["told"]["accuracies"][-1])
    return apart <= ACCURACY_BAND, f"own batches; accuracy within {100 * apart:.1f} points"


def table(workload: str, result: dict[str, Any]) -> list[str]:
    """One workload's rows of Markdown."""
    told, runs = result["workloads"][workload], result["runs"][workload]
    made_up = told["samples"] > 0
    head = ["", "visits/s" if made_up else "wall s", "of which rounds s", "largest process MiB", "all processes MiB"]
    head += ["loss", "accuracy", "agrees", "versions"]
    if made_up:
        del head[2:7]
    lines = [f"| {' | '.join(head)} |", "|---" + "|--:" * (len(head) - 3) + "|---|---|"]
    plain = next((run for run in runs.get("plain", []) if not run["error"]), None)
    for peer, several in runs.items():
        good = [run for run in several if not run["error"]]
        if not good:
            wrong = several[0]["error"].replace("|", "/") if several else "not run"
            lines.append(f"| {PEERS[peer].title} " + "| " * (len(head) - 3) + f"| did not run: `{wrong}` | |")
            continue
        cells = _cells(peer, good, plain, told["participants"])
        if made_up:
            cells = [
                cells[0],
                f"{statistics.median(rate(run, told['participants']) for run in good):,.0f}",
                *cells[-2:],
            ]
        lines.append(f"| {' | '.join(cells)} |")
    return lines


def _cells(peer: str, good: list[Run], plain: Run | None, participants: int) -> list[str]:
    middle = {key: statistics.median(run[key] or 0.0 for run in good) for key in ("wall", "largest", "tree")}
    rounds = statistics.median(run["told"]["marks"][-1] - run["told"]["seconds"]["imports"] for run in good)
    last = good[-1]["told"]
    fine, words = agreement(peer, good[-1], plain)
    verdict = "" if peer == "plain" else words if fine is not False else f"**no**: {words}"
    return [
        PEERS[peer].title,
        f"{middle['wall']:.1f}",
        f"{rounds:.1f}",
        f"{middle['largest']:,.0f}",
        f"{middle['tree']:,.0f}",
        f"{last['losses'][-1]:.4f}",
        f"{100 * last['accuracies'][-1]:.2f} %",
        verdict,
        ", ".join(f"{name} {number}" for name, number in last["versions"].items()),
    ]


def page(result: dict[str, Any]) -> str:
    """All tables, with what they were measured on."""
    parts = [
        f"Measured on {result['cores']} cores of {result['hardware']}, load {result['load'][0]:.1f} before and"
        f" {result['load'][1]:.1f} after, medians of {result['repeat']} interleaved repetitions."
    ]
    for name, told in result["workloads"].items():
        what = "client visits" if told["samples"] else "whole federation"
        who = f"{told['participants']} of {told['clients']} clients a round"
        head = f"### {name}: {what}, {told['rounds']} rounds, {who}"
        parts.append("\n".join([head, "", *table(name, result)]))
    return "\n\n".join(parts) + "\n"
