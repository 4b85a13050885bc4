"""Signals that ask a process to end: the first lets it finish, the second does not."""

import signal
import subprocess
import sys
import time

import pytest

from paceline.runs.stopping import Stopped, Stopping

ASKED = """
import os, signal, sys, time
from paceline.runs.stopping import Stopping

signal.signal(signal.SIGINT, signal.default_int_handler)
signal.signal(signal.SIGHUP, signal.SIG_DFL)
asked = [getattr(signal, name) for name in sys.argv[1:]]
with Stopping() as stopping:
    try:
        for number in asked:
            os.kill(os.getpid(), number)
        print("goes on", flush=True)
        stopping.check()
    finally:
        print("closes", flush=True)
"""


def ended(*names):
    """How a process ends that is asked to in these ways, and what it said until then."""
    done = subprocess.run([sys.executable, "-c", ASKED, *names], capture_output=True, text=True, check=False)
    return done.returncode, done.stdout


@pytest.mark.parametrize(("name", "status"), [("SIGTERM", 143), ("SIGINT", 130)])
def test_a_second_signal_ends_the_process_at_once(name, status):
    assert ended("SIGTERM", name) == (status, "")
    assert ended(name)[1] == "goes on\ncloses\n"


def test_a_terminal_that_closes_is_one_signal_though_it_comes_twice():
    assert ended("SIGHUP", "SIGHUP", "SIGHUP")[1] == "goes on\ncloses\n"
    assert ended("SIGHUP", "SIGTERM") == (143, "")


@pytest.mark.parametrize("patience", [0, 5.0])
def test_who_has_a_closed_terminal_ignored_goes_on(patience):
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)  # as nohup does
    try:
        with Stopping(patience=patience) as stopping:
            signal.raise_signal(signal.SIGHUP)
            stopping.check()
        assert signal.getsignal(signal.SIGHUP) == signal.SIG_IGN
    finally:
        signal.signal(signal.SIGHUP, before)


@pytest.fixture
def heard():
    """A terminal that closes is heard, also under nohup."""
    before = signal.signal(signal.SIGHUP, signal.SIG_DFL)
    yield
    signal.signal(signal.SIGHUP, before)


@pytest.mark.usefixtures("heard")
def test_handlers_are_put_back():
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)}
    with Stopping():
        assert all(signal.getsignal(number) != handler for number, handler in before.items())
    assert {number: signal.getsignal(number) for number in before} == before


def ask_and_wait():
    signal.raise_signal(signal.SIGTERM)
    signal.pause()


def test_patience_ends():
    with pytest.raises(Stopped) as stop, Stopping(patience=0.05):
        ask_and_wait()
    assert stop.value.status == 143


def test_who_ends_in_order_is_not_disturbed_while_it_closes():
    """Summaries of many runs take their time: the end of patience must not come in the middle of them."""
    closed = []

    def end(stopping):
        signal.raise_signal(signal.SIGTERM)
        try:
            stopping.check()
        finally:
            time.sleep(0.15)
            closed.append(True)

    with pytest.raises(Stopped), Stopping(patience=0.05) as stopping:
        end(stopping)
    assert closed


def test_who_has_no_patience_stops_at_once_but_in_order():
    with pytest.raises(Stopped) as stop, Stopping(patience=0):
        signal.raise_signal(signal.SIGINT)
    assert stop.value.status == 130
