"""Adaptive MCMC for Stan programs, side by side with NUTS, read in ArviZ."""

from stanadapt import samplers
from stanadapt.compare import compare
from stanadapt.errors import StanadaptError
from stanadapt.extended import Extended
from stanadapt.modes import modes
from stanadapt.reference import reference
from stanadapt.reference_law import ReferenceLaw
from stanadapt.results import load, save
from stanadapt.run import sample
from stanadapt.target import Target
from stanadapt.weighted_summary import weighted_summary

__all__ = [
    "Extended",
    "ReferenceLaw",
    "StanadaptError",
    "Target",
    "compare",
    "load",
    "modes",
    "reference",
    "sample",
    "samplers",
    "save",
    "weighted_summary",
]
