"""Several questions at once: answers in order, problems told, and nobody is kept from ending."""

import subprocess
import sys
import threading

import pytest

from paceline.worlds.local import together as asking
from paceline.worlds.local.together import together


def test_all_are_asked_at_once_and_answered_in_order():
    meeting = threading.Barrier(5, timeout=60)
    assert together([lambda k=k: (meeting.wait(), k)[1] for k in range(5)]) == [0, 1, 2, 3, 4]
    assert together([]) == []


def test_more_than_may_be_asked_at_once_come_in_turn(monkeypatch):
    monkeypatch.setattr(asking, "AT_ONCE", 3)
    assert together([lambda k=k: k for k in range(20)]) == list(range(20))


def test_a_problem_is_told():
    with pytest.raises(ZeroDivisionError):
        together([lambda: 1, lambda: 1 // 0])


def test_who_is_interrupted_meanwhile_ends():
    words = (
        "import os, signal, threading, time\n"
        "signal.signal(signal.SIGINT, signal.default_int_handler)\n"  # a shell's background jobs begin without it
        "from paceline.worlds.local.together import together\n"
        "together([lambda: time.sleep(600), lambda: os.kill(os.getpid(), signal.SIGINT) or time.sleep(600)])\n"
    )
    ended = subprocess.run([sys.executable, "-c", words], capture_output=True, timeout=120, check=False)
    assert b"KeyboardInterrupt" in ended.stderr
