"""A world whose durations are drawn, not lived."""
