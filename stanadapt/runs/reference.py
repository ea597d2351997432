"""Reference distributions for tempering, as users fit them.

They are made by the family of samplers that takes `reference_distribution`.
"""

import math
from typing import Any

from stanadapt.engine.plan import choose_seed
from stanadapt.engine.registry import load_all
from stanadapt.engine.starts import START_OPTIONS
from stanadapt.errors import StanadaptError, is_real, require_between
from stanadapt.runs.load import load
from stanadapt.samplers.initial_values import PATHFINDER
from stanadapt.targets.target import Samplable, require_samplable


def fit_reference(
    target: Samplable,
    source: Any = PATHFINDER,
    *,
    inflation: float = 0.0,
    degrees: float = math.inf,
    seed: int | None = None,
    show_progress: bool = True,
) -> Any:
    """Fit a reference distribution for tempering, by Pathfinder or from an earlier fit.

    `sample(target, "parallel_tempering", reference_distribution=source)` does the same. Use this
    function for an `Extended`, or to inspect the reference first.

    Parameters
    ----------
    target : Target or Extended
        A Stan program with its data, or a distribution built from one.
    source : optional
        "pathfinder": 16 climbs from random points, without those that end in a region of
        negligible mass; a result of `approximate`, with equal weights for all its paths; an earlier
        fit of the same program by any sampler, with the same data or others; or the file or run
        folder of a fit or an approximation.
    inflation : float
        Ratio of the spread of the reference to the spread of its source; 0 (default) stands for
        2^sqrt(2 / d), which is 2 in two dimensions.
    degrees : float
        Degrees of freedom of a Student t; infinity (default) stands for a Gaussian.
    seed : int, optional
        Seed of Pathfinder's starting points, from 0 to 2**32 - 1; default: random.
    show_progress : bool
        Whether to report steps that take longer than a second.

    Returns
    -------
    ReferenceDistribution
        A Gaussian or a Student t on the unconstrained scale.

    Raises
    ------
    StanadaptError
        Stage "settings" for another source; "initialization" for a fit of other parameters;
        "sampling" if every path failed.

    Examples
    --------
    >>> import stanadapt as sa
    >>> from stanadapt.runs.reference import fit_reference
    >>> program = "parameters { real x; } model { x ~ normal(1, 2); }"
    >>> target = sa.Target(program, backend="stanli", show_progress=False)
    >>> reference = fit_reference(target, seed=1, show_progress=False)
    >>> reference.mean.round(1)
    array([1.])
    """
    require_samplable(target)
    if not (is_real(inflation) and inflation == 0):
        inflation = require_between("inflation", inflation, 0.0, 1e6)
    seed = choose_seed(seed)
    load_all()
    option = START_OPTIONS.get("reference_distribution")
    if option is None or option.make is None:
        raise StanadaptError("option_not_used", "no sampler takes a reference_distribution.")
    source = load(source) if option.is_fit_file(source) else source
    return option.make(target, source, inflation, degrees, seed, show_progress)
