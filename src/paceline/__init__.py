"""Scheduled federated learning: who trains when, who waits for whom, who averages with whom.

Rooms, each importing only those before it: errors, seeds, config; clock; system; data; learn; ledger; algorithms;
worlds; report; cli. ``tests/test_rooms.py`` holds the order.
"""

from paceline.algorithms.base import Dropped, Progress, World
from paceline.algorithms.fedasync import FedAsync
from paceline.algorithms.fedbuff import FedBuff
from paceline.algorithms.psfl import PSFL
from paceline.errors import PacelineError
from paceline.learn.graph import Model, combine, mean
from paceline.learn.models import to_groupnorm
from paceline.learn.recipe import LocalSGD
from paceline.worlds.experiment import Experiment, Outcome, perform, plan
from paceline.worlds.settings import Settings, make_settings
from paceline.worlds.until import Until

__version__ = "0.1.0"
__all__ = [
    "PacelineError",
    "LocalSGD",
    "Model",
    "mean",
    "combine",
    "to_groupnorm",
    "World",
    "Progress",
    "Dropped",
    "PSFL",
    "FedAsync",
    "FedBuff",
    "Settings",
    "make_settings",
    "Until",
    "Experiment",
    "Outcome",
    "plan",
    "perform",
]
