"""Federations of real machines, over Flower."""
