"""Fuzzing that is guided by coverage, of every parser of files and messages.

``python -m tests.fuzz.guided`` names the parsers, ``... NAME [SECONDS]`` tries one, and ``... NAME FILE`` tries again
what was found: a file ``crash-...``, ``timeout-...`` or ``oom-...`` in the current directory. It needs ``pip install
atheris``, and nothing else does. Inputs that reach new code are kept and changed further, so that it gets behind
headers that must be right, where Hypothesis seldom does.
"""

import io
import json
import pickle
import struct
import sys
import tempfile
from pathlib import Path

from tests.fuzz.hostile import CORPUS, explained

SECONDS = 60
LIMITS = ("-timeout=5", "-rss_limit_mb=3000", "-max_len=20000")
"""Of one input; torch and all that is imported take a part of the memory."""
CODE = ["paceline", "tomllib", "zipfile", "networkx.readwrite"]
"""Packages whose branches are counted."""


class Samples:
    """Right input of every kind, as bytes; what is kept of runs is written to a folder first."""

    def __init__(self, folder):
        import numpy as np
        import torch

        from paceline.ledger import checkpoints, spans, weights
        from paceline.runs.learned import Stop
        from paceline.worlds.local.frames import Frame, packed

        held = {
            0: checkpoints.Held(torch.tensor([0.0, 1.0, 0.5]), torch.tensor(0.5)),
            3: checkpoints.Held(torch.ones(9), None),
        }
        state = {"seconds": [1.0], "statistics": {}, "bytes": 3, "sha256": "x"}
        checkpoints.write_checkpoint(folder, 1, state, held)
        weights.write_weights(folder, {"global": torch.ones(7)})
        ledger = spans.Ledger(folder / "spans")
        ledger.train(0, 0.0, 1.0, 0, 5.0, 1.0)
        ledger.transfer(0, -1, 1.0, 2.0, 0, 10.0, 0.0)
        ledger.close()
        self.checkpoint = next(folder.glob("stop-*")).read_bytes()
        self.weights = (folder / "model.safetensors").read_bytes()
        self.spans = next((folder / "spans").glob("*.parquet")).read_bytes()
        results = [(0.5, [1], {"a": np.arange(3)})]
        self.learned = (
            Stop(made=3, times=[1.5], results=results, counts=[{"s": {1: 2}}], failures=[None]).line().encode()
        )
        self.frame = packed(Frame({"a": 1}, (b"xy", b"z")))
        self.answer = json.dumps({"answers": [{"id": "a", "words": {}, "blobs": 1}]}).encode() + b"\n"
        self.array = _written(np.save, np.frombuffer(b"abc", np.uint8))
        self.archive = _written(np.savez, np.zeros(2, np.uint8))
        batch = {b"data": np.zeros((1, 3072), np.uint8), b"labels": [3]}
        self.batches = [pickle.dumps(batch, protocol) for protocol in range(5)]
        self.leaf = _json(users=["a"], num_samples=[1], user_data={"a": {"x": [[0.5] * 784], "y": [3]}})

    idx = b"\0\0\x08\x03" + struct.pack(">3I", 1, 2, 2) + b"abcd"
    journal = b'{"what": "visit", "site": 0, "target": 0, "number": 1, "kept": [[0, 4]]}\n'
    run = (
        b'{"algorithm": "fedavg", "seed": 0, "options": {"rounds": 3}}\n--\n'
        b'{"status": "done", "notes": [{"time": 1, "sites": [1]}], "distributions": {"s": {"0": 2}}}\n--\n'
        b'{"round": 1, "time": 2.5, "accuracy": 0.5, "loss": null}\n'
    )
    manifest = (
        b'{"status": "done", "folders": ["."], "settings": [{"algorithm": "fedavg", "options": {}, "seed": 0}],'
        b' "until": {"time": 5}, "options": {"dry": true}, "keeping": {"every": 1}, "same": {}, "format": 1}'
    )
    node = b'[node]\nclient = 1\nsuperlink = "127.0.0.1:18000"\ninsecure = true\nstate = "~/x"\nkey = "k"\n'
    server = b'[federation]\nnodes = 3\n[superlink]\naddress = "localhost:18000"\nkeys = ["a"]\ninsecure = true\n'


def _written(write, array):
    file = io.BytesIO()
    write(file, array)
    return file.getvalue()


def _json(**words):
    return json.dumps(words).encode()


