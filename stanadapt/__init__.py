"""Adaptive MCMC for Stan programs, side by side with NUTS, read in ArviZ."""

from stanadapt import samplers
from stanadapt.compare import compare
from stanadapt.errors import StanadaptError
from stanadapt.modes import modes
from stanadapt.reference import reference
from stanadapt.results import load, save
from stanadapt.run import sample
from stanadapt.target import Target

__all__ = [
    "StanadaptError",
    "Target",
    "compare",
    "load",
    "modes",
    "reference",
    "sample",
    "samplers",
    "save",
]
