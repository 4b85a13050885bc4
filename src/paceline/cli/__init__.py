"""The command ``paceline``: what it can be told, and how it answers."""
