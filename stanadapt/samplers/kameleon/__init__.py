"""MCMC Kameleon: the sampler, its proposal, kernels and history."""

from stanadapt.samplers.kameleon import kameleon

__all__ = ["kameleon"]
