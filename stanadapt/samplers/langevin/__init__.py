"""Langevin samplers: mala, ula, and sgld with its mini-batches."""

from stanadapt.samplers.langevin import mala, sgld, ula
from stanadapt.samplers.langevin.minibatches import Minibatches

__all__ = ["Minibatches", "mala", "sgld", "ula"]
