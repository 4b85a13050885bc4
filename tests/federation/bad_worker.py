"""A resident worker that trains as it should and sends something else: in every visit another thing that is wrong."""

import sys

from paceline.federation import joining, resident
from paceline.worlds.local.frames import Frame
from tests.federation.test_refusing import BAD

KINDS = ("NaN", "shape", "huge", "norm")


class Bad(resident.Resident):
    """Spoils whatever models it sends."""

    sent = 0

    def answer(self, frame):
        reply = super().answer(frame)
        if not reply.blobs:
            return reply
        change, _ = BAD[KINDS[Bad.sent % len(KINDS)]]
        Bad.sent += 1
        return Frame(reply.words, tuple(map(change, reply.blobs)))


def join(file):
    """``paceline join`` with this worker in the place of the usual one."""
    usual = joining.node_children

    def children(config, path):
        worker, supernode = usual(config, path)
        worker._command = [sys.executable, "-m", "tests.federation.bad_worker", "worker", str(path)]
        return [worker, supernode]

    joining.node_children = children
    joining.join(file, print)


if __name__ == "__main__":
    from pathlib import Path

    if sys.argv[1] == "worker":
        resident.Resident = Bad
        resident.main(sys.argv[2:])
    else:
        join(Path(sys.argv[2]))
