"""Samplers for many modes: tempering, pseudo-extended MCMC, smc, equi-energy."""
