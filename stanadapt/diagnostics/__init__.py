"""Diagnostics of fits: comparison, efficiency, modes, coverage."""
