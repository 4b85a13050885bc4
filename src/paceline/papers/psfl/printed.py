"""What PSFL (Zhou et al., INFOCOM 2025) prints, and what an independent simulation gave where it shows a picture."""

from __future__ import annotations

TABLE1 = {10: (2.18, 4.59), 20: (3.48, 5.74), 50: (6.54, 7.65), 100: (10.56, 9.47), 200: (16.95, 11.73)}
"""Table I, theoretical: participants to (S, W)."""
TABLE1_TRAINED = {10: (3, 3), 20: (4, 5), 50: (7, 7), 100: (10, 10), 200: (25, 8)}
"""Table I, experimental: participants to (S, W)."""
CRITICAL = 2.245
"""Section V-B, case 2: b/a above which the best width is said to be above √e."""
SLOWER = 4.0
"""Figure 1: a round of SFL takes more than so many rounds of FedAvg."""

REFERENCE_FIG6 = {
    (3, 7): {"uniform": 12.0, "weighted": 9.7, "partition": 9.8},
    (4, 5): {"uniform": 14.4, "weighted": 11.4, "partition": 12.0},
    (5, 4): {"uniform": 16.8, "weighted": 13.1, "partition": 13.9},
    (4, 20): {"uniform": 17.2, "weighted": 14.4, "partition": 13.2},
}
"""Figure 6, discrete law: (S, W) to mean seconds of a round, to one decimal."""
REFERENCE_FIG1 = {"SFL": 22.5, "FedAvg": 5.41, "PSFL": 8.86, "ratio": 4.16}
"""Figure 1: mean seconds of a round with 9 clients, and SFL over FedAvg."""
