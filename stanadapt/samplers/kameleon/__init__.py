"""MCMC Kameleon."""

from stanadapt.samplers.kameleon import kameleon

__all__ = [
    "kameleon",
]
