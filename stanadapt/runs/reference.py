"""The function users call to make a reference distribution for tempering out of something else."""

import math
import os
from os import PathLike
from typing import Any

from stanadapt.engine.plan import LARGEST_SEED
from stanadapt.errors import is_real, require_between, require_whole
from stanadapt.runs.load import load
from stanadapt.runs.pooled_reference import reference_from
from stanadapt.samplers.tempering.reference_distribution import ReferenceDistribution
from stanadapt.samplers.variational.methods import PATHFINDER
from stanadapt.targets.target import Samplable, require_samplable


def fit_reference(
    target: Samplable,
    source: Any = PATHFINDER,
    *,
    inflation: float = 0.0,
    degrees: float = math.inf,
    seed: int | None = None,
    show_progress: bool = True,
) -> ReferenceDistribution:
    """Make a reference distribution for tempering out of Pathfinder or an earlier fit.

    `sample(target, "parallel_tempering", reference_distribution=source)` does the same. Of use for
    an `Extended`, or to look at the reference before it is used.

    Parameters
    ----------
    target
        A Stan program with its data.
    source
        "pathfinder": 16 climbs from random points, those that end in places of no mass left out; a
        result of `approximate`, of which all paths count alike; an earlier fit of the same program,
        with these data or others, by any sampler; or the file or run folder of either.
    inflation
        Spread of the reference over that of what it is made from; 0: 2^sqrt(2 / d), which is 2 in
        two dimensions.
    degrees
        Degrees of freedom of a Student t; infinite, the default, for a Gaussian.
    seed
        Of Pathfinder's starts, 0 to 2**32 - 1; default: a random one.
    show_progress
        Say what takes longer than a second.

    Raises
    ------
    StanadaptError
        Stage "settings" for another source, "initialization" for a fit of other parameters,
        "sampling" where no path found anything.

    """
    require_samplable(target)
    if not (is_real(inflation) and inflation == 0):
        inflation = require_between("inflation", inflation, 0.0, 1e6)
    if seed is not None:
        seed = require_whole("seed", seed, 0, LARGEST_SEED)
    source = read_source(source)
    return reference_from(target, source, inflation, degrees, seed, show_progress).distribution


def read_source(source: Any) -> Any:
    """Return the fit where its file or run folder is given, and all else as it is."""
    # False too for names that the system refuses
    is_file = isinstance(source, str) and source != PATHFINDER and os.path.exists(source)
    return load(source) if is_file or isinstance(source, PathLike) else source
