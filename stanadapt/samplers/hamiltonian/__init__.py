"""Hamiltonian Monte Carlo: hmc and nuts."""

from stanadapt.samplers.hamiltonian import hmc, nuts

__all__ = [
    "hmc",
    "nuts",
]
