"""Leapfrog trajectories, the tree of NUTS, the initial step size."""
