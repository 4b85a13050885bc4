"""The algorithms, one file each; ``base.py`` is all they may ask."""
