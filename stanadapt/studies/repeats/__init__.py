"""Comparisons over several seeds."""
