"""What No One Idles (ICML 2023) prints; the numbers flow nowhere but into the column *paper*."""

from __future__ import annotations

DATASETS = ("MNIST", "CIFAR-10", "Tiny-ImageNet")

SPEEDUPS = {
    "dga": (1.0, 1.0, 1.0),
    "mifa": (1.57, 1.86, 1.98),
    "spfl": (1.22, 1.30, 1.33),
    "apfl": (2.20, 3.28, 3.91),
}
"""Table 1: speed-ups over FedAvg on the three datasets."""
ROUNDS = {
    "MNIST, 5 epochs": (4, 5, 9, 5, 1.80),
    "MNIST, 10 epochs": (7, 5, 12, 7, 1.71),
    "MNIST, 15 epochs": (11, 5, 16, 11, 1.45),
    "CIFAR-10, 5 epochs": (19, 20, 39, 20, 1.95),
    "CIFAR-10, 10 epochs": (38, 20, 58, 38, 1.53),
    "CIFAR-10, 15 epochs": (60, 20, 80, 60, 1.33),
    "Tiny-ImageNet, 5 epochs": (185, 180, 365, 185, 1.97),
    "Tiny-ImageNet, 10 epochs": (375, 180, 555, 375, 1.48),
    "Tiny-ImageNet, 15 epochs": (563, 180, 743, 563, 1.32),
}
"""Table 2: T_l and T_g as measured, taken over; seconds of FedAvg and of PFL and the speed-up, which we compute."""
FIGURE_3 = {("waits", "apfl", 5.0): 5.56, ("waits", "mifa", 5.0): 3.16, ("servers", "apfl", 1.0): 2.52}
"""Figure 3: (sweep, method, ratio) to the speed-ups that the text names."""

SCREENED = {
    ("mnist", "iid"): {"fedavg": 93.21, "dga": 92.12, "mifa": 92.88, "spfl": 93.14, "apfl": 93.08},
    ("mnist", "non-iid"): {"fedavg": 85.31, "dga": 83.72, "mifa": 84.73, "spfl": 85.26, "apfl": 85.13},
    ("cifar10", "iid"): {"fedavg": 85.41, "dga": 83.72, "mifa": 85.14, "spfl": 85.57, "apfl": 85.34},
    ("cifar10", "non-iid"): {"fedavg": 75.26, "dga": 73.24, "mifa": 74.78, "spfl": 75.31, "apfl": 75.46},
    ("tiny-imagenet", "iid"): {"fedavg": 59.52, "dga": 58.11, "mifa": 59.24, "spfl": 60.21, "apfl": 60.18},
    ("tiny-imagenet", "non-iid"): {"fedavg": 48.14, "dga": 46.26, "mifa": 47.12, "spfl": 48.31, "apfl": 48.07},
}
"""Table 1: accuracy in percent."""
_DISTILLED = {
    ("mnist", "5 epochs"): (99.31, 99.18),
    ("mnist", "10 epochs"): (98.17, 98.09),
    ("mnist", "15 epochs"): (96.13, 96.24),
    ("cifar10", "5 epochs"): (89.22, 89.13),
    ("cifar10", "10 epochs"): (87.81, 87.76),
    ("cifar10", "15 epochs"): (86.48, 86.37),
    ("tiny-imagenet", "5 epochs"): (62.88, 62.79),
    ("tiny-imagenet", "10 epochs"): (60.13, 60.06),
    ("tiny-imagenet", "15 epochs"): (57.25, 57.22),
}
TABLED = "apfl, table"
"""APFL whose server keeps every device's last model, as the reference code does (NI-E12)."""
DISTILLED = {
    place: {"fedavg": fedavg, "spfl": pfl, "apfl": pfl, TABLED: pfl} for place, (fedavg, pfl) in _DISTILLED.items()
}
"""Table 2: accuracy in percent of FedAvg and of PFL by local epochs; the paper does not say which PFL it is."""