def harnesses(folder):
    """By name: examples of right input, and who reads it. Called where what it imports is prepared for counting."""
    from flwr.app import Array, ArrayRecord, ConfigRecord, RecordDict

    from paceline.algorithms.registry import ALGORITHMS
    from paceline.data.loaders import femnist, mnist, pickles
    from paceline.federation.config import read_node, read_server
    from paceline.federation.errands import answers_of
    from paceline.federation.records import from_records
    from paceline.ledger import checkpoints
    from paceline.ledger.spans import _rows_in
    from paceline.ledger.weights import read_weights
    from paceline.report.runs import group_runs, load_run
    from paceline.runs.keeper import Before, Keeping
    from paceline.runs.learned import Stop
    from paceline.runs.manifest import read_manifest
    from paceline.runs.until import Until
    from paceline.worlds.faults import parse_faults
    from paceline.worlds.local.frames import unpacked
    from paceline.worlds.local.journal import read_journal
    from tests.fuzz.test_files import READERS
    from tests.fuzz.test_settings import CASES, prepared

    samples = Samples(folder)
    checkpoints._digest = lambda tensors, header: "right"  # whoever changes a file can write its digest too

    def text(read):
        return lambda data: read(data.decode("utf-8", "replace").replace("\0", ""))

    def file(read, suffix=""):
        def go(data):
            path = folder / f"file{suffix}"
            path.write_bytes(data)
            read(path)

        return go

    def settings(said):
        algorithm, *words = said.splitlines() or [""]
        if not any("clients" in word or "fleet.file" in word for word in words):  # which may rightly take long
            prepared(algorithm if algorithm in ALGORITHMS else "fedavg", words[:6])

    def directory(data):
        parts = data.split(b"\n--\n", 2)
        for name, part in zip(("settings.json", "summary.json", "metrics.jsonl"), [*parts, b"", b""], strict=False):
            (folder / name).write_bytes(part)
        run = load_run(folder)
        _ = group_runs([run]), run.notes, run.distributions, run.dry, run.aimed, run.versions

    def manifest(data):
        (folder / "paceline.json").write_bytes(data)
        found = read_manifest(folder)
        _ = found.all_settings(folder, trust=False), found.limits(), found.said(), found.keeps()

    def weights(data):
        (folder / "model.safetensors").write_bytes(data)
        read_weights(folder)

    def records(data):
        words, _, blob = data.partition(b"\n")
        array = Array(dtype="uint8", shape=(len(blob),), stype="numpy.ndarray", data=blob)
        said = ConfigRecord({"json": words.decode("utf-8", "replace")})
        answers_of(from_records(RecordDict({"words": said, "blobs": ArrayRecord({"0": array})}), 1 << 20), "a")

    def corpus(kind):
        return [path.read_bytes() for path in sorted((CORPUS / kind).rglob("*")) if path.is_file()]

    cases = ["\n".join(case[1:]).encode() for case in CASES]
    return {
        "settings": ([b"fedavg\nlocal.lr=0.1\nrounds=3", b"psfl\nfleet.times=uniform", *cases], text(settings)),
        "until": ([b"accuracy=0.9\ntime=5"], text(lambda said: Until.parse(said.splitlines()))),
        "keeping": ([b"60,2GB", b"never"], text(Keeping.parse)),
        "faults": ([b"lost:0.1+late:0.1,5"], text(lambda said: parse_faults(said, 0))),
        "directory": ([samples.run], directory),
        "manifest": ([samples.manifest], manifest),
        "learned": ([samples.learned], text(Stop.read)),
        "journal": ([samples.journal], file(read_journal)),
        "checkpoint": ([samples.checkpoint], file(lambda path: Before.read(checkpoints._read(path).state, 1))),
        "weights": ([samples.weights], weights),
        "spans": ([samples.spans], file(_rows_in, ".parquet")),
        "frames": ([samples.frame], unpacked),
        "records": ([samples.answer + samples.array, samples.answer + samples.archive], records),
        "node": ([samples.node], file(read_node, ".toml")),
        "server": ([samples.server], file(read_server, ".toml")),
        "batches": (samples.batches, file(lambda path: pickles.read_batch(path, "labels"))),
        "idx": ([samples.idx], file(mnist.read_idx)),
        "leaf": ([samples.leaf], file(femnist._read_file)),
        "npz": (corpus("datasets"), file(READERS["datasets"], ".npz")),
        "csv": (corpus("datasets"), file(READERS["datasets"], ".csv")),
        "fleets": (corpus("fleets"), file(READERS["fleets"], ".toml")),
        "listed": (corpus("fleets"), file(READERS["fleets"], ".csv")),
        "toml": (corpus("toml"), file(READERS["toml"], ".toml")),
        **{kind: (corpus(kind), file(READERS[kind], ".csv")) for kind in ("times", "traces", "windows", "graphs")},
    }


def main(name="", how=str(SECONDS)):
    import atheris

    with tempfile.TemporaryDirectory() as place:
        folder, seeds = Path(place) / "work", Path(place) / "seeds"
        folder.mkdir()
        seeds.mkdir()
        with atheris.instrument_imports(include=CODE):
            table = harnesses(folder)
        if name not in table:
            sys.exit(f"wanted one of {', '.join(table)}")
        samples, read = table[name]
        for number, sample in enumerate(samples):
            (seeds / str(number)).write_bytes(sample)
        words = [f"-max_total_time={how}", str(seeds)] if how.isdecimal() else [how]
        atheris.Setup(["guided", *LIMITS, *words], lambda data: explained(read, data))
        atheris.Fuzz()


if __name__ == "__main__":
    main(*sys.argv[1:])
