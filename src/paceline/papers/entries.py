"""Every table and figure of the four papers: what computes it anew, or why nothing does."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from typing import NamedTuple, cast

from paceline.papers.result import Reproduction, Request


@dataclass(frozen=True, slots=True)
class Entry:
    """One reproduction."""

    id: str
    title: str
    paper: str
    function: str
    """``module:function``, so that what needs no torch does not wait for it."""
    scales: tuple[str, ...] = ()
    """Sizes to choose from, the first by default; empty where there is only one."""
    shows: tuple[str, ...] = ()
    """The tables, figures and theorems of the paper that it computes anew; empty for what the paper does not have."""

    last: str = ""
    """Day and commit of the last run with `--scale paper`, or never; empty without that scale."""

    @property
    def trained(self) -> bool:
        """Whether models are trained whatever the scale, which takes longer and may use a GPU."""
        return bool(self.scales) and self.scales[0] in BOTH

    @property
    def training(self) -> str:
        """Say in a word whether the reproduction needs training."""
        return "yes" if self.trained else "in part" if self.scales else "no"

    def load(self) -> Callable[[Request], Reproduction]:
        """Import the function that computes the reproduction."""
        module, _, name = self.function.partition(":")
        return cast(Callable[[Request], Reproduction], getattr(import_module(module), name))


class Missing(NamedTuple):
    """Something of a paper that is not computed anew, whole or in part."""

    paper: str
    what: str
    why: str


BOTH = ("small", "paper")
THREE = ("small", "middle", "paper")
"""Where the paper's own size takes hours on one GPU, a middle one takes minutes."""
THEN_TRAINED = ("theory", *BOTH)
"""What can be had without training, first; the other scales add the rows that need it."""

PSFL = "PSFL, INFOCOM 2025"
NOIDLE = "No One Idles, ICML 2023"
PFEDAVG = "P-FedAvg, ToN 2022"
DADPFL = "DA-DPFL, TNNLS"


LAST = {
    "psfl-fig3": "2026-11-15 b3078ec",
    "psfl-fig7": "2026-11-16 935003d",
    "psfl-fig8": "2026-11-16 131c365",
    "psfl-fig9": "2026-11-16 3f10b09",
    "psfl-structures": "2026-11-16 935003d",
    "pfedavg-fig4": "2026-11-16 131c365",
    "pfedavg-fig5": "2026-11-16 131c365",
    "pfedavg-fig6": "2026-11-15 0817b49",
    "pfedavg-fig7": "2026-11-15 0817b49",
    "pfedavg-fig8": "2026-11-15 0817b49",
    "pfedavg-graphs": "2026-11-16 131c365",
}
"""Days and commits of the last runs with `--scale paper` (docs/findings.md). No other entry was run at that scale."""


def _entries(paper: str, prefix: str, *rows: tuple[str, str, str, tuple[str, ...], tuple[str, ...]]) -> list[Entry]:
    """Of one paper: the rest of the ID, the title, where its function is, what it shows, and its scales."""
    package = f"paceline.papers.{prefix}"
    return [
        Entry(
            name := f"{prefix}-{id}", title, paper, f"{package}.{at}", scales, shows,
            LAST.get(name, "never" if "paper" in scales else ""),
        )
        for id, title, at, shows, scales in rows
    ]  # fmt: skip


