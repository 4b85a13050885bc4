"""The names of all combinations of some settings; nothing that takes long is imported for them."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from typing import Any

from paceline.errors import SettingError
from paceline.reading import shown


def variants(algorithm: str, over: Mapping[str, Sequence[Any]]) -> list[str]:
    """The names of all combinations.

    >>> variants("fedbuff", {"buffer": [5, 20]})
    ['fedbuff@buffer=5', 'fedbuff@buffer=20']
    """
    if not over or not all(map(len, over.values())):
        raise SettingError(
            f"a sweep wants values for every setting, as in {{'local.lr': [0.01, 0.1]}}; got {shown(over)}"
        )
    mark = "," if "@" in algorithm else "@"
    combined = itertools.product(*([f"{name}={value}" for value in values] for name, values in over.items()))
    return [f"{algorithm}{mark}{','.join(words)}" for words in combined]
