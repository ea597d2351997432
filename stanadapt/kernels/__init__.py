"""Compiled building blocks of samplers: the density, Metropolis, a folder per family of moves."""
