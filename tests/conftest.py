"""One thread a test process: several processes share the cores, and spinning threads would starve each other.

No deadlines for Hypothesis either: on a busy machine an example takes as long as it takes. All else is as it has it,
here or where it finds itself in CI.
"""

import os

from hypothesis import settings

os.environ.setdefault("PACELINE_THREADS", "1")
os.environ.setdefault("OMP_NUM_THREADS", "1")
settings.register_profile("paceline", deadline=None, print_blob=True)
settings.load_profile("paceline")


def pytest_configure(config):
    """Warnings are errors in tests (pyproject.toml), but for one that says that something is slow."""
    config.addinivalue_line("filterwarnings", "ignore::paceline.errors.SlowerWay")
