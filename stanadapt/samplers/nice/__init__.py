"""A-NICE-MC: proposals from a trained volume-preserving network."""

from stanadapt.samplers.nice import nice, start
from stanadapt.samplers.nice.network import Network
from stanadapt.samplers.nice.train import train_nice

__all__ = ["Network", "nice", "start", "train_nice"]
