"""Gradient-based adaptive MCMC: gad_mala, gad_hmc, gad_rwm."""

from stanadapt.samplers.gad import gad_hmc, gad_mala, gad_rwm

__all__ = ["gad_hmc", "gad_mala", "gad_rwm"]
