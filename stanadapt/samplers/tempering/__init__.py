"""Samplers for many modes: tempering, pseudo-extended MCMC, smc, equi-energy."""

from stanadapt.samplers.tempering import findings

__all__ = ["findings"]
