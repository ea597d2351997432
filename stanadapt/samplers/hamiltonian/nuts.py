"""Stan's No-U-Turn sampler (NUTS) on any density of this package.

Trajectories that end where they turn back, with a step size and a metric tuned during warm-up: the
first choice for a smooth posterior where CmdStan is not available, and the one to compare with.

References
----------
Hoffman and Gelman (2014), The No-U-Turn Sampler, JMLR 15; Betancourt (2017), A Conceptual
Introduction to Hamiltonian Monte Carlo. Trajectory (`nuts_tree`), step size
(`initial_step_size`, `dual_averaging`), metric (`welford`) and windows (`windows`) are those of
Stan's adapt_diag_e_nuts and adapt_dense_e_nuts. Deviation: without warm-up the step size is that of
`initial_step_size`, where Stan takes 1.

"""

from typing import NamedTuple

import numpy as np

from stanadapt.engine import adaptation
from stanadapt.engine.adaptation import Welford, learn_factor, no_draws, window_end, with_draw
from stanadapt.engine.compiled import triangular as factors
from stanadapt.engine.compiled.jit import jit
from stanadapt.engine.compiled.replace import replace
from stanadapt.engine.points import GradientPoint, gradient_at, unused_gradient
from stanadapt.engine.protocol import Memory, Sampler
from stanadapt.engine.registry import (
    register,
    require_at_least,
    require_at_most,
    require_positive,
    require_probability,
)
from stanadapt.samplers.hamiltonian import nuts_tree
from stanadapt.samplers.hamiltonian.leapfrog import Leapfrog, first_step


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
    """The current point, the rejected one, the trajectory's memory, and the tuning.

    leapfrog
        With L of the metric (L L^T)^-1, updated in place, stored as in `factor`.
    welford
        Moments of the window under way, updated in place.
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
    require_at_least(settings, 1, "max_treedepth")
    require_positive(settings, "step_size")
    require_at_most(settings, nuts_tree.LARGEST_DEPTH, "max_treedepth")


@jit
def init(density, settings, position, rng):
    """Start at position, shape (dim,), with a unit metric."""
    n = density.dim
    point, tree = gradient_at(density, position), nuts_tree.make_tree(n, settings.max_treedepth)
    leapfrog = Leapfrog(factors.initial(n, 1.0, not settings.dense), np.empty(n), np.empty(n))
    phase = nuts_tree.end_of(tree, 0)
    step_size = first_step(density, leapfrog, phase, point, settings.step_size, rng)
    # as in Stan, the center of the first phase is not that of the step size found
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
    found = nuts_tree.draw(density, leapfrog, tree, x, y, step_size, settings.max_treedepth, rng)
    info = Info(
        acceptance_rate=found.acceptance_rate,
        tree_depth=found.depth,
        n_steps=found.leaves,
        diverging=found.diverging,
        reached_max_treedepth=found.depth == settings.max_treedepth,
        energy=found.energy,
        step_size=step_size,
    )
    state = replace(state, averaging=averaging, step_size=step_size, new_metric=False)
    if found.moved:
        drawn = GradientPoint(y.position, found.log_density, y.gradient)
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


@jit
def freeze(settings, state):
    """Go on with the averaged step size; without warm-up, with the first one."""
    if state.averaging.count == 0:
        return state
    return replace(state, step_size=np.exp(state.averaging.log_mean))


register(
    Sampler(
        settings=Settings, state=State, info=Info, check=check, init=init, step=step, adapt=adapt,
        setting_aliases={"adapt_delta": "target_accept"},
        memory=Memory(dense_matrices=lambda settings: 2 if settings.dense else 0),
        workspace=("tree", "leapfrog.gradient", "leapfrog.velocity"),
        freeze=freeze, iter_warmup=1000, iter_sampling=1000, standardize="no",
    )
)  # fmt: skip
