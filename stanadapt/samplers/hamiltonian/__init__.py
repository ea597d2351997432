"""Hamiltonian Monte Carlo: hmc, nuts, and the integrators that other families use."""

from stanadapt.samplers.hamiltonian import hmc, nuts

__all__ = [
    "hmc",
    "nuts",
]
