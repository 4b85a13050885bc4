"""What work takes in calls and bytes, which are the same on a busy machine and on an idle one, unlike seconds."""

import sys
import tracemalloc


def calls(work, *, turns=False):
    """How many functions, of Python and of C, are called meanwhile; with ``turns`` also those of comprehensions."""
    count = 0

    def see(frame, event, argument):
        nonlocal count
        count += event in ("call", "c_call")

    def turn(frame, event, argument):
        nonlocal count
        count += 1
        return turn if frame.f_code.co_name in ("<listcomp>", "<setcomp>", "<dictcomp>") else None

    before, traced = sys.getprofile(), sys.gettrace()
    sys.setprofile(see)
    sys.settrace(turn if turns else traced)
    try:
        work()
    finally:
        sys.setprofile(before)
        sys.settrace(traced)
    return count


def most_bytes(work):
    """The most memory that what is made meanwhile takes at one time; arrays of numpy count."""
    tracemalloc.start()
    try:
        work()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
