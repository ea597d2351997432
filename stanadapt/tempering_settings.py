"""What the samplers that temper have in common for their users: references, settings, checks."""

from enum import IntEnum

import numpy as np

from stanadapt import factor as factors
from stanadapt import protocol
from stanadapt._jit import jit
from stanadapt.errors import StanadaptError
from stanadapt.nuts_tree import LARGEST_DEPTH
from stanadapt.reference_law import make_law
from stanadapt.tempered_moves import RANDOM_WALK, Options
from stanadapt.tempered_path import LAW, POWER, Path
from stanadapt.tempering_rounds import Design

# degrees of freedom of a learned Student t; spread of the law before anything has been learned,
# that of Stan's random starts
DEGREES, FIRST_SCALE = 5.0, 2.0
RATE_OF_TRAJECTORIES, RATE_OF_WALKS = 0.8, 0.3
# most leapfrogs over the fourth root of the dimension, with which the best number grows (Beskos et
# al. 2013, Bernoulli 19). At equal gradients, on a Boltzmann relaxation in 26 dimensions, 1 to 5
# differ in error by less than a tenth, and 5 leave the least time outside gradients (9 %; 3: 16 %).
# Round modes want fewer: in 20 dimensions 2 give twice the effective draws of 4, in two dimensions
# 1 half as many again as 2; but 1 gets stuck in the arms of a strongly bent banana
LEAPFROGS = 2.0


class Law(IntEnum):
    """What lies at the hot end of the path."""

    gaussian = 0
    student_t = 1
    power = 2


STUDENT_T, POWER_ONLY = int(Law.student_t), int(Law.power)  # for compiled code


@jit
def first_path(density, settings):
    """Return the path whose reference will be learned during warm-up."""
    dim = density.dim
    degrees = DEGREES if settings.law == STUDENT_T else np.inf
    law = make_law(np.zeros(dim), factors.initial(dim, FIRST_SCALE, True), degrees)
    return Path(density, law, POWER if settings.law == POWER_ONLY else LAW, 0)


@jit
def options_of(settings, dim):
    """Return how the chains move."""
    leapfrogs = settings.leapfrogs
    if leapfrogs == 0:
        leapfrogs = max(int(np.round(LEAPFROGS * dim**0.25)), 1)
    return Options(settings.moves, leapfrogs, settings.max_treedepth)


@jit
def target_rate(settings):
    """Acceptance rate to tune to."""
    if settings.target_accept > 0.0:
        return settings.target_accept
    return RATE_OF_WALKS if settings.moves == RANDOM_WALK else RATE_OF_TRAJECTORIES


@jit
def design_of(settings, levels, learns_law, levels_a_barrier):
    """Return what warm-up is to come to, with `levels` temperatures, 0 for as many as needed."""
    learns = learns_law and settings.law != POWER_ONLY
    return Design(
        levels, levels_a_barrier, settings.lowest, learns, settings.inflation,
        target_rate(settings), settings.step_size, settings.moves != RANDOM_WALK,
    )  # fmt: skip


def check_tempering(settings: tuple) -> None:
    """Raise StanadaptError for a setting out of range, among those that all have."""
    protocol.require_at_least_one(settings, "max_treedepth")
    protocol.require_fraction(settings, "target_accept", "lowest")
    protocol.require_at_least(settings, 0, "levels", "leapfrogs", "inflation")
    protocol.require_positive(settings, "step_size")
    name = protocol.find_name(settings)
    if settings.max_treedepth > LARGEST_DEPTH:
        raise StanadaptError(
            "settings",
            f"{name}: max_treedepth must be at most {LARGEST_DEPTH}, got {settings.max_treedepth}.",
        )
    if settings.levels == 1:
        raise StanadaptError(
            "settings", f"{name}: levels must be 0 (learned) or at least 2, got 1."
        )
    if settings.law == Law.power and settings.lowest == 0:
        raise StanadaptError(
            "settings",
            f"{name}: lowest must be above 0 with law=power, got {settings.lowest}: at b = 0 the "
            "power of the target is constant, and improper. Take 0.05, or law=gaussian.",
        )
