"""The models that a run ended with, as safetensors: flat vectors by name."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from pathlib import Path

from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor

from paceline.errors import DataError
from paceline.reading import require_file

FILE = "model.safetensors"
LARGEST = 1 << 38
"""Bytes of such a file: what matters is that it is one."""


def write_weights(directory: Path, models: Mapping[str, Tensor]) -> None:
    """Write these weights into a run's directory; a file that was cut off is never left behind."""
    draft = directory / f"{FILE}.part"
    save_tensors({name: value.detach().cpu().contiguous().clone() for name, value in models.items()}, draft)
    draft.replace(directory / FILE)


def save_tensors(tensors: Mapping[str, Tensor], path: Path, words: Mapping[str, str] | None = None) -> None:
    """Write tensors to a file. Raise ``OSError`` if the disk is full, as other writers do."""
    try:
        save_file(dict(tensors), path, None if words is None else dict(words))
    except SafetensorError as problem:
        if (found := re.search(r"\(os error (\d+)\)", str(problem))) is None:
            raise
        raise OSError(int(found[1]), os.strerror(int(found[1])), str(path)) from None


def read_weights(directory: Path) -> dict[str, Tensor]:
    """The final weights of a run, by name, from its directory."""
    try:
        require_file(directory / FILE, LARGEST)
        return load_file(directory / FILE)
    except (OSError, SafetensorError) as problem:
        raise DataError(f"{directory / FILE} cannot be read: {problem}") from None
