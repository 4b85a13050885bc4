"""Triton kernels for many clients at once."""
