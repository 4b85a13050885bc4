"""What the user is told once: that something is computed in a slower way than it might be, and why."""

from __future__ import annotations

import threading
import warnings

from paceline.errors import SlowerWay

_told: set[str] = set()
_lock = threading.Lock()


def tell_slower(text: str) -> None:
    """Warn that a slower way is taken, once for each text in the life of the process, from any thread.

    >>> import warnings
    >>> with warnings.catch_warnings(record=True) as given:
    ...     warnings.simplefilter("always")
    ...     tell_slower("an example is slow, for it is only an example")
    ...     tell_slower("an example is slow, for it is only an example")
    >>> len(given)
    1
    """
    with _lock:
        if text in _told:
            return
        _told.add(text)
    warnings.warn(text, SlowerWay, stacklevel=3)
