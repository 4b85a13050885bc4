"""A stand-in for torchvision, of which there is no build for torch's CPU packages.

Some peers import it only for data sets and networks that are not used here.
"""

from __future__ import annotations

import sys
from types import ModuleType


class _Absent(ModuleType):
    """A module whose every name is an empty class."""

    __path__: list[str] = []  # noqa: RUF012  # so that it passes for a package

    def __getattr__(self, name: str) -> type:
        if name.startswith("__"):
            raise AttributeError(name)
        return type(name, (), {})


def without_torchvision() -> None:
    """Let imports of torchvision pass."""
    for name in ("torchvision", "torchvision.datasets", "torchvision.transforms", "torchvision.models"):
        sys.modules[name] = _Absent(name)
