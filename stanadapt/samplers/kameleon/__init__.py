"""MCMC Kameleon."""
