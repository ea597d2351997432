"""Approximations (Pathfinder, ADVI, Laplace) and samplers that use them."""

from stanadapt.samplers.variational import findings, hvi, variational_mcmc

__all__ = ["findings", "hvi", "variational_mcmc"]
