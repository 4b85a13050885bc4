"""Run directories as the simulator leaves them, written by the tests themselves."""

import json

import numpy as np
import pytest
from report_samples import federated_spans, write_spans


@pytest.fixture
def write_run(tmp_path):
    """A function that writes one run directory and returns its path."""

    def write(algorithm="fedavg", seed=0, *, rounds=12, clients=8, spans=True, target=0.8, **settings):
        suffix = "".join(f"-{value}" for value in settings.values())
        path = tmp_path / f"{algorithm}-{seed}{suffix}".replace("<", "").replace("/", "")
        path.mkdir()
        rng = np.random.default_rng(seed)
        rate = 4 + len(algorithm) + rng.uniform(0, 2)
        times = np.cumsum(rng.uniform(5, 8, rounds))
        accuracy = 0.9 * (1 - np.exp(-np.arange(1, rounds + 1) / rate)) + rng.normal(0, 0.01, rounds)
        held = {
            "algorithm": algorithm,
            "seed": seed,
            "dataset": "digits",
            "fleet": {"size": clients},
            **settings,
        }
        (path / "settings.json").write_text(json.dumps(held))
        lines = [
            {"round": r, "time": times[r], "visits": clients * (r + 1), "bytes": 4e5 * clients * (r + 1),
             "accuracy": accuracy[r], "loss": 2.3 * (1 - accuracy[r])}
            for r in range(rounds)
        ]  # fmt: skip
        (path / "metrics.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
        reached = np.flatnonzero(accuracy >= target) if target else []
        first = int(reached[0]) if len(reached) else None

        def hit(column):
            return None if first is None else lines[first][column]

        summary = {
            "algorithm": algorithm, "seed": seed, "status": "done", "rounds": rounds, "time": times[-1],
            "visits": clients * rounds, "bytes": lines[-1]["bytes"], "busiest_bytes": lines[-1]["bytes"] / 2,
            "joules": None, "idle_share": 0.31, "accuracy": accuracy[-1], "seconds": 1.5,
            "target": target and {"accuracy": target, "time": hit("time"), "bytes": hit("bytes"),
                                  "rounds": hit("round"), "idle_share": 0.3},
        }  # fmt: skip
        (path / "summary.json").write_text(json.dumps(summary))
        if spans:
            write_spans(path / "spans.parquet", federated_spans(clients, rounds, seed))
        return path

    return write
