"""Approximations by Pathfinder, ADVI and Laplace, as ArviZ objects."""
