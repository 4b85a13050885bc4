"""Figures and tables for papers, from the runs' directories."""
