"""Approximations of a posterior by Gaussians, as results of the same kind as those of samplers."""
