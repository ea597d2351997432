"""Codes of the notes of whitened_hmc.

A file of its own, as in every family, for `stanadapt explain` and the page of messages.
"""

from stanadapt.errors import Code

FLAT_DIRECTION = Code(
    "flat_direction",
    "note",
    "The gradient did not change with a coordinate: the density is flat, or increases without "
    "bound, in this direction, and the posterior may be improper.",
    "Add a prior for the parameter, or remove it from the model.",
)
UNBOUNDED_DIRECTION = Code(
    "unbounded_direction",
    "note",
    "The draws of a coordinate drifted without bound during warm-up: the posterior may be "
    "improper.",
    "Check that the data or the priors bound the posterior in every direction.",
)
