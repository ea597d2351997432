"""Stan's No-U-Turn sampler (NUTS) on any density of this package.

Its trajectories end as soon as they turn back, and warm-up tunes the step size and the metric. Use
it for a smooth posterior if CmdStan is not available, and as a baseline for comparisons.

References
----------
Hoffman and Gelman (2014), The No-U-Turn Sampler, JMLR 15; Betancourt (2017), A Conceptual
Introduction to Hamiltonian Monte Carlo. Trajectory (`nuts_tree`), first step size (`leapfrog`), and
dual averaging, metric and windows (`adaptation`) are those of Stan's adapt_diag_e_nuts and
adapt_dense_e_nuts. Deviation: without warm-up, the step size is that of `first_step`; Stan uses 1.

"""

from typing import NamedTuple

import numpy as np

from stanadapt.engine import adaptation, nuts_tree
from stanadapt.engine.adaptation import Welford, learn_factor, no_draws, window_end, with_draw
from stanadapt.engine.compiled.jit import jit, rarely_called
from stanadapt.engine.compiled.replace import replace
from stanadapt.engine.leapfrog import Leapfrog, first_step
from stanadapt.engine.numerics import triangular as factors
from stanadapt.engine.points import GradientPoint, gradient_at, unused_gradient
from stanadapt.engine.protocol import Memory, Preset
from stanadapt.engine.registry import register
from stanadapt.engine.settings import Positive, Probability


class Settings(NamedTuple):
    """Settings of the sampler."""

    # acceptance rate, a mean over each trajectory, to which the step size is tuned
    target_accept: Probability = 0.8
    # largest number of doublings of a trajectory, which has at most 2^max_treedepth - 1
    # leapfrog steps, each one gradient
    max_treedepth: nuts_tree.Depth = 10
    # learn a full metric, with O(dim^2) operations per leapfrog step, instead of a diagonal
    # one, which ignores correlations
    dense: bool = False
    # start of the search for the first step size, in units of the unconstrained parameters
    step_size: Positive = 1.0


class State(NamedTuple):
    """The current point, the rejected one, the trajectory's memory, and the tuning.

    leapfrog
        Contains L of the metric (L L^T)^-1, updated in place, stored as in `triangular`.
    welford
        Moments of the current window, updated in place.
    new_metric
        The factor has changed: the next step begins with a search for a step size.

    """

    current: GradientPoint
    scratch: GradientPoint
    tree: nuts_tree.Tree
    leapfrog: Leapfrog
    welford: Welford
    averaging: adaptation.Averaging
    step_size: float
    new_metric: bool


class Info(NamedTuple):
    """Statistics of one iteration.

    acceptance_rate
        Mean of min(1, exp(-energy error)) over the leapfrogs.
    tree_depth, n_steps
        Numbers of completed doublings, and of leapfrogs.
    diverging
        The trajectory ended with an energy error above 1000, or because the density failed.
    reached_max_treedepth
        The trajectory was doubled as often as allowed.
    energy
        Energy of the draw with its momentum.
    step_size
        Step size of the leapfrogs.

    """

    acceptance_rate: float
    tree_depth: int
    n_steps: int
    diverging: bool
    reached_max_treedepth: bool
    energy: float
    step_size: float


@rarely_called
def init(density, settings, position, rng):
    """Start at position, shape (dim,), with a unit metric."""
    n = density.dim
    point, tree = gradient_at(density, position), nuts_tree.make_tree(n, settings.max_treedepth)
    leapfrog = Leapfrog(factors.initial(n, 1.0, not settings.dense), np.empty(n), np.empty(n))
    phase = nuts_tree.end_of(tree, 0)
    step_size = first_step(density, leapfrog, phase, point, settings.step_size, rng)
    # as in Stan, the first phase is centered by the setting, not by the step size just found
    averaging = adaptation.start(settings.step_size)
    return State(
        current=point,
        scratch=unused_gradient(n),
        tree=tree,
        leapfrog=leapfrog,
        welford=no_draws(n, not settings.dense),
        averaging=averaging,
        step_size=step_size,
        new_metric=False,
    )


@jit
def step(density, settings, state, rng):
    """Draw from a trajectory through the current point."""
    x, y, tree, leapfrog = state.current, state.scratch, state.tree, state.leapfrog
    averaging, step_size = state.averaging, state.step_size
    if state.new_metric:
        phase = nuts_tree.end_of(tree, 0)
        step_size = first_step(density, leapfrog, phase, x, step_size, rng)
        averaging = adaptation.start(step_size)
    path = nuts_tree.draw(density, leapfrog, tree, x, y, step_size, settings.max_treedepth, rng)
    info = Info(
        acceptance_rate=path.acceptance_rate,
        tree_depth=path.depth,
        n_steps=path.leaves,
        diverging=path.diverging,
        reached_max_treedepth=path.depth == settings.max_treedepth,
        energy=path.energy,
        step_size=step_size,
    )
    state = replace(state, averaging=averaging, step_size=step_size, new_metric=False)
    if path.moved:
        drawn = GradientPoint(y.position, path.log_density, y.gradient)
        return replace(state, current=drawn, scratch=x), info
    return state, info


@jit
def adapt(density, settings, state, info, t, iter_warmup):
    """Move the step size; learn the metric at the end of a window."""
    rate, target, welford = info.acceptance_rate, settings.target_accept, state.welford
    averaging = adaptation.update(state.averaging, rate, target)
    step_size, end = np.exp(averaging.log_step), window_end(t, iter_warmup)
    if end >= 0:
        welford = with_draw(welford, state.current.position)
    if t == end:
        welford = learn_factor(welford, state.leapfrog.factor)
    return replace(
        state, welford=welford, averaging=averaging, step_size=step_size, new_metric=t == end
    )  # fmt: skip


def freeze(settings: Settings, state: State) -> State:
    """Take the averaged step size; without warm-up, keep the first one."""
    if state.averaging.count == 0:
        return state
    return state._replace(step_size=float(np.exp(state.averaging.log_mean)))


register(
    __name__,
    setting_aliases={"adapt_delta": "target_accept"},
    memory=Memory(dense_matrices=lambda settings: 2 if settings.dense else 0),
    workspace=("tree", "leapfrog.gradient", "leapfrog.velocity"),
    iter_warmup=1000, iter_sampling=1000, standardize="no",
    # on an `Extended`: the paper's pseudo-extended sampler
    presets={
        "nemeth2019": Preset({"target_accept": 0.8, "max_treedepth": 10, "dense": False}),
    },
)  # fmt: skip
