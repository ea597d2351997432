"""Hamiltonian Monte Carlo: hmc, nuts and walnuts."""

from stanadapt.samplers.hamiltonian import hmc, nuts, walnuts

__all__ = ["hmc", "nuts", "walnuts"]
