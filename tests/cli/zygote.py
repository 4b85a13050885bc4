"""A process that has imported everything and makes others of itself: commands start at once, and can be killed.

Each line on its input is a command: a directory and words. It answers with the number of the process that carries it
out, and, when that has ended, with how. Its own hash seed is that of all its children.
"""

import json
import os
import sys

import paceline.report.page  # imported here so that no child has to
import paceline.runs.performing  # noqa: F401
from paceline.cli.main import main
from paceline.runs.problem import tensors_once

tensors_once("digits")


def child(directory, words):
    os.chdir(directory)
    with open("said.txt", "a", buffering=1, encoding="utf-8") as said:
        os.dup2(said.fileno(), 1)
        os.dup2(said.fileno(), 2)
        status = 0
        try:
            main(words)
        except SystemExit as ending:
            status = ending.code or 0
        except BaseException:
            import traceback

            traceback.print_exc()
            status = 99
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(status)


for line in sys.stdin:
    directory, words = json.loads(line)
    pid = os.fork()
    if not pid:
        child(directory, words)
    print(pid, flush=True)
    print(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), flush=True)
