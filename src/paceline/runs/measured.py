"""The speed of this machine as a server, for ``fleet.server=measured``.

A measurement is a wall clock's, and runs must be repeatable: so it is made once, before the run, and what it uses
(and its settings.json says) is the rate that was found, as if it had been given.
"""

from __future__ import annotations

import statistics
import time
from dataclasses import replace
from functools import cache

import torch

from paceline.errors import SettingError
from paceline.learn.space import Space
from paceline.system import FleetSettings

SAMPLES, LEAST = 256, 0.2
"""Samples of a forward pass, and seconds to repeat it for."""


def with_measured_server(fleet: FleetSettings, space: Space, device: str) -> FleetSettings:
    """The same fleet with the server's rate in place of the word ``measured``."""
    if fleet.server != "measured":
        return fleet
    return replace(fleet, server=f"flops:{measured_rate(space, device):.3g}")


@cache
def measured_rate(space: Space, device: str) -> float:
    """FLOP/s of forward passes of this model on this machine; once a process, so that all its runs agree."""
    if not space.flops > 0:
        raise SettingError(
            f"fleet.server=measured needs the FLOPs of {space.name}, and some layer's are not known;"
            " use constant:SECONDS"
        )
    if device == "auto":
        device = "cuda" if torch.cuda.is_available() else "cpu"
    module = space.factory().to(device, space.dtype).eval()
    x = torch.zeros(SAMPLES, *space.shape, dtype=space.dtype, device=device)
    taken: list[float] = []
    with torch.no_grad():
        until = time.perf_counter() + LEAST
        while time.perf_counter() < until or len(taken) < 3:
            begin = time.perf_counter()
            module(x).sum().item()
            taken.append(time.perf_counter() - begin)
    return SAMPLES * space.flops / statistics.median(taken)
