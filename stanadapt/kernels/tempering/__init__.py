"""Tempering: reference distribution, path, ladder, moves, swaps, warm-up."""
