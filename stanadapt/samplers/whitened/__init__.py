"""The default: short trajectories in whitened coordinates that all chains learn together."""

from stanadapt.samplers.whitened import findings, pooled_am, whitened_hmc

__all__ = [
    "findings",
    "pooled_am",
    "whitened_hmc",
]
