"""The virtual clock: an asyncio loop whose time jumps to the next due timer."""

from paceline.clock.loop import VirtualLoop, make_loop

__all__ = ["VirtualLoop", "make_loop"]
