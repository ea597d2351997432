"""Vectors, triangular matrices and random numbers in compiled code."""
