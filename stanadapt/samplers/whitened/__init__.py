"""The default: short trajectories in whitened coordinates that all chains learn together."""

from stanadapt.samplers.whitened import findings

__all__ = ["findings"]
