"""Approximations by Pathfinder, ADVI and Laplace's method, as ArviZ objects."""
