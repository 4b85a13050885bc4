"""Implementations of ``World``, and what it takes to run an algorithm in one."""
