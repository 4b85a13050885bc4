"""Advice without training: how many, in which order, linked how."""
