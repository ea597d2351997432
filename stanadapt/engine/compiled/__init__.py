"""Compiles functions with Numba, and keeps their machine code."""
