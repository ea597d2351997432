"""Families of samplers, a folder each; importing this package registers all samplers."""

from stanadapt.engine.registry import find, registered
from stanadapt.samplers import am, rwm
from stanadapt.samplers.gad import gad_hmc, gad_mala, gad_rwm
from stanadapt.samplers.hamiltonian import hmc, nuts
from stanadapt.samplers.jumps import repelling_attracting
from stanadapt.samplers.kameleon import kameleon
from stanadapt.samplers.langevin import mala, sgld, ula
from stanadapt.samplers.nice import nice as _  # not `nice`, which is the folder, with `train`
from stanadapt.samplers.tempering import (
    continuous_tempering,
    equi_energy,
    parallel_tempering,
    pseudo_extended,
    simulated_tempering,
    smc,
)
from stanadapt.samplers.variational import hvi, variational_mcmc
from stanadapt.samplers.whitened import pooled_am, whitened_hmc

__all__ = [
    "am",
    "continuous_tempering",
    "equi_energy",
    "find",
    "gad_hmc",
    "gad_mala",
    "gad_rwm",
    "hmc",
    "hvi",
    "kameleon",
    "mala",
    "nice",
    "nuts",
    "parallel_tempering",
    "pooled_am",
    "pseudo_extended",
    "registered",
    "repelling_attracting",
    "rwm",
    "sgld",
    "simulated_tempering",
    "smc",
    "ula",
    "variational_mcmc",
    "whitened_hmc",
]
