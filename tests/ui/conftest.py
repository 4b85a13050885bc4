"""Run directories as any world leaves them, and a client of the application that serves them."""

import json
import warnings
from contextlib import ExitStack

import pytest

from paceline.ledger.lock import Lock
from paceline.ui.app import make_app
from paceline.ui.guarding import Gate

with warnings.catch_warnings():
    # Starlette would have its tests use a newer httpx; the one that is here does.
    warnings.simplefilter("ignore")
    from starlette.testclient import TestClient

HOST = "http://127.0.0.1:8181"


def rows(count, begin=0, rate=0.1):
    return [
        {"round": k + 1, "time": 10.0 * (k + 1), "visits": 20 * (k + 1), "bytes": 1000 * (k + 1), "idle_share": 0.25,
         "accuracy": 1 - 0.9 / (1 + rate * (k + 1)), "loss": 2.0 / (1 + rate * (k + 1))}
        for k in range(begin, begin + count)
    ]  # fmt: skip


def lines(some):
    return "".join(json.dumps(row) + "\n" for row in some)


def serve(root, host="127.0.0.1", planner=None, gate=None):
    """A client of an application that serves a directory."""
    return TestClient(make_app(root, gate or Gate(host), planner), base_url=HOST)


@pytest.fixture
def root(tmp_path):
    path = tmp_path / "runs"
    path.mkdir()
    return path


@pytest.fixture
def write_run(root):
    """A function that writes one run directory below the root."""

    def write(name="one", algorithm="fedavg", seed=0, status="done", count=10, target=None, **settings):
        path = root / name
        path.mkdir(parents=True)
        held = {
            "algorithm": algorithm,
            "seed": seed,
            "dataset": "digits",
            "clients": 100,
            "options": {"local": {"lr": 0.1}},
        }
        (path / "settings.json").write_text(json.dumps(held | settings))
        (path / "metrics.jsonl").write_text(lines(rows(count)))
        last = rows(count)[-1]
        summary = {
            "status": status,
            "rounds": count,
            "time": last["time"],
            "accuracy": last["accuracy"],
            "target": target,
        }
        (path / "summary.json").write_text(json.dumps(summary))
        return path

    return write


@pytest.fixture
def hold():
    """A function that makes a directory one into which this process writes."""
    with ExitStack() as held:
        yield lambda path: held.enter_context(Lock(path))


@pytest.fixture
def client(root):
    with serve(root) as made:
        yield made
