"""The program of a worker process: it makes the problem from the run's settings and answers for its devices."""

from __future__ import annotations

import socket
import sys

import torch

from paceline.runs.making import prepared
from paceline.runs.settings import settings_from
from paceline.worlds.local.expressions import Words
from paceline.worlds.local.worker import serve
from paceline.worlds.problem import Problem


def prepare(words: Words) -> Problem:
    """The problem of the run whose settings these are."""
    return prepared(settings_from(words["settings"]))[2]


def main(arguments: list[str]) -> None:
    """Started with the number of a socket that was handed down."""
    torch.set_num_threads(1)
    with socket.socket(fileno=int(arguments[0])) as connection:
        serve(connection, prepare)


if __name__ == "__main__":
    main(sys.argv[1:])
