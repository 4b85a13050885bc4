import pytest

from paceline.federation import courier


@pytest.fixture(autouse=True)
def quick(monkeypatch):
    """Nobody far away is asked: look often."""
    monkeypatch.setattr(courier, "POLL", 0.002)
    monkeypatch.setattr(courier, "LOOK", 0.05)
