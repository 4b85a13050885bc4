"""A project of one's own: what `paceline new` writes."""
