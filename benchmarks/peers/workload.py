"""One file that holds a whole federation: samples, owners, participants, batches, first weights.

Every peer computes the same, so what is random is drawn once, here, at Paceline's own addresses for seed 0. Paceline
is then run by its plain API and draws the same again; the others read it, which spares them the drawing.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

SEED = 0


@dataclass(frozen=True)
class Federation:
    """What is learned, by whom, and for how long."""

    name: str
    model: str
    shape: tuple[int, ...]
    rounds: int
    participants: int
    clients: int = 100
    samples: int = 0
    """Training samples of a client; 0: an equal share of MNIST."""
    tests: int = 0
    """Test samples; 0: those of MNIST."""
    lr: float = 0.05
    batch: int = 20
    epochs: int = 1

    @property
    def is_made_up(self) -> bool:
        """Whether samples are random numbers, as in `make bench`, and only speed means something."""
        return self.samples > 0


FEDERATIONS = {
    each.name: each
    for each in (
        Federation("mlp", "mlp", (1, 28, 28), 50, 10),
        Federation("lenet", "lenet", (1, 28, 28), 50, 10),
        # As in benchmarks/visits.py. The few test samples make scoring, which ends every round, cost next to nothing.
        Federation("visits-mlp", "mlp", (1, 28, 28), 40, 20, samples=60, tests=100),
        Federation("visits-lenet", "lenet", (3, 32, 32), 20, 20, samples=100, tests=100),
    )
}


@dataclass(frozen=True)
class Workload:
    """What a peer reads."""

    federation: Federation
    x_train: NDArray[np.float32]
    y_train: NDArray[np.int64]
    x_test: NDArray[np.float32]
    y_test: NDArray[np.int64]
    rows: list[NDArray[np.int64]]
    """Rows of the training samples that each client owns."""
    participants: NDArray[np.int64]
    """(round, place) numbers of clients."""
    batches: NDArray[np.int64]
    """(round, place, step, sample) rows of the training samples."""
    weights: dict[str, NDArray[np.float32]]
    """The first weights, by torch's names."""

    def batches_of(self, client: int, round: int) -> NDArray[np.int64]:
        """(step, sample) rows that a participant of this round learns from."""
        place = int(np.flatnonzero(self.participants[round] == client)[0])
        found: NDArray[np.int64] = self.batches[round, place]
        return found


def read(path: str | Path) -> Workload:
    """A workload from its file; bytes become normalised numbers here, so that every peer pays for it alike."""
    with np.load(path) as file:
        kept = {name: file[name] for name in file.files}
    told = json.loads(str(kept.pop("federation")))
    scale = kept.pop("scale")
    for part in ("x_train", "x_test"):
        if kept[part].dtype == np.uint8:
            kept[part] = (kept[part].astype(np.float32) - scale[0]) / scale[1]
    edges = kept.pop("edges")
    rows = np.split(kept.pop("owned"), edges[1:-1])
    weights = {name[2:]: kept.pop(name) for name in list(kept) if name.startswith("w/")}
    return Workload(Federation(**{**told, "shape": tuple(told["shape"])}), rows=rows, weights=weights, **kept)


def write(path: Path, federation: Federation, mnist: Path | None) -> None:
    """Draw everything and write it; needs Paceline, which the peers do not."""
    from paceline.data import parse_partition
    from paceline.seeds import stream

    arrays = _made_up(federation) if federation.is_made_up else _mnist(mnist)
    labels = arrays["y_train"]
    split = parse_partition("iid").split(
        labels, federation.clients, stream(SEED, "partition", "iid", federation.clients)
    )
    owned, edges = split.indices, split.offsets
    participants = np.stack(
        [
            stream(SEED, "cohort", r).choice(federation.clients, federation.participants, replace=False)
            for r in range(federation.rounds)
        ]
    )
    drawn = {
        "owned": owned,
        "edges": edges,
        "participants": participants,
        "batches": _batches(federation, participants, np.split(owned, edges[1:-1])),
    }
    np.savez(
        path,
        federation=np.array(json.dumps(asdict(federation))),
        **arrays,
        **drawn,
        **_weights(federation),
    )


def _mnist(path: Path | None) -> dict[str, Any]:
    if path is None or not (path / "mnist.npz").is_file():
        raise SystemExit(
            "wanted --data DIRECTORY (or PACELINE_DATA) with mnist.npz: x_train, y_train, x_test, y_test"
        )
    with np.load(path / "mnist.npz") as file:
        parts = {name: file[name] for name in ("x_train", "y_train", "x_test", "y_test")}
    x = parts["x_train"]
    scale = np.array([x.mean(), x.std()], np.float32)
    images = {name: parts[name].reshape(-1, 1, 28, 28) for name in ("x_train", "x_test")}
    return {**images, **{name: parts[name].astype(np.int64) for name in ("y_train", "y_test")}, "scale": scale}


def _made_up(federation: Federation) -> dict[str, Any]:
    from paceline.seeds import stream

    rng = stream(SEED, "bench", federation.name)
    count = federation.clients * federation.samples
    return {
        "x_train": rng.normal(size=(count, *federation.shape)).astype(np.float32),
        "y_train": rng.integers(0, 10, count),
        "x_test": rng.normal(size=(federation.tests, *federation.shape)).astype(np.float32),
        "y_test": np.arange(federation.tests) % 10,
        "scale": np.array([0, 1], np.float32),
    }


def _batches(federation: Federation, participants: NDArray[Any], rows: list[NDArray[Any]]) -> NDArray[Any]:
    """The batches that Paceline draws in each visit: at an address made of the client and the number of its visit."""
    from paceline.learn.draws import draw_batches
    from paceline.learn.hashing import signed
    from paceline.learn.recipe import LocalSGD
    from paceline.seeds import address, mix

    recipe = LocalSGD(lr=federation.lr, batch=federation.batch, epochs=federation.epochs)
    sizes = {len(each) for each in rows}
    if len(sizes) > 1 or sizes.pop() % federation.batch:
        raise SystemExit("wanted clients of one size, a multiple of the batch: some peers drop short batches")
    visits = [0] * federation.clients
    drawn = []
    for cohort in participants:
        for client in cohort:
            key = signed(mix(address(SEED, "train"), int(client), visits[client]))
            visits[client] += 1
            drawn.append(rows[client][draw_batches([key], [len(rows[client])], recipe).index_CSB[0]])
    shape = (*participants.shape, -1, federation.batch)
    found: NDArray[Any] = np.stack(drawn).reshape(shape)
    return found


def _weights(federation: Federation) -> dict[str, NDArray[Any]]:
    import torch

    from benchmarks.peers.networks import network

    torch.manual_seed(SEED)
    state = network(federation.model, federation.shape).state_dict()
    return {f"w/{name}": value.numpy() for name, value in state.items()}
