"""DA-DPFL (TNNLS) without training, Figures 8 and 9: how many clients start at once, and how long the last one waits.

Rounds are drawn as ``plans.peers`` has them, with unit training times. Neither figure has a printed number; what
there is to compare with are the paper's Proposition 1, its words, and an independent calculation.
"""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np

from paceline.papers.pictures import new_figure, plain
from paceline.papers.result import Reproduction, Request, Row, by_reference, claimed, compared
from paceline.plans.neighbours import Peers
from paceline.plans.peers import parallel_share, prior_chances, simulate
from paceline.statistics import standard_error

CLIENTS = 100
NEIGHBOURS = (1, 2, 5, 10, 20, 50, 99)
CAPS = (1, 2, 5, 10, 20)
"""Figure 9's N, besides N = M."""
DRAWS = 2000
"""Rounds a seed; five seeds are the paper's 10,000."""

# -- Figure 8 -------------------------------------------------------------------------------------------------------

ERRORS = 4.0
FALSE_ALARM = 6.3e-5
"""How often a normal variable is farther than so many standard errors from its mean."""


def proposition1_share(clients: int, neighbours: int) -> float:
    """Proposition 1's P(|A_k| = 0), averaged over the indices k."""
    return sum(prior_chances(clients, neighbours, k)[0] for k in range(1, clients + 1)) / clients


def fig8(request: Request, topology: str = "random") -> Reproduction:
    """DA-T5: the share of clients that start at once, over the number of neighbours."""
    draws = DRAWS * request.seeds
    rows: list[Row] = []
    shares: dict[int, float] = {}
    for M in NEIGHBOURS:
        (found,) = simulate(Peers(clients=CLIENTS, neighbours=M, topology=topology), [None], draws=draws)
        shares[M] = float(found.share.mean())
        within = 100 * ERRORS * standard_error(found.share)
        name, wanted = f"M={M}: share that starts at once", 100 * proposition1_share(CLIENTS, M)
        note = f"within {ERRORS:g} standard errors of Proposition 1, averaged over the indices"
        rows.append(by_reference(compared(name, wanted, 100 * shares[M], within=within, unit="%", note=note)))
    falling = all(shares[a] > shares[b] for a, b in pairwise(NEIGHBOURS))
    furthest = max(abs(proposition1_share(CLIENTS, M) * (M + 1) - 1) for M in NEIGHBOURS)
    rows += [
        claimed("over the number of neighbours M", "declines", "declines" if falling else "does not", falling),
        _independent_of_cap(draws),
    ]
    note = (
        f"{draws} rounds of {CLIENTS} clients a point; the paper's are 10,000, and the figure prints no numbers."
        " The reference is Proposition 1's chance of an empty prior set, averaged over the indices; it is 1/(M+1) (to"
        f" {furthest:.0e} here), since Σ_k C(K-k, M) = C(K, M+1). Each of the {len(NEIGHBOURS)} comparisons is a"
        f" false alarm once in {1 / FALSE_ALARM:,.0f}, one or more of them once in"
        f" {1 / (len(NEIGHBOURS) * FALSE_ALARM):,.0f}; with M = 99 nothing is random."
    )
    return Reproduction(rows=rows, note=note, figure=lambda: _draw_shares(shares))


def _independent_of_cap(draws: int) -> Row:
    """N changes for whom a client waits, not whether it does."""
    found = simulate(Peers(clients=CLIENTS, neighbours=10), [1, 5, None], draws=min(draws, DRAWS))
    same = all(np.array_equal(one.share, found[0].share) for one in found)
    return claimed("M=10: the same for N = 1, 5 and 10, round by round", "yes", "yes" if same else "no", same)


def _draw_shares(shares: dict[int, float]) -> Any:
    figure = new_figure((6, 3.8), f"DA-DPFL, share of {CLIENTS} clients that start at once")
    axes = figure.subplots()
    every = np.arange(1, CLIENTS)
    axes.plot(every, [100 * parallel_share(int(M)) for M in every], color="0.6", label="1/(M+1)")
    axes.plot(list(shares), [100 * mean for mean in shares.values()], "o", color="C0", label="drawn")
    axes.set(xlabel="neighbours M", ylabel="share, %", ylim=(0, None))
    plain(axes)
    axes.legend(frameon=False)
    return figure


# -- Figure 9 -------------------------------------------------------------------------------------------------------

_FASTEST = {2: {2: 5.2}, 5: {5: 10.0}, 10: {1: 2.8, 2: 4.3, 5: 9.0, 10: 17.0},
            20: {1: 2.4, 2: 3.7, 5: 7.9, 10: 15.3, 20: 29.1}, 50: {50: 57.6}, 99: {99: 99.0}}  # fmt: skip
_LOWEST = {10: {1: 3.6, 2: 5.3, 5: 10.3}}
INDEPENDENT = {
    (rule, M, N): wait
    for rule, waits in (("fastest", _FASTEST), ("lowest", _LOWEST))
    for M, caps in waits.items()
    for N, wait in caps.items()
}
"""(rule, M, N) to the mean longest wait of a separate calculation, to one decimal; the paper prints none."""
FIG9_NEIGHBOURS = (2, 5, 10, 20, 50, 99)
LOWEST_CAPS = (1, 2, 5)
MANY = 50
"""With so many neighbours a round varies little, and a fifth of the draws is enough."""
RELATIVE, HALF_DIGIT, OWN_ERRORS = 0.02, 0.05, 3.0

