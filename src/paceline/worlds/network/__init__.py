"""Bytes on their way: links, lanes and shared capacities."""
