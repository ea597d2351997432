"""The default: short trajectories in whitened coordinates that all chains learn together."""
