"""What is believed of what devices send, where not all of them are one's own.

Lengths, formats and numbers that are not finite are the codecs' matter: they refuse whatever they would not have
written. Here it is whether a model lies farther from where it began than any honest training leads.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

from torch import Tensor

from paceline.bounds import is_number
from paceline.errors import WireError
from paceline.reading import shown


class Checks:
    """Refuses, with ``WireError``, what cannot be honest."""

    def __init__(self, norm: float = 0.0) -> None:
        self._norm = norm
        """How far a model may lie from what its sender was sent last; and an update, from zero. 0: any distance."""
        self._sent: dict[int, list[Tensor]] = defaultdict(list)

    def sent(self, client: int, values: Sequence[Tensor]) -> None:
        """These have been sent to a client: what it makes of them is near."""
        if self._norm:
            self._sent[client] = list(values)

    def values(self, client: int, values: Sequence[Tensor]) -> None:
        """Refuse what came from a client if it is too far from all that it was sent."""
        for value in values:
            if self._norm and (far := self._distance(client, value)) > self._norm:
                raise WireError(
                    f"it lies {far:.4g} from what was sent there and from zero; the bound is {self._norm:g}"
                )

    def _distance(self, client: int, value: Tensor) -> float:
        """From the nearest of what a client was sent, or of an update from none at all."""
        known = [one for one in self._sent[client] if one.shape == value.shape]
        return min([float(value.norm()), *(float((value - one).norm()) for one in known)])


def figure_of(words: dict[str, object]) -> float:
    """The number that comes with what a visit made; ``WireError`` for what is none."""
    figure = words.get("figure")
    if not is_number(figure) or words.get("finite") is not True:
        raise WireError(f"training gave {shown(figure)}, but all its numbers must be finite; try a lower local.lr")
    return float(figure)
