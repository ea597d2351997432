"""Families of samplers, a folder each; importing this package registers all samplers."""

from stanadapt.engine.registry import find, registered
from stanadapt.samplers import (
    am,
    gad,
    hamiltonian,
    jumps,
    kameleon,
    langevin,
    nice,
    rwm,
    tempering,
    variational,
    whitened,
)

__all__ = [
    "am",
    "find",
    "gad",
    "hamiltonian",
    "jumps",
    "kameleon",
    "langevin",
    "nice",
    "registered",
    "rwm",
    "tempering",
    "variational",
    "whitened",
]
