"""Settings that samplers which temper share: their declarations, their checks, their use."""

from collections.abc import Sequence
from enum import IntEnum
from typing import Annotated, Any

import numpy as np

from stanadapt.engine.density import Density
from stanadapt.engine.nuts_tree import Depth
from stanadapt.engine.registry import find_name
from stanadapt.engine.settings import (
    CountOrZero,
    Fraction,
    NotNegative,
    Numbers,
    Positive,
    setting_error,
    shown_numbers,
)
from stanadapt.errors import StanadaptError
from stanadapt.samplers.tempering.moves import RANDOM_WALK, MoveKernel, Options
from stanadapt.samplers.tempering.path import DISTRIBUTION, POWER, TemperingPath
from stanadapt.samplers.tempering.reference_distribution import make_reference
from stanadapt.samplers.tempering.warmup_rounds import WarmupDesign

# degrees of freedom of a learned Student t; spread of the reference before anything has been
# learned, that of Stan's random starts
DEGREES, FIRST_SCALE = 5.0, 2.0
RATE_OF_TRAJECTORIES, RATE_OF_WALKS = 0.8, 0.3
# largest number of leapfrogs over the fourth root of the dimension, with which the best number
# grows (Beskos et al. 2013, Bernoulli 19). At equal gradients, on a Boltzmann relaxation in 26
# dimensions, 1 to 5 differ in error by less than a tenth, and 5 leave the least time outside
# gradients (9 %; 3: 16 %). Round modes need fewer: in 20 dimensions 2 give twice the effective
# draws of 4, in two dimensions 1 gives half as many again as 2; but 1 gets stuck in the arms of a
# strongly bent banana
LEAPFROGS = 2.0
# 1,000 equal steps, as in the experiments of Nemeth, Lindsten, Filippone and Hensman (2019)
EQUAL_STEPS = tuple(np.linspace(1.0, 0.0, 1001).tolist())


class ReferenceFamily(IntEnum):
    """Family of the distribution at the hot end of the path."""

    gaussian = 0
    student_t = 1
    power = 2


# for compiled code
STUDENT_T, POWER_ONLY = int(ReferenceFamily.student_t), int(ReferenceFamily.power)

# settings that have the same meaning in several samplers
Kernel = Annotated[
    MoveKernel,
    "Moves at each temperature: hmc (1 to `leapfrogs` leapfrog steps), nuts, or random_walk, which "
    "needs no gradient.",
]
Leapfrogs = Annotated[
    CountOrZero,
    "Largest number of leapfrog steps in a trajectory of hmc; 0: twice the fourth root of the "
    "dimension. If modes are round, 1 or 2 give more effective draws per gradient.",
]
TreeDepth = Annotated[Depth, "largest depth of a tree of nuts"]
TargetAccept = Annotated[
    Fraction,
    "acceptance rate to which the step size at each temperature is tuned; 0: 0.8, or 0.3 for "
    "random_walk",
]
Levels = Annotated[
    CountOrZero,
    "number of temperatures, at least 2; 0: two and a half times the barrier, but at least 16",
]
Ladder = Annotated[
    Numbers,
    "Your own ladder instead of a learned one: inverse temperatures in strictly decreasing order, "
    "from 1 (the target) to 0 (the reference), or to a number above 0; in that case, the evidence "
    "is not estimated. For temperatures such as 1, 2.8, ..., 60, give 1 divided by each. "
    "Normalizing constants, step sizes and the reference are still learned.",
]
Family = Annotated[
    ReferenceFamily,
    "Family of the reference distribution: gaussian, student_t (5 degrees of freedom), or power, "
    "for powers of the target without a reference, which are improper for most targets.",
]
Inflation = Annotated[
    NotNegative,
    "Ratio of the spread of a learned reference to that of the draws from which it is learned; 0: "
    "2^sqrt(2 / d) in d dimensions, which is 2 in two. Before the last fit of warm-up, the ratio "
    "is at least 4.",
]
MinInverseTemperature = Annotated[
    Fraction,
    "Smallest inverse temperature; must be above 0 for the family power. If it is above 0, the "
    "evidence is not estimated.",
]
StepSize = Annotated[Positive, "initial step size, in units of the unconstrained parameters"]


