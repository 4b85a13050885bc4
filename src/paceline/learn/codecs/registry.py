"""Codecs as plain values, fit for JSON, and back."""

from __future__ import annotations

import dataclasses
from typing import Any

from paceline.errors import WireError, nearest
from paceline.learn.codecs.base import Codec
from paceline.learn.codecs.checks import shown
from paceline.learn.codecs.masks import Bitmap, Indices, Nothing
from paceline.learn.codecs.rounding import Gsgd, Rounded
from paceline.learn.codecs.values import Dense, Masked, Top

KINDS: tuple[type[Any], ...] = (Dense, Masked, Bitmap, Indices, Nothing, Top, Rounded, Gsgd)
CODECS = {kind.__name__.lower(): kind for kind in KINDS}


def describe(codec: Codec) -> dict[str, Any]:
    """``{"name": "rounded", "bits": 8, "key": 7}``: what ``codec_from`` makes the same codec of."""
    kind: Any = type(codec)
    if kind not in KINDS:
        raise WireError(f"{shown(codec)} has no name on the wire; known: {', '.join(CODECS)}")
    values = {name: getattr(codec, name) for name in _fields(kind)}
    plain = {name: list(value) if isinstance(value, tuple) else value for name, value in values.items()}
    return {"name": kind.__name__.lower(), **plain}


def codec_from(description: object) -> Codec:
    """The codec of a description; ``WireError`` unless every field is there, and nothing else, with values that can
    be."""
    if not isinstance(description, dict) or not isinstance(name := description.get("name"), str):
        raise WireError(f"a codec is described by {shown(description)}; wanted a dictionary with a name")
    if name not in CODECS:
        raise WireError(f"the codec's name is {shown(name)}; {nearest(name[:40], CODECS)}")
    kind = CODECS[name]
    given = {key: value for key, value in description.items() if key != "name"}
    if given.keys() != set(wanted := _fields(kind)):
        raise WireError(f"{name} came with {shown(list(given))}; wanted {', '.join(wanted) or 'no fields'}")
    codec: Codec = kind(**given)
    return codec


def _fields(kind: type[Any]) -> list[str]:
    return [field.name for field in dataclasses.fields(kind)]
