"""Datasets, partitions, per-client views."""

from paceline.data.dataset import Dataset, save_npz
from paceline.data.partition import Partition, Scheme, Skew, parse_partition
from paceline.data.registry import Entry, Report, catalogue, load, verify
from paceline.data.views import group_test_sets, personal_test_sets

__all__ = [
    "Dataset",
    "Entry",
    "Partition",
    "Report",
    "Scheme",
    "Skew",
    "catalogue",
    "group_test_sets",
    "load",
    "parse_partition",
    "personal_test_sets",
    "save_npz",
    "verify",
]
