"""Every exception Paceline raises on purpose.

PacelineError
├── SettingError      a setting that is unknown, of the wrong type, impossible, or in conflict with another
├── DataError         a dataset that is missing, damaged, or holds NaN
├── PartitionError    a way to split the data among clients that this dataset does not allow
├── ModelError        a network that cannot be trained or batched
├── CostError         a duration, size or energy that nobody defined
├── Diverged          learning produced NaN or infinity
├── Deadlock          the virtual clock has nothing due and someone still waits
├── Deserted          every client has left for good: nothing more can be learned
├── Fruitless         visit after visit is broken off, or nothing of them arrives: devices are away too much
├── Misplaced         a model was used at a site to which it was never sent
├── WireError         a message that cannot be written, or one that is not what was wanted
└── SiteError         a bug inside an algorithm or a job, with site, verb and virtual time

Dropped is no PacelineError. That a device leaves, or that a server or a link fails, is a part of what is simulated,
and the algorithm says what becomes of it. SlowerWay is a warning: all goes on.
"""

from __future__ import annotations

import difflib
import errno
import math
from collections.abc import Iterable
from typing import Literal

DISK = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EROFS, errno.EIO})
"""What systems say of a disk that is full or failing: no fault of a run, which can go on when that is over."""


class PacelineError(Exception):
    """Something Paceline can explain; the command line prints it without a traceback."""


class SettingError(PacelineError, ValueError):
    """A setting has a value that is impossible, misspelt, or in conflict with another."""


class DataError(PacelineError):
    """A dataset that is missing, damaged, or holds NaN."""


class PartitionError(PacelineError, ValueError):
    """A way to split the data among clients that this dataset does not allow."""


class ModelError(PacelineError, ValueError):
    """A network that cannot be trained or batched."""


class CostError(PacelineError):
    """A duration, size or energy that nobody defined: never taken as 0."""


class Diverged(PacelineError):
    """Learning produced NaN or infinity."""


class Deadlock(PacelineError):
    """The clock has nothing left to do while somebody still waits for something."""


class Deserted(PacelineError):
    """Every client has left for good. A run that has learned something until then ends with it."""


class Fruitless(PacelineError):
    """Visit after visit is broken off, or nothing that was trained arrives, because devices are away too much."""


class Misplaced(PacelineError):
    """A model was used at a site to which it was never sent."""


class WireError(PacelineError):
    """A message that cannot be written, or one that is not what was wanted."""


class SiteError(PacelineError):
    """A bug inside an algorithm or a job; the message names the site, the verb and the virtual time."""


class SlowerWay(UserWarning):
    """Something is computed in a slower way than it might be; results are the same, only later."""


Reason = Literal["away", "left", "late", "lost", "refused", "failed", "severed"]
"""Why somebody dropped out: it was away when it was called; it left in the middle; it was waited for in vain until
the deadline; its connection broke; what it sent was refused; the server failed; the link failed."""


class Dropped(Exception):
    """A device left, or a server failed, before it finished what was awaited."""

    def __init__(
        self,
        site: int,
        at: float,
        back: float | None = None,
        *,
        reason: Reason = "left",
        gone: bool | None = None,
    ) -> None:
        self.site = site
        self.at = at
        self.back = back
        """Time at which the device can be reached again; None if that is not known."""
        self.reason: Reason = reason
        self.gone = (back is None or back == math.inf) if gone is None else gone
        """Whether it left for good. A simulator knows that; a real world takes it so after a grace period."""
        super().__init__(f"{site_name(site)} dropped out at t={at:g}: {reason}")


class Severed(Dropped):
    """A link between two servers failed before a transfer had ended; both are still there."""

    def __init__(self, source: int, target: int, at: float) -> None:
        super().__init__(target, at, reason="severed")
        self.source = source


def site_name(site: int) -> str:
    """Return the name of a site: clients count from 0, and the sites -1, -2, ... are the servers 1, 2, ..."""
    return f"client {site}" if site >= 0 else f"server {-site}"


def is_of_disk(problem: BaseException) -> bool:
    """Whether something could not be written for want of room, or of a disk that works."""
    return isinstance(problem, OSError) and problem.errno in DISK


def nearest(word: str, known: Iterable[str], prefix: str = "") -> str:
    """A hint that names the nearest right word (with this before it), or all of them when none is near."""
    names = sorted(known)
    lower = {name.lower(): name for name in names}
    near = difflib.get_close_matches(word.lower(), lower, n=1, cutoff=0.6)
    return f"did you mean {prefix + lower[near[0]]!r}?" if near else f"known: {', '.join(names)}"
