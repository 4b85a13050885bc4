"""A process that has imported everything and makes others of itself: commands start at once, and can be killed.

Each line on its input is a command: a directory, words, when it dies, where it speaks, and its environment. It
answers with how that ended. A child dies by its own hand, by what it has done and not by the clock, so that a busy
machine changes nothing: when it has written so many new lines of metrics (or entries of its journal: then its workers
are threads that die with it), and then at once, or so many seconds later if it has not ended by then. Its hash seed
is that of this process. It hears signals as a command in a terminal does, also under nohup and in the background, but
for those that it is told to ignore.
"""

import json
import os
import signal
import sys
import threading
import time
from functools import partial

import paceline.report.page  # noqa: F401  # imported here so that no child has to
from paceline.cli.main import main
from paceline.ledger.directory import RunDirectory
from paceline.runs import performing
from paceline.runs.local import make_local_run
from paceline.runs.problem import tensors_once
from paceline.worlds.local.journal import Journal
from tests.worlds.threads import Thread

tensors_once("digits")


def mortal(lines, delay, by, ignored=()):
    """Make this process one that ends itself."""
    written, write = 0, RunDirectory.metric
    for number in ignored:
        signal.signal(number, signal.SIG_IGN)

    def end_later():
        time.sleep(delay)
        os.kill(os.getpid(), by)

    def end():
        if delay:
            threading.Thread(target=end_later, daemon=True).start()
        else:
            os.kill(os.getpid(), by)

    def counted(self, row):
        nonlocal written
        is_new = write(self, row)
        written += is_new
        if is_new and written == lines:
            end()
        return is_new

    RunDirectory.metric = counted
    if lines == 0:
        end()


def mortal_after(entries):
    """Make this process one that ends itself in the middle of a run on the wall clock."""
    written, write = 0, Journal.add
    performing.make_local_run = partial(make_local_run, launch=Thread)

    def counted(self, entry):
        nonlocal written
        is_new = entry.act not in self._past
        write(self, entry)
        written += is_new
        if written == entries:
            os.kill(os.getpid(), signal.SIGKILL)

    Journal.add = counted


def child(directory, words, dies, said, environment):
    os.chdir(directory)
    sys.path.insert(0, str(directory))  # as ``python -m`` has it
    os.environ |= environment
    signal.signal(signal.SIGINT, signal.default_int_handler)
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_DFL)
    if dies is not None:
        mortal_after(**dies) if "entries" in dies else mortal(**dies)
    one, other = said
    with open(one, "a", encoding="utf-8") as out, open(other, "a", encoding="utf-8") as err:
        os.dup2(out.fileno(), 1)
        os.dup2(err.fileno(), 2)
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
    pid = os.fork()
    if not pid:
        child(*json.loads(line))
    print(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), flush=True)
