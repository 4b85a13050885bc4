"""Workers that are threads of this process: the same words and bytes as with processes, without their start."""

import contextlib
import os
import threading

from paceline.learn.cohort.trainer import CohortTrainer
from paceline.runs.worker import prepare
from paceline.worlds.local.worker import serve

ONE = threading.Lock()


def _prepared(words):
    return one_at_a_time(lambda: prepare(words))


def one_at_a_time(make):
    """Threads share networks, and whoever compiles one tries it out."""
    with ONE:
        problem = make()
        for space in problem.spaces:
            CohortTrainer("cpu", 1, 1).prepare(space)
        return problem


class Thread:
    """A host that ends when its socket does."""

    pid = os.getpid()

    def __init__(self, theirs):
        self._socket = theirs.dup()
        self._thread = threading.Thread(target=self._serve, daemon=True)
        self._thread.start()

    def _serve(self):
        with contextlib.suppress(OSError), self._socket:
            serve(self._socket, _prepared)

    def poll(self):
        return None if self._thread.is_alive() else 0

    def kill(self):
        with contextlib.suppress(OSError):
            self._socket.shutdown(2)

    def wait(self):
        self._thread.join()
        return 0
