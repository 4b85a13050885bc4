"""Clients trained together: one step over all of them, on any device."""
