"""Gradient-based adaptive MCMC: gad_mala, gad_hmc, gad_rwm."""
