import pytest


@pytest.fixture(autouse=True)
def cache(monkeypatch, tmp_path_factory):
    """Nobody's cache but the test's own."""
    where = tmp_path_factory.mktemp("cache")
    monkeypatch.setenv("PACELINE_CACHE", str(where))
    return where
