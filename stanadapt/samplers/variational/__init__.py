"""Approximations (Pathfinder, ADVI, Laplace) and samplers that use them."""

from stanadapt.samplers.variational import findings

__all__ = ["findings"]
