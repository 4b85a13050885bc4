"""Stand-ins for packages that peers import at their start and that are not used here.

Of torchvision there is no build for torch's CPU packages; trackers on other machines would only slow a peer down.
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
    without("torchvision", "torchvision.datasets", "torchvision.transforms", "torchvision.models")


def without(*names: str) -> None:
    """Let imports of these modules pass."""
    for name in names:
        sys.modules[name] = _Absent(name)
