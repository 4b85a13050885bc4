"""Measurements; ratios are taken interleaved in one run, since machines are noisy."""
