"""Langevin samplers: mala, ula, and sgld with its mini-batches."""

from stanadapt.samplers.langevin import findings

__all__ = ["findings"]
