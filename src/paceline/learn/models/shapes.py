"""What a network asks of the shape of one sample."""

from __future__ import annotations

from paceline.errors import ModelError

Shape = tuple[int, ...]


def image(name: str, shape: Shape, least: int) -> tuple[int, int, int]:
    """The (channels, height, width) of an image shape at least ``least`` pixels on each side."""
    if len(shape) != 3:
        raise ModelError(
            f"{name} wants images (channels, height, width) but one sample has shape {shape}; "
            f"use 'logistic' or 'mlp' for vectors"
        )
    channels, height, width = shape
    if turned := channels_last(shape):
        raise ModelError(f"{name} wants images (channels, height, width), but {turned}")
    if min(height, width) < least:
        raise ModelError(
            f"{name} wants images of at least {least}x{least} pixels but one sample has shape {shape}; "
            f"use 'mlp' or another network for small images"
        )
    return channels, height, width


def channels_last(shape: Shape) -> str:
    """Return a remark on a shape that looks like (height, width, channels), else nothing."""
    last = len(shape) == 3 and shape[2] <= 4 < min(shape[:2])
    return f"one sample has shape {shape}: channels come last; give x.transpose(0, 3, 1, 2)" if last else ""


def check_sample(shape: Shape, classes: int) -> None:
    """Refuse shapes and class counts that no network can have."""
    if not shape or any(side < 1 for side in shape):
        raise ModelError(f"one sample has shape {shape}; want positive sizes such as (60,) or (1, 28, 28)")
    if classes < 2:
        raise ModelError(f"classes is {classes}; a classifier wants at least 2")
