"""What becomes of memory that is freed: on Linux it is kept for the next model instead of given back.

Every visit makes vectors of a model's size and lets them go. By default the C library gives such pieces back to the
system at once and asks for them again, and each page of them is then brought in and cleared anew: about a sixth of a
small network's training time on a CPU (``python -m benchmarks.forms``).
"""

from __future__ import annotations

import ctypes
from functools import cache

TRIM, MAPPED = -1, -3
"""glibc's numbers of the two limits: bytes kept at the end of the heap, and bytes from which a piece is a mapping."""
KEPT = 256 << 20
LARGEST = 32 << 20
"""glibc takes no more than this; larger pieces are few, and go back when they are freed."""


@cache
def keep_freed_memory() -> bool:
    """Have the C library keep what is freed, once a process; False where it cannot be told (not glibc)."""
    try:
        limits = ctypes.CDLL(None).mallopt
    except (AttributeError, OSError, TypeError):
        return False
    return bool(limits(MAPPED, LARGEST)) and bool(limits(TRIM, KEPT))
