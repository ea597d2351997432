"""Comparisons of samplers over several seeds."""
