"""Jumps between modes: repelling_attracting."""

from stanadapt.samplers.jumps import findings

__all__ = ["findings"]
