"""Partitions by name: the text form of every scheme, as it stands in settings."""

from __future__ import annotations

from paceline.data.labelskew import Dirichlet, ExDir, Pathological
from paceline.data.oversampling import Oversampled, parse_factors
from paceline.data.schemes import Dominant, Iid, Natural, PowerLaw, Scheme
from paceline.data.shares import Partition, Skew
from paceline.forms import WHOLE, Form, Forms

__all__ = [
    "Partition",
    "Skew",
    "Scheme",
    "Iid",
    "Dirichlet",
    "ExDir",
    "Pathological",
    "Dominant",
    "Natural",
    "Oversampled",
    "PowerLaw",
    "parse_partition",
]


_KINDS = {"CLASSES": WHOLE, "MINIMUM": WHOLE}
PARTITIONS: Forms[Scheme] = Forms(
    "partition",
    Form("iid", Iid, "everyone draws from the same population, and sizes differ by at most one", "iid"),
    Form(
        "dirichlet:ALPHA[,equal][,minimum=MINIMUM]",
        Dirichlet,
        "each class is shared among all clients by a Dirichlet law, the more unevenly the smaller ALPHA; with equal,"
        " clients are equally large and each draws its own mixture of labels; with minimum, nobody has fewer samples",
        "dirichlet:0.3,equal",
        _KINDS,
    ),
    Form(
        "exdir:CLASSES,ALPHA[,minimum=MINIMUM]",
        ExDir,
        "each client holds so many classes, and each class is split among its holders by a Dirichlet law",
        "exdir:2,10",
        _KINDS,
    ),
    Form(
        "pathological:CLASSES[,equal]",
        Pathological,
        "each client holds so many classes, each cut into equal shares for its holders; with equal, clients are"
        " equally large and draw from classes chosen at random, of which none is left without a client",
        "pathological:2",
        _KINDS,
    ),
    Form("dominant:SHARE", Dominant, "each client takes this share of its data from one class", "dominant:0.3"),
    Form(
        "natural[:choose]",
        Natural,
        "a client is a writer or a site, several merged where there are more of them than clients; with choose, one"
        " each, and the others are left out",
        "natural:choose",
    ),
    Form(
        "powerlaw:EXPONENT[,CLASSES]",
        PowerLaw,
        "sizes follow a power law, the wilder the smaller the exponent; with so many classes a client, if given",
        "powerlaw:1.5,2",
        _KINDS,
    ),
)
"""The ways to split a dataset among clients."""


def parse_partition(text: str) -> Scheme:
    """The scheme that a text like ``iid``, ``dirichlet:0.2`` or ``exdir:2,10`` names; words after the colon that are
    no numbers may stand anywhere there. After a ``*``, how often samples of each class are dealt out."""
    text, star, factors = text.partition("*")
    if star:
        return Oversampled(parse_partition(text), parse_factors(factors))
    name, _, rest = text.strip().partition(":")
    words = [word.strip() for word in rest.split(",")]
    options = sorted({word for word in words if word[:1].isalpha()})
    ordered = ",".join([word for word in words if not word[:1].isalpha()] + options)
    return PARTITIONS.parse(f"{name}:{ordered}" if rest else name)
