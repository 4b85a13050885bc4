from importlib.util import find_spec

import pytest

collect_ignore_glob = [] if find_spec("flwr") else ["test_*.py", "deploy/test_*.py"]
"""Flower is an extra."""


@pytest.fixture(autouse=True)
def quick(monkeypatch):
    """Nobody far away is asked: look often."""
    from paceline.federation import courier

    monkeypatch.setattr(courier, "POLL", 0.002)
    monkeypatch.setattr(courier, "LOOK", 0.05)
