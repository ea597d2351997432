"""Hamiltonian Monte Carlo: hmc, nuts, and the integrators that other families use."""
