"""Stan's No-U-Turn sampler (NUTS) on any density of this package.

Trajectories that end where they turn back, a step size and a metric tuned during warm-up: the
default choice for a smooth posterior, where CmdStan is not at hand, and the one to compare with.

References
----------
Hoffman and Gelman (2014), The No-U-Turn Sampler, JMLR 15; Betancourt (2017), A Conceptual
Introduction to Hamiltonian Monte Carlo. Trajectory (`nuts_tree`), step size (`first_step`,
`dual_averaging`), metric (`metric`) and windows (`warmup_windows`) are those of Stan's
adapt_diag_e_nuts and adapt_dense_e_nuts. Deviation: without warm-up the step size is that of
`first_step`, where Stan takes 1.

"""

from typing import NamedTuple

import numpy as np

from stanadapt import dual_averaging, metric, nuts_tree
from stanadapt import factor as factors
from stanadapt._jit import jit
from stanadapt.errors import StanadaptError
from stanadapt.first_step import first_step
from stanadapt.hamiltonian import Leapfrog
from stanadapt.points import GradientPoint, gradient_at, unused_gradient
from stanadapt.protocol import (
    Sampler,
    register,
    require_at_least_one,
    require_positive,
    require_probability,
)
from stanadapt.warmup_windows import window_end


class Settings(NamedTuple):
    """What the user chooses.

    target_accept
        Acceptance rate, a mean over each trajectory, to tune the step size to, in (0, 1).
    max_treedepth
        A trajectory is doubled at most so often: it has at most 2^max_treedepth - 1 leapfrogs,
        each one gradient; 1 to 25.
    dense
        Learn a full metric: O(dim^2) a leapfrog, not blind to correlations. Else a diagonal one.
    step_size
        Where the search for the first step size begins, in units of the unconstrained
        parameters; > 0.

    """

    target_accept: float = 0.8
    max_treedepth: int = 10
    dense: bool = False
    step_size: float = 1.0


class State(NamedTuple):
    """The current and the losing point, the trajectory's memory, and the tuning.

    leapfrog
        With L of the metric (L L^T)^-1, updated in place, stored as in `factor`.
    welford
        Moments of the window under way, updated in place.
    new_metric
        The factor has changed: the next step begins with a search for a step size.

    """

    current: GradientPoint
    other: GradientPoint
    tree: nuts_tree.Tree
    leapfrog: Leapfrog
    welford: metric.Welford
    averaging: dual_averaging.Averaging
    step_size: float
    new_metric: bool


class Info(NamedTuple):
    """What one iteration reports.

    acceptance_rate
        Mean of min(1, exp(-energy error)) over the leapfrogs.
    tree_depth, n_steps
        Doublings that were completed, and leapfrogs.
    diverging
        The trajectory ended in an energy error above 1000, or where the density failed.
    reached_max_treedepth
        It was doubled as often as allowed.
    energy
        Of the draw with its momentum.
    step_size
        Of the leapfrogs.

    """

    acceptance_rate: float
    tree_depth: int
    n_steps: int
    diverging: bool
    reached_max_treedepth: bool
    energy: float
    step_size: float


def check(settings: Settings) -> None:
    """Raise StanadaptError for a setting out of range."""
    require_probability(settings, "target_accept")
    require_at_least_one(settings, "max_treedepth")
    require_positive(settings, "step_size")
    if settings.max_treedepth > nuts_tree.LARGEST_DEPTH:
        raise StanadaptError(
            "settings",
            f"nuts: max_treedepth must be at most {nuts_tree.LARGEST_DEPTH}, "
            f"got {settings.max_treedepth}.",
        )


@jit
def init(density, settings, position, rng):
    """Start at position, shape (dim,), with a unit metric."""
    n = density.dim
    point, tree = gradient_at(density, position), nuts_tree.make_tree(n, settings.max_treedepth)
    leapfrog = Leapfrog(factors.initial(n, 1.0, not settings.dense), np.empty(n), np.empty(n))
    phase = nuts_tree.end_of(tree, 0)
    step_size = first_step(density, leapfrog, phase, point, settings.step_size, rng)
    # as in Stan, the centre of the first phase is not that of the step size found
    averaging = dual_averaging.start(settings.step_size)
    return State(
        point, unused_gradient(n), tree, leapfrog,
        metric.no_draws(n, not settings.dense), averaging, step_size, False,
    )  # fmt: skip


@jit
def step(density, settings, state, rng):
    """Draw from a trajectory through the current point."""
    x, y, tree, leapfrog, welford, averaging, step_size, new_metric = state
    if new_metric:
        phase = nuts_tree.end_of(tree, 0)
        step_size = first_step(density, leapfrog, phase, x, step_size, rng)
        averaging = dual_averaging.start(step_size)
    found = nuts_tree.draw(density, leapfrog, tree, x, y, step_size, settings.max_treedepth, rng)
    info = Info(
        found.acceptance_rate, found.depth, found.leaves, found.diverging,
        found.depth == settings.max_treedepth, found.energy, step_size,
    )  # fmt: skip
    if found.moved:
        x, y = GradientPoint(y.position, found.log_density, y.gradient), x
    return State(x, y, tree, leapfrog, welford, averaging, step_size, False), info


@jit
def adapt(density, settings, state, info, t, iter_warmup):
    """Move the step size; learn the metric at the end of a window."""
    x, y, tree, leapfrog, welford, averaging, step_size, new_metric = state
    averaging = dual_averaging.update(averaging, info.acceptance_rate, settings.target_accept)
    step_size = np.exp(averaging.log_step)
    end = window_end(t, iter_warmup)
    if end >= 0:
        welford = metric.with_draw(welford, x.position)
    new_metric = t == end
    if new_metric:
        welford = metric.learn(welford, leapfrog.factor)
    return State(x, y, tree, leapfrog, welford, averaging, step_size, new_metric)


@jit
def freeze(settings, state):
    """Go on with the averaged step size; without warm-up, with the first one."""
    x, y, tree, leapfrog, welford, averaging, step_size, new_metric = state
    if averaging.count > 0:
        step_size = np.exp(averaging.log_mean)
    return State(x, y, tree, leapfrog, welford, averaging, step_size, new_metric)


register(
    Sampler(Settings, Info, check, init, step, adapt, freeze, iter_warmup=1000, iter_sampling=1000)
)
