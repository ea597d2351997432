"""The kernel-adaptive proposal of MCMC Kameleon."""
