"""Gradient-based adaptive MCMC: gad_mala, gad_hmc, gad_rwm."""

from stanadapt.samplers.gad import findings, gad_hmc, gad_mala, gad_rwm

__all__ = [
    "findings",
    "gad_hmc",
    "gad_mala",
    "gad_rwm",
]