Waits = dict[tuple[int, int], tuple[float, float]]
"""(M, N) to mean and standard error of the longest wait."""


def longest_waits(neighbours: int, caps: tuple[int, ...], draws: int, rule: str = "fastest") -> Waits:
    """The mean longest wait under each cap, in trainings."""
    found = simulate(Peers(clients=CLIENTS, neighbours=neighbours), caps, rule=rule, draws=draws)
    return {
        (neighbours, cap): (float(one.max_wait.mean()), standard_error(one.max_wait))
        for cap, one in zip(caps, found, strict=True)
    }


def fig9(request: Request) -> Reproduction:
    """DA-T5: the mean longest wait, over neighbours and wait caps."""
    draws = DRAWS * request.seeds
    waits: Waits = {}
    for M in FIG9_NEIGHBOURS:
        waits |= longest_waits(M, (*(N for N in CAPS if N < M), M), draws if M < MANY else draws // 5)
    lowest = longest_waits(10, LOWEST_CAPS, draws, "lowest")
    rows = [_wait_row("fastest", *place, *found) for place, found in waits.items()]
    rows += [_wait_row("lowest", *place, *found) for place, found in lowest.items()]
    rows += _words(waits)
    largest = 100 * max(error / mean for mean, error in (*waits.values(), *lowest.values()))
    note = (
        f"{draws} rounds of {CLIENTS} clients a point (the paper: 10,000), a fifth of that from M = {MANY} on; waits"
        " are in local trainings, which all take the same time. The figure prints no numbers; ok compares with a"
        f" separate calculation that is known to one decimal, within {RELATIVE:.0%} or half a digit, and"
        f" {OWN_ERRORS:g} of our standard errors, which are at most {largest:.2g} % of a wait. Under a given cap the"
        " wait falls as M grows: the fastest N of more prior neighbours are faster."
    )
    return Reproduction(rows=rows, note=note, figure=lambda: _draw_waits(waits))


def _wait_row(rule: str, M: int, N: int, mean: float, error: float) -> Row:
    known = INDEPENDENT.get((rule, M, N))
    name = f"M={M}, N={N}: mean longest wait" + (", lowest indices" if rule == "lowest" else "")
    if known is None:
        return Row(name, None, mean, "trainings")
    ok = abs(mean - known) <= max(RELATIVE * known, HALF_DIGIT) + OWN_ERRORS * error
    said = f"separate calculation: {known:.1f}"
    if rule == "lowest":
        said += "; DA-E7: the reference code's rule, of which the paper says nothing"
        if not ok:
            said += ". A plain loop over the clients, in the tests, agrees with ours and not with it"
    return Row(name, None, mean, "trainings", bool(ok), said)


def _words(waits: Waits) -> list[Row]:
    """What the paper says about the figure."""
    M = np.array(FIG9_NEIGHBOURS, float)
    uncapped = np.array([waits[m, m][0] for m in FIG9_NEIGHBOURS])
    linear = float(np.corrcoef(M, uncapped)[0, 1] ** 2)
    slopes = np.diff(uncapped) / np.diff(M)
    ratio = waits[20, 20][0] / waits[10, 10][0]
    last = CLIENTS - 1
    capped = all(waits[m, n][0] < waits[m, m][0] for m, n in waits if n < m)
    note = f"ok from R² = 0.95 on; the slope falls from {slopes[0]:.1f} to {slopes[-1]:.1f} trainings a neighbour"
    return [
        claimed("N = M, over M", "almost linear", f"R² {linear:.3f}", linear >= 0.95, note),
        claimed("M = 20 over M = 10", "about double", f"x{ratio:.2f}", round(ratio) == 2, "ok: rounds to 2"),
        compared("M = N = K-1: sequential, so K-1", last, waits[last, last][0], within=0, unit="trainings"),
        claimed("N < M shortens the wait", "yes", "yes" if capped else "no", capped),
    ]


def _draw_waits(waits: Waits) -> Any:
    figure = new_figure((6.5, 4.2), f"DA-DPFL, mean longest wait of {CLIENTS} clients")
    axes = figure.subplots()
    uncapped = [waits[M, M][0] for M in FIG9_NEIGHBOURS]
    axes.plot(FIG9_NEIGHBOURS, uncapped, "o-", color="black", label="N = M")
    for color, N in zip(("C0", "C1", "C2", "C3", "C4"), CAPS, strict=True):
        points = [(M, waits[M, N][0]) for M in FIG9_NEIGHBOURS if (M, N) in waits]
        axes.plot(*zip(*points, strict=True), "o-", color=color, label=f"N = {N}")
    axes.set(xlabel="neighbours M", ylabel="wait, in local trainings", ylim=(0, None))
    plain(axes)
    axes.legend(frameon=False)
    return figure
