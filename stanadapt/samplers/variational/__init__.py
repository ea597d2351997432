"""Approximations (Pathfinder, ADVI, Laplace) and samplers that use them."""
