"""Langevin samplers: mala, ula, and sgld with its mini-batches."""

from stanadapt.samplers.langevin import findings, mala, sgld, ula
from stanadapt.samplers.langevin.minibatches import Minibatches

__all__ = [
    "Minibatches",
    "findings",
    "mala",
    "sgld",
    "ula",
]
