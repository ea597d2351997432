"""Samplers for many modes: tempering, pseudo-extended MCMC, smc, equi-energy."""

from stanadapt.samplers.tempering import (
    continuous_tempering,
    equi_energy,
    findings,
    parallel_tempering,
    pseudo_extended,
    simulated_tempering,
    smc,
    start,
)
from stanadapt.samplers.tempering.extended import Extended
from stanadapt.samplers.tempering.reference_distribution import ReferenceDistribution
from stanadapt.samplers.tempering.weighted_summary import weighted_summary

__all__ = [
    "Extended", "ReferenceDistribution", "continuous_tempering", "equi_energy", "findings",
    "parallel_tempering", "pseudo_extended", "simulated_tempering", "smc", "start",
    "weighted_summary",
]  # fmt: skip