def first_path(density: Density, settings: Any) -> TemperingPath:
    """Return the path with a reference to be learned during warm-up."""
    dim = density.dim
    degrees = DEGREES if settings.reference_family == STUDENT_T else np.inf
    reference = make_reference(np.zeros(dim), np.full((1, dim), FIRST_SCALE), degrees)
    return TemperingPath(
        density, reference, POWER if settings.reference_family == POWER_ONLY else DISTRIBUTION, 0
    )


def options_of(settings: Any, dim: int) -> Options:
    """Return how the chains move."""
    leapfrogs = settings.leapfrogs or max(round(LEAPFROGS * dim**0.25), 1)
    return Options(settings.kernel, leapfrogs, settings.max_treedepth)


def design_of_path(
    settings: Any,
    dim: int,
    learns_reference: bool,
    *,
    levels: int = 0,
    given: Sequence[float] = (),
) -> tuple[Options, WarmupDesign]:
    """Return how the chains of the path move, and the design of its warm-up.

    Whatever ladder the settings have, the path may learn another one.
    """
    ladder: Sequence[float] = getattr(settings, "inverse_temperatures", ())
    options = options_of(settings, dim)
    walks = options.kernel == RANDOM_WALK
    lowest = ladder[-1] if len(ladder) else getattr(settings, "min_inverse_temperature", 0.0)
    design = WarmupDesign(
        levels=levels,
        min_inverse_temperature=float(lowest),
        fits_reference=learns_reference and settings.reference_family != POWER_ONLY,
        inflation=settings.inflation,
        uses_gradient=not walks,
        given=np.array(given, dtype=float),
        target_accept=settings.target_accept or (RATE_OF_WALKS if walks else RATE_OF_TRAJECTORIES),
    )
    return options, design


def check_levels(settings: Any) -> None:
    """Raise StanadaptError for a ladder of one temperature."""
    if settings.levels == 1:
        name = find_name(settings)
        raise setting_error(f"{name}: levels must be 0 (learned) or at least 2, got 1.")


def check(settings: Any) -> None:
    """Raise StanadaptError for settings of a sampler with a ladder that contradict each other."""
    check_levels(settings)
    name, given = find_name(settings), getattr(settings, "inverse_temperatures", ())
    check_ladder(settings, levels=0, min_inverse_temperature=0.0)
    power = settings.reference_family == ReferenceFamily.power
    if power and (given[-1] if given else settings.min_inverse_temperature) == 0:
        lowest = "the last of inverse_temperatures" if given else "min_inverse_temperature"
        raise StanadaptError(
            "improper_powers",
            f"{name}: {lowest} must be above 0 with reference_family=power, got 0: at b = 0 the "
            "power of the target is constant and improper. Use 0.05, or reference_family=gaussian.",
        )


def check_ladder(settings: Any, **replaced: float) -> None:
    """Raise StanadaptError unless a ladder that was given is one, and is not given twice.

    `replaced` are settings that a ladder replaces, with their defaults.
    """
    given = getattr(settings, "inverse_temperatures", ())
    if not given:
        return
    name, problem = find_name(settings), _problem_of_ladder(given)
    if problem:
        raise StanadaptError(
            "invalid_temperatures",
            f"{name}: inverse_temperatures must {problem}, got {shown_numbers(given)}.",
        )
    for other, default in replaced.items():
        if getattr(settings, other) != default:
            raise StanadaptError(
                "temperatures_conflict",
                f"{name}: {other}={getattr(settings, other):g} and inverse_temperatures both set "
                "the ladder: give only one of them.",
            )


def _problem_of_ladder(given: Sequence[float]) -> str:
    """Return the first requirement that a ladder fails; "" if it meets all."""
    if given[0] != 1.0:
        return "start at 1, which is the target"
    if len(given) == 1:
        return "have at least two numbers"
    if given[-1] > given[0]:
        return "decrease from 1 (if you have increasing temperatures, give 1 divided by each)"
    for k in range(1, len(given)):
        if given[k] >= given[k - 1]:
            return f"decrease strictly, and number {k + 1} is not below number {k}"
    return "not be below 0" if given[-1] < 0.0 else ""
