"""Flat models as bytes and back: what a message carries is what its bytes say.

``size`` is what a simulation charges, known before any value is; a message is ``HEADER`` bytes longer. ``through`` is
what the receiver has afterwards, to the last bit, without any bytes: simulations use it, on any device.
"""

from paceline.errors import WireError
from paceline.learn.codecs.base import HEADER, Codec
from paceline.learn.codecs.masks import Bitmap, Indices, Nothing, mask_codec
from paceline.learn.codecs.registry import codec_from, describe
from paceline.learn.codecs.rounding import Gsgd, Rounded
from paceline.learn.codecs.values import Dense, Masked, Top

__all__ = [
    "HEADER",
    "Codec",
    "WireError",
    "Dense",
    "Masked",
    "Top",
    "Bitmap",
    "Indices",
    "Nothing",
    "mask_codec",
    "Rounded",
    "Gsgd",
    "describe",
    "codec_from",
]
