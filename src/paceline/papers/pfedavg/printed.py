"""What P-FedAvg (ToN 2022) prints; where one of its numbers is fitted to, the rows say so."""

from __future__ import annotations

SERVERS = 9

P = {"complete": 1.0, "torus": 0.84, "tree": 0.12, "ring": 0.29, "barbell": 0.08}
"""PF-T1, as printed."""
LINKS: dict[str, tuple[int, int]] = {
    "complete": (SERVERS - 1, SERVERS * (SERVERS - 1) // 2),
    "torus": (4, 2 * SERVERS),
    "tree": (3, SERVERS - 1),
    "ring": (2, SERVERS),
    "barbell": (3, 3 * 2 + 3 + 1),
}
"""Table III's terms for 9 servers: links of the busiest server, and links in all (m1 = m2 = 3 for the barbell)."""
TOLERANCE = {"complete": SERVERS - 1, "torus": 4, "tree": 1, "ring": 2, "barbell": 1}
ORDER = {"complete": 0, "torus": -1, "tree": -1, "ring": -2, "barbell": -3}
"""The exponent of M in the order of p."""
FIGURE_8 = {"optimal": 0.4036, "uniform": 0.2418, "random": 0.0288}
TABLE4 = {"MNIST": (406, 13, 2.38), "FEMNIST": (6603, 211, 4.99), "CIFAR-10": (2156, 69, 23.25)}
"""Thousands of parameters, megabits, and milliseconds of an iteration on the paper's GPU."""
TABLE5 = {
    "MNIST": (6190, 3672, 4657, 2137, 3023, 3146),
    "FEMNIST": (90940, 40559, 57293, 37039, 39347, 54160),
    "CIFAR-10": (31144, 16034, 21206, 11992, 14372, 14655),
}
"""Milliseconds per global iteration, in the order of METHODS."""
