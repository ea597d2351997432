"""Gaussian approximations of a density on the unconstrained scale: how they are found and used."""
