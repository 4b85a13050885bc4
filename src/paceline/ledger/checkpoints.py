"""Checkpoints on disk: the values that a run holds at one of its stops, by number, whole or not at all.

A checkpoint is one safetensors file: a draft that is flushed to the disk and then renamed. Its header says which
models the values belong to, and has a digest, so that a damaged one is known and the one before it is taken.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import torch
from safetensors import SafetensorError, safe_open
from torch import Tensor

from paceline.errors import DataError
from paceline.ledger.durable import to_disk
from paceline.ledger.packing import Packed, pack, unpack
from paceline.ledger.weights import save_tensors
from paceline.reading import require_file

FOLDER = "checkpoints"
LARGEST = 1 << 50
"""Bytes of a checkpoint: as many as there are; what matters is that it is a file, and no pipe."""
KEPT = 2
"""How many checkpoints stay on disk: the latest, and the one before it."""


_DAMAGES = (OSError, SafetensorError, ValueError, KeyError, TypeError, IndexError, AttributeError, RuntimeError,
            OverflowError)  # fmt: skip
"""What comes of a file that is no checkpoint, or whose header and digest somebody has written to fit each other."""


class Held(NamedTuple):
    """What a model holds: its value, and the number that came with it."""

    value: Tensor
    figure: Tensor | None


@dataclass(frozen=True, kw_only=True)
class Checkpoint:
    """The values at a stop, and what else was known there."""

    stop: int
    state: dict[str, Any]
    values: dict[int, Held]
    """By the numbers of the models that held them."""


def write_checkpoint(
    folder: Path, stop: int, state: Mapping[str, Any], values: Mapping[int, Held], budget: float = math.inf
) -> int:
    """Write a checkpoint and let go of those before it that are too old, or for which there is no room (``budget``
    bytes); returns its bytes."""
    folder.mkdir(exist_ok=True)
    tensors, index = _table(values)
    header = {"stop": stop, "state": dict(state), "index": index}
    path = folder / f"stop-{stop:09d}.safetensors"
    draft = path.with_suffix(".part")
    save_tensors(tensors, draft, {"paceline": json.dumps(header), "sha256": _digest(tensors, header)})
    to_disk(draft)
    draft.replace(path)
    to_disk(folder)
    for draft in folder.glob("*.part"):  # of somebody who was killed in the middle
        draft.unlink()
    for file in _files(folder):
        if file.name > path.name:  # damaged, else it would have been gone on from; it takes the room of a whole one
            file.unlink()
    files = _files(folder)
    sizes = [file.stat().st_size for file in files]
    for place, old in enumerate(files):
        if place and (place >= KEPT or sum(sizes[: place + 1]) > budget):
            old.unlink()
    return sizes[0]


def read_checkpoint(folder: Path) -> tuple[Checkpoint | None, list[str]]:
    """The latest checkpoint that is whole, and what is wrong with later ones; None if there is none."""
    problems: list[str] = []
    for path in _files(folder):
        try:
            return _read(path), problems
        except DataError as problem:
            problems.append(str(problem))
    return None, problems


def _read(path: Path) -> Checkpoint:
    try:
        require_file(path, LARGEST)
        with safe_open(path, framework="pt") as file:
            words: dict[str, str] = file.metadata() or {}
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 - it is no mapping
        header = json.loads(words["paceline"])
        if words["sha256"] != _digest(tensors, header):
            raise DataError(f"{path} is damaged: its digest is another")
        found = [unpack(Packed(form, tuple(shape), dtype, tuple(tensors[name] for name in names)))
                 for form, shape, dtype, names in header["index"]["tensors"]]  # fmt: skip
        values = {
            number: Held(found[value], None if figure is None else _figure(tensors["figures"], *figure))
            for number, value, figure in header["index"]["models"]
        }
        return Checkpoint(stop=int(header["stop"]), state=dict(header["state"]), values=values)
    except _DAMAGES as problem:
        raise DataError(f"{path} is no whole checkpoint: {problem}") from None


def _figure(figures: Tensor, place: int, dtype: str) -> Tensor:
    return figures[place].to(getattr(torch, dtype))


def _table(values: Mapping[int, Held]) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """Tensors by name, those that several models share once; and which model has which."""
    tensors: dict[str, Tensor] = {}
    kept: dict[tuple[object, ...], int] = {}
    described: list[list[Any]] = []
    models: list[list[Any]] = []
    figures: list[Tensor] = []
    for number, (value, figure) in values.items():
        key = (value.device, value.data_ptr(), tuple(value.shape), value.dtype)
        if key not in kept:
            kept[key] = len(described)
            packed = pack(value)
            names = [f"{len(described)}.{k}" for k in range(len(packed.parts))]
            tensors |= dict(zip(names, packed.parts, strict=True))
            described.append([packed.form, list(packed.shape), packed.dtype, names])
        described_figure = None if figure is None else [len(figures), str(figure.dtype).removeprefix("torch.")]
        models.append([number, kept[key], described_figure])
        if figure is not None:
            figures.append(figure.detach().to(torch.float64))  # exact: it is a float32 or a float64
    if figures:
        tensors["figures"] = torch.stack(figures).cpu()
    return tensors, {"tensors": described, "models": models}


def _digest(tensors: Mapping[str, Tensor], header: Mapping[str, Any]) -> str:
    found = hashlib.sha256(json.dumps(header, sort_keys=True).encode())
    for name in sorted(tensors):
        found.update(name.encode())
        found.update(tensors[name].contiguous().view(torch.uint8).numpy().data)
    return found.hexdigest()


def _files(folder: Path) -> list[Path]:
    """Return the files of checkpoints, the latest first."""
    return sorted(folder.glob("stop-*.safetensors"), reverse=True) if folder.is_dir() else []
