"""Jumps between modes: repelling_attracting."""

from stanadapt.samplers.jumps import findings, repelling_attracting

__all__ = [
    "findings",
    "repelling_attracting",
]
