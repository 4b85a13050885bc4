"""What DA-DPFL (TNNLS) prints; where its numbers are inputs of ours, the rows say so."""

from __future__ import annotations

METHODS = ("fedavg", "ditto", "feddst", "gossipfl", "dfedavgm", "dispfl", "beer", "dfedsam", "da-dpfl")
"""In the order of Table I."""
SERVED = METHODS[:3]
"""Those with a server (CFL)."""
PEERS = METHODS[3:]
"""Those without one (DFL)."""
_TABLE1 = {
    ("ham10000", "Dir"): (65.92, 65.19, 66.11, 72.92, 68.30, 71.56, 69.80, 73.74, 76.32),
    ("ham10000", "Pat"): (55.68, 80.17, 55.07, 88.05, 88.89, 80.09, 88.75, 88.47, 88.36),
    ("cifar10", "Dir"): (79.30, 73.21, 78.47, 66.43, 65.05, 85.85, 62.94, 75.74, 89.08),
    ("cifar10", "Pat"): (60.09, 85.78, 56.32, 86.60, 85.34, 90.45, 85.48, 83.51, 91.87),
    ("cifar100", "Dir"): (46.21, 34.83, 46.01, 45.09, 24.11, 51.05, 27.79, 47.86, 53.53),
    ("cifar100", "Pat"): (41.26, 64.41, 41.42, 66.03, 57.41, 72.22, 58.71, 71.76, 74.91),
}
TABLE1 = {place: dict(zip(METHODS, row, strict=True)) for place, row in _TABLE1.items()}
"""DA-T1: accuracy in percent."""

DENSE, SPARSE, HALF, SAM = "FedAvg, Ditto", "FedDST, DisPFL", "GossipFL, DFedAvgM, BEER", "DFedSAM"
DIR, PAT = "DA-DPFL Dir", "DA-DPFL Pat"
TABLE2 = {
    DENSE: {"HAM10000": (887.8, "3.6"), "CIFAR-10": (426.3, "8.3"), "CIFAR-100": (353.3, "2.3")},
    SPARSE: {"HAM10000": (443.8, "2.0"), "CIFAR-10": (223.1, "7.1"), "CIFAR-100": (176.7, "1.6")},
    HALF: {"HAM10000": (443.8, "3.6"), "CIFAR-10": (223.1, "8.3"), "CIFAR-100": (176.7, "2.3")},
    SAM: {"HAM10000": (887.8, "7.2"), "CIFAR-10": (426.3, "17"), "CIFAR-100": (353.3, "4.6")},
    DIR: {"HAM10000": (346.2, "1.9"), "CIFAR-10": (149.1, "4.1"), "CIFAR-100": (107.7, "1.0")},
    PAT: {"HAM10000": (394.4, "2.0"), "CIFAR-10": (115.1, "3.8"), "CIFAR-100": (94.8, "0.9")},
}
"""DA-T2: MB of the busiest node and 1e12 operations of training; methods with the same numbers together."""
ZEROS = {
    DIR: {"HAM10000": 0.61, "CIFAR-10": 0.65, "CIFAR-100": 0.70},
    PAT: {"HAM10000": 0.56, "CIFAR-10": 0.73, "CIFAR-100": 0.73},
}
"""Shares of zeros at the end of training (DA-E2): inputs of what is computed without training."""
NAMES = {"cifar10": "CIFAR-10", "cifar100": "CIFAR-100", "ham10000": "HAM10000"}


def load(data: str, split: str, method: str) -> tuple[float | None, str]:
    """A method's cell of Table II, empty where there is none."""
    group = next((name for name in (DENSE, SPARSE, HALF, SAM) if method in name.lower().split(", ")), "")
    return TABLE2[group or f"DA-DPFL {split}"].get(NAMES.get(data, ""), (None, ""))


def zeros(data: str, split: str) -> dict[str, float]:
    """Table I's sparsities: nothing of what is dense, half of what is sparse, and DA-DPFL's as printed."""
    if data not in NAMES:
        return {}
    fixed = {method: 0.5 if method in ("dispfl", "feddst") else 0.0 for method in METHODS}
    return fixed | {"da-dpfl": ZEROS[f"DA-DPFL {split}"][NAMES[data]]}


_TABLE3 = {"ring": (66.12, 65.89, 67.65, 62.92, 66.61, 69.83), "complete": (71.22, 69.89, 86.54, 68.77, 79.63, 89.11)}
TABLE3 = {graph: dict(zip(PEERS, row, strict=True)) for graph, row in _TABLE3.items()}
"""DA-T3: accuracy in percent on CIFAR-10, Dir(0.3)."""
TABLE3_ZEROS = {"ring": 0.65, "complete": 0.68}
FIGURE_1: dict[int, dict[int, tuple[int, ...]]] = {
    0: {},
    1: {3: (2,), 5: (1,), 6: (1,)},
    2: {3: (2,), 5: (1,), 6: (1, 5)},
}
"""Under each wait cap N, for whom each client waits, of those who wait."""
FIGURE_6 = {"da-dpfl": 89.0, "dispfl": 83.27}
FIGURE_7 = {"cifar10": 1.87, "cifar100": 1.41}
"""Points from N = 0 to N = 10 (DA-T4)."""
