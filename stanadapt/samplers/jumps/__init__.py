"""Jumps between modes: repelling_attracting."""

from stanadapt.samplers.jumps import repelling_attracting

__all__ = ["repelling_attracting"]
