"""Work in several threads, of which the caller is one."""

import threading
import time

import pytest

from paceline.learn.cohort.threads import Threads


@pytest.mark.parametrize("count", [1, 2, 5])
@pytest.mark.parametrize("items", [0, 1, 2, 17])
def test_results_are_in_the_order_of_the_items(count, items):
    assert Threads(count).map(lambda k: k * k, [*range(items)]) == [k * k for k in range(items)]


def test_the_caller_and_the_others_work_side_by_side():
    meeting, who = threading.Barrier(3, timeout=30), set()

    def work(_):
        who.add(threading.get_ident())
        meeting.wait()

    Threads(3).map(work, [0, 1, 2])  # three at once, or nobody gets on
    assert len(who) == 3 and threading.get_ident() in who


@pytest.mark.parametrize("mine", [True, False])
def test_an_error_ends_the_work(mine):
    caller, begun = threading.get_ident(), threading.Barrier(2, timeout=30)
    done = []

    def work(item):
        if item < 2:
            begun.wait()
            if (threading.get_ident() == caller) == mine:
                raise ValueError("this one")
        time.sleep(0.001)  # all of them would take minutes
        done.append(item)

    threads = Threads(2)
    with pytest.raises(ValueError, match="this one"):
        threads.map(work, [*range(100_000)])
    assert len(done) < 100_000 - 1  # not all that was left was begun
    assert threads.map(lambda k: -k, [3, 4]) == [-3, -4]  # and the threads live on
