"""The models that a run ended with, as safetensors: flat vectors by name."""

from __future__ import annotations

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
    save_file({name: value.detach().cpu().contiguous().clone() for name, value in models.items()}, draft)
    draft.replace(directory / FILE)


def read_weights(directory: Path) -> dict[str, Tensor]:
    """The final weights of a run, by name, from its directory."""
    try:
        require_file(directory / FILE, LARGEST)
        return load_file(directory / FILE)
    except (OSError, SafetensorError) as problem:
        raise DataError(f"{directory / FILE} cannot be read: {problem}") from None
