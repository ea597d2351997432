"""Tuning in Stan's windows of warm-up, for trajectories on a Euclidean metric: `nuts`, `walnuts`.

Dual averaging moves the step size. Each window ends with a new metric (L L^T)^-1, and the next
iteration searches for a step size that suits it, from which averaging begins again. All of it is
compiled into `adapt`: schedule, averaging and covariance are those of `engine/adaptation`.
"""

from typing import Annotated, NamedTuple

import numpy as np

from stanadapt.engine import adaptation, nuts_tree
from stanadapt.engine.compiled.jit import inline, jit
from stanadapt.engine.compiled.replace import replace
from stanadapt.engine.leapfrog import Leapfrog, first_step
from stanadapt.engine.numerics import triangular as factors
from stanadapt.engine.protocol import Memory

Dense = Annotated[
    bool,
    "learn a full metric, with O(dim^2) operations per leapfrog step, instead of a diagonal one, "
    "which ignores correlations",
]


class Tuning(NamedTuple):
    """The step size, and what warm-up knows of it and of the metric."""

    step_size: float
    averaging: adaptation.Averaging
    welford: adaptation.Welford  # moments of the current window, updated in place
    new_metric: bool  # the factor has changed: the next step begins with a search for a step size


@jit
def unit_metric(dim, dense):
    """Return a Leapfrog with a unit metric; its factor L is stored as in `triangular`."""
    return Leapfrog(factors.initial(dim, 1.0, not dense), np.empty(dim), np.empty(dim))


@jit
def begin(density, settings, leapfrog, phase, point, rng):
    """Search for the first step size at a point; `phase` is workspace."""
    step_size = first_step(density, leapfrog, phase, point, settings.step_size, rng)
    # as in Stan, the first phase is centered by the setting, not by the step size just found
    averaging = adaptation.start(settings.step_size)
    welford = adaptation.no_draws(density.dim, not settings.dense)
    return Tuning(step_size, averaging, welford, False)


@jit
def tuned(density, tuning, leapfrog, tree, point, rng):
    """Return the tuning of an iteration: if there is a new metric, search for a step size first."""
    if not tuning.new_metric:
        return tuning
    phase = nuts_tree.end_of(tree, 0)
    step_size = first_step(density, leapfrog, phase, point, tuning.step_size, rng)
    averaging = adaptation.start(step_size)
    return replace(tuning, step_size=step_size, averaging=averaging, new_metric=False)


@inline
def adapted(tuning, leapfrog, position, acceptance_rate, target, t, end):
    """Move the step size after iteration t; learn the metric if it is the end of its window."""
    averaging = adaptation.update(tuning.averaging, acceptance_rate, target)
    welford = tuning.welford
    if end >= 0:
        welford = adaptation.with_draw(welford, position)
    if t == end:
        welford = adaptation.learn_factor(welford, leapfrog.factor)
    return Tuning(np.exp(averaging.log_step), averaging, welford, t == end)


def frozen(tuning: Tuning) -> Tuning:
    """Take the averaged step size; without warm-up, keep the first one."""
    if tuning.averaging.count == 0:
        return tuning
    return tuning._replace(step_size=float(np.exp(tuning.averaging.log_mean)))


# the factor, and the products of deviations
MEMORY = Memory(dense_matrices=lambda settings: 2 if settings.dense else 0)
