"""What each test touches of the sources, and runs of tests in a given order: plugins of pytest."""

import json
import os
import sys
import threading
import time
from collections import defaultdict
from pathlib import Path

import pytest

STARTS = {"subprocess.Popen", "os.fork", "os.forkpty", "os.posix_spawn", "os.system"}


PATIENCE = 15
"""Calls of a function without a new line, in one test, after which its lines are watched no longer, to save time."""


class Tracer:
    """The lines of functions below a folder that run between ``begin`` and ``end``."""

    def __init__(self, source):
        self.source = os.path.realpath(source) + os.sep
        self.foreign = {}  # codes by their id, which stay alive so that no other code gets this id
        self.begin()

    def begin(self):
        """Forget what was seen, and return a function for ``sys.settrace``."""
        source, foreign, watched = self.source, self.foreign, {}

        def called(frame, event, argument):
            code = frame.f_code
            key = id(code)
            if key in foreign:
                return None
            if key not in watched:
                if not code.co_filename.startswith(source):
                    foreign[key] = code
                    return None
                watched[key] = [code, lines_of(code) - {frame.f_lineno}, PATIENCE]
            watch = watched[key]
            if not watch[1] or watch[2] < 0:
                return None
            watch[2] -= 1
            return inside

        def inside(frame, event, argument):
            if event == "line":
                watch = watched[id(frame.f_code)]
                if frame.f_lineno in watch[1]:
                    watch[1].discard(frame.f_lineno)
                    watch[2] = PATIENCE
                frame.f_trace_lines = bool(watch[1])
            return inside

        self.watched = watched
        return called

    def end(self):
        """Of each file, the lines that were seen, and negative, those that may have run unseen."""
        found = defaultdict(set)
        for code, left, patience in self.watched.values():
            unseen = {-line for line in left} if patience < 0 else set()
            found[code.co_filename.removeprefix(self.source)] |= (lines_of(code) - left) | unseen
        return {name: sorted(lines) for name, lines in found.items()}


def lines_of(code):
    return {line for *_, line in code.co_lines() if line}


class Measuring:
    """Writes a JSON file for each test file: the lines that each test touches, and what else is to be known of it.

    That is its CPU seconds, whether it starts processes (what those touch is not seen), and whether it passes.
    """

    def __init__(self, folder, source):
        self.folder, self.tracer = Path(folder), Tracer(source)
        self.found, self.starts, self.failed = defaultdict(dict), False, False

    def pytest_configure(self):
        sys.addaudithook(self.heard)

    def heard(self, event, arguments):
        self.starts |= event in STARTS

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item):
        self.starts = self.failed = False
        called, before = self.tracer.begin(), spent()
        threading.settrace(called)
        sys.settrace(called)
        try:
            return (yield)
        finally:
            sys.settrace(None)
            threading.settrace(None)
            self.found[item.location[0]][item.nodeid] = {
                "seconds": round(spent() - before, 3),
                "starts": self.starts,
                "passed": not self.failed,
                "lines": self.tracer.end(),
            }

    def pytest_runtest_logreport(self, report):
        self.failed |= not report.passed

    def pytest_sessionfinish(self):
        for name, tests in self.found.items():
            (self.folder / f"{name.replace('/', '.')}.json").write_text(json.dumps(tests))


class Ordering:
    """Runs the tests of a list, in its order, each with its own limit of seconds."""

    def __init__(self, limits):
        self.limits = limits

    @pytest.hookimpl(trylast=True)
    def pytest_collection_modifyitems(self, items):
        found = {item.nodeid: item for item in items}
        items[:] = [found[name] for name in self.limits if name in found]
        for item in items:
            item.add_marker(pytest.mark.timeout(self.limits[item.nodeid]))


def spent():
    """CPU seconds of this process and of those that it has waited for, which do not depend on who else is busy."""
    times = os.times()
    return time.process_time() + times.children_user + times.children_system