ENTRIES = (
    *_entries(
        PSFL,
        "psfl",
        ("table1", "the optimal structure over the number of clients", "theory:table1", ("Table I",), THEN_TRAINED),
        ("fig1", "rounds of SFL, FedAvg and PSFL with 9 clients", "rounds:fig1", ("Figure 1",), THEN_TRAINED),
        ("fig2", "a round of sequences abreast, and who waits in it", "pictured:fig2", ("Figure 2",), ()),
        (
            "fig3",
            "time to several accuracies; accuracy and loss at equal time",
            "trained:fig3",
            ("Figure 3", "Figure 4", "Figure 5"),
            BOTH,
        ),
        ("fig6", "round time under three ways of sampling", "rounds:fig6", ("Figure 6",), ()),
        ("fig7", "the cost over the sequence length", "theory:fig7", ("Figure 7",), THEN_TRAINED),
        ("fig8", "accuracy at equal time on three other splits", "trained:fig8", ("Figure 8",), BOTH),
        ("fig9", "accuracy at equal time with more clients a round", "trained:fig9", ("Figure 9",), BOTH),
        ("cases", "the best width in the three cases of section V-B", "cases:cases", ("Section V-B",), ()),
        ("structures", "every structure at its best rate, and the chosen one", "contest:contest", (), BOTH),
    ),
    *_entries(
        NOIDLE,
        "noidle",
        ("fig1", "the pipelines, and who idles", "pipelines:pipelines", ("Figure 1", "Figure 2", "Figure 5"), ()),
        ("table1", "speed-ups of MIFA, SPFL and APFL over FedAvg", "times:table1", ("Table 1",), ()),
        ("table2", "speed-ups with a slow server and no stragglers", "times:table2", ("Table 2",), ()),
        ("fig3", "speed-ups over stragglers' absence and server time", "times:fig3", ("Figure 3",), ()),
        ("table1-accuracy", "five methods with screening, IID and not", "trained:table1", ("Table 1",), THREE),
        ("table2-accuracy", "distillation by local epochs", "trained:table2", ("Table 2",), THREE),
        ("fig4", "convergence with 20 devices", "trained:fig4", ("Figure 4",), THREE),
        ("architectures", "three architectures taught by all", "trained:architectures", (), BOTH),
        ("screening", "hostile devices, and what screening saves", "trained:screening", (), BOTH),
    ),
    *_entries(
        PFEDAVG,
        "pfedavg",
        ("p", "the consensus rate of five topologies of 9 servers", "theory:rates", ("Section VII-B",), ()),
        ("table2", "traffic of a round, FedAvg and five topologies", "times:table2", ("Table II",), ()),
        ("table3", "traffic, time and robustness of five topologies", "theory:table3", ("Table III",), ()),
        ("table4", "parameters and sizes of the three models", "models:table4", ("Table IV",), ()),
        ("table5", "time of a global iteration of four methods", "times:table5", ("Table V",), ()),
        ("theorems", "the bounds beside runs on a quadratic", "bounds:theorems", ("Theorem 1", "Theorem 2"), ()),
        ("fig2", "the speed-up of servers by order statistics", "speedup:fig2", ("Figure 2", "Theorem 3"), ()),
        ("fig3", "the five topologies, drawn and counted", "models:fig3", ("Figure 3",), ()),
        ("fig4", "convergence on five topologies of servers", "trained:fig4", ("Figure 4",), BOTH),
        ("fig5", "FedAvg, P-FedAvg, HierFAVG and DPSGD per round", "methods:fig5", ("Figure 5",), BOTH),
        ("fig6", "the same methods over time", "methods:fig6", ("Figure 6",), BOTH),
        ("fig7", "time to an accuracy over capacities", "capacities:fig7", ("Figure 7",), BOTH),
        ("fig8", "convergence with three weightings", "trained:fig8", ("Figure 8",), BOTH),
        ("fig8-p", "the consensus rate of three weightings", "theory:fig8_rates", ("Figure 8",), ()),
        ("graphs", "twelve other graphs: p against all modes", "graphs:graphs", (), BOTH),
        ("weights", "weights best by p and by all modes", "weighted:weights", (), BOTH),
    ),
    *_entries(
        DADPFL,
        "dadpfl",
        ("fig1", "who waits for whom among six clients", "schedules:fig1", ("Figure 1",), ()),
        ("table1", "accuracy and costs of nine methods", "trained:table1", ("Table I", "Figure 2"), THREE),
        ("table2", "traffic and operations of all methods", "costs:table2", ("Table II",), ()),
        ("table3", "six methods on a ring and a complete graph", "trained:table3", ("Table III",), THREE),
        ("fig3", "cost in time and energy over θ, CIFAR-10", "energy:fig3", ("Figure 3",), ()),
        ("fig4", "cost in time and energy over θ, CIFAR-100", "energy:fig4", ("Figure 4",), ()),
        ("fig5", "score and sparsity over rounds; accuracy over M", "ablations:fig5", ("Figure 5",), THREE),
        ("fig6", "long runs to 80 % zeros, by thresholds", "ablations:fig6", ("Figure 6",), THREE),
        ("fig7", "accuracy over the wait cap N", "ablations:fig7", ("Figure 7",), THREE),
        ("frontier", "time to accuracies over N and link costs", "frontier:frontier", (), THREE),
        ("fig8", "the share of clients that start at once", "times:fig8", ("Figure 8", "Proposition 1"), ()),
        ("fig9", "the mean longest wait over neighbours", "times:fig9", ("Figure 9",), ()),
        ("theorem3", "the terms of the bound, and what reuse does to it", "bounds:theorem3", ("Theorem 3",), ()),
    ),
)  # fmt: skip

FILES = "runs where its files are (`paceline data` says how to get them)"
MISSING = (
    Missing(PSFL, "Figures 3 to 5 on CIFAR-100", FILES),
    Missing(
        NOIDLE,
        "Tables 1 and 2, accuracies on Tiny-ImageNet",
        FILES,
    ),
    Missing(PFEDAVG, "Figure 1", "a drawing of three servers in three cities, without numbers"),
    Missing(PFEDAVG, "Table I", "a list of symbols"),
    Missing(PFEDAVG, "Figures 5 and 6 on FEMNIST", FILES),
    Missing(PFEDAVG, "Table IV, milliseconds", "measured on a V100; they are inputs here"),
    Missing(PFEDAVG, "Figure 8, the graph", "not published; one like it is searched for (PF-E4)"),
    Missing(DADPFL, "Figure 1, lower half", "a flow chart of the steps DA-7 to DA-12, without numbers"),
    Missing(
        DADPFL,
        "CIFAR-100 in Table I and in Figures 2 and 7",
        FILES,
    ),
)
"""What is not computed anew, or only where its data are."""
