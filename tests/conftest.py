"""One thread a test process: several processes share the cores, and spinning threads would starve each other.

No deadlines for Hypothesis either: on a busy machine an example takes as long as it takes. A failure prints
how to repeat it.
"""

import gc
import os

import pytest
from hypothesis import settings

EXAMPLES = int(os.environ.get("PACELINE_EXAMPLES", "12"))
"""Of each property; `make test-slow` asks for more."""
os.environ.setdefault("PACELINE_THREADS", "1")
os.environ.setdefault("OMP_NUM_THREADS", "1")
settings.register_profile("paceline", deadline=None, print_blob=True, max_examples=EXAMPLES)
settings.load_profile("paceline")


def pytest_configure(config):
    """Warnings are errors in tests (pyproject.toml), but for one that says that something is slow."""
    config.addinivalue_line("filterwarnings", "ignore::paceline.errors.SlowerWay")


ASKED_FOR = ("slow", "federation", "browser", "trackers")
"""Marks of what is for whoever asks for it: `make test-slow`, `make test-federation`, `make test-browser`,
`make test-trackers`."""


def pytest_collection_modifyitems(config, items):
    """What is marked runs when its mark is named."""
    unasked = [mark for mark in ASKED_FOR if mark not in config.option.markexpr]
    left = [item for item in items if any(item.get_closest_marker(mark) for mark in unasked)]
    if left:
        config.hook.pytest_deselected(items=left)
        items[:] = [item for item in items if item not in left]


def pytest_collection_finish():
    """What is imported by now stays: the collector need not walk over it again and again in every test."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(100_000, 20, 50)


@pytest.fixture(scope="session")
def browser():
    """One for all tests of pages: two at a time cannot be driven from one process."""
    from tests.ui.browsing import a_browser

    with a_browser() as found:
        yield found
