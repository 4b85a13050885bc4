"""What work takes in calls and bytes, which are the same on a busy machine and on an idle one, unlike seconds."""

import sys
import tracemalloc


def calls(work):
    """How many functions, of Python and of C, are called meanwhile."""
    count = 0

    def see(frame, event, argument):
        nonlocal count
        count += event in ("call", "c_call")

    before = sys.getprofile()
    sys.setprofile(see)
    try:
        work()
    finally:
        sys.setprofile(before)
    return count


def most_bytes(work):
    """The most memory that what is made meanwhile takes at one time; arrays of numpy count."""
    tracemalloc.start()
    try:
        work()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
