"""One file a sampler. Importing this package registers them all."""

from stanadapt.samplers import (
    am,
    gad_hmc,
    gad_mala,
    gad_rwm,
    hmc,
    kameleon,
    mala,
    nice,
    nuts,
    parallel_tempering,
    pooled_am,
    pseudo_extended,
    rwm,
    simulated_tempering,
    variational_mcmc,
    whitened_hmc,
)

__all__ = [
    "am",
    "gad_hmc",
    "gad_mala",
    "gad_rwm",
    "hmc",
    "kameleon",
    "mala",
    "nice",
    "nuts",
    "parallel_tempering",
    "pooled_am",
    "pseudo_extended",
    "rwm",
    "simulated_tempering",
    "variational_mcmc",
    "whitened_hmc",
]
