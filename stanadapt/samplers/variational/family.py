"""Which correlations a Gaussian approximation has."""

from enum import IntEnum


class Family(IntEnum):
    """Which correlations q has."""

    full_rank = 0
    mean_field = 1
