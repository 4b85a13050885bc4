"""The virtual clock: an asyncio loop whose time jumps to the next due timer."""

from paceline.clock.loop import Source, VirtualLoop, make_loop
from paceline.clock.wall import WallClock

__all__ = ["Source", "VirtualLoop", "WallClock", "make_loop"]
