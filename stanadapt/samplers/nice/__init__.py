"""A-NICE-MC: proposals from a trained volume-preserving network."""

from stanadapt.samplers.nice import nice
from stanadapt.samplers.nice.network import Network
from stanadapt.samplers.nice.train import train_nice

__all__ = ["Network", "nice", "train_nice"]
