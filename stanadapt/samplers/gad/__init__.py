"""Gradient-based adaptive MCMC: gad_mala, gad_hmc, gad_rwm."""

from stanadapt.samplers.gad import findings

__all__ = ["findings"]
