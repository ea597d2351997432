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

from stanadapt.engine import nuts_tree
from stanadapt.engine.adaptation import window_end
from stanadapt.engine.compiled.jit import jit, rarely_called
from stanadapt.engine.compiled.replace import replace
from stanadapt.engine.leapfrog import Leapfrog
from stanadapt.engine.points import GradientPoint, gradient_at, unused_gradient
from stanadapt.engine.protocol import KEEP_GRADIENT, Preset
from stanadapt.engine.registry import register
from stanadapt.engine.settings import Positive, Probability
from stanadapt.samplers.hamiltonian import windowed


class Settings(NamedTuple):
    # acceptance rate, a mean over each trajectory, to which the step size is tuned
    target_accept: Probability = 0.8
    # largest number of doublings of a trajectory, which has at most 2^max_treedepth - 1
    # leapfrog steps, each one gradient
    max_treedepth: nuts_tree.Depth = 10
    dense: windowed.Dense = False
    # start of the search for the first step size, in units of the unconstrained parameters
    step_size: Positive = 1.0


class State(NamedTuple):
    """The current point, the rejected one, the trajectory's memory, and the tuning."""

    current: GradientPoint
    scratch: GradientPoint
    tree: nuts_tree.Tree
    leapfrog: Leapfrog  # contains L of the metric (L L^T)^-1, updated in place
    tuning: windowed.Tuning


class Info(NamedTuple):
    acceptance_rate: float  # mean of min(1, exp(-energy error)) over the leapfrogs
    # tree_depth, n_steps: numbers of completed doublings, and of leapfrogs
    tree_depth: int
    n_steps: int
    # the trajectory ended with an energy error above 1000, or because the density failed
    diverging: bool
    reached_max_treedepth: bool  # the trajectory was doubled as often as allowed
    energy: float  # energy of the draw with its momentum
    step_size: float  # step size of the leapfrogs


@rarely_called
def init(density, settings, position, rng):
    """Start at position, shape (dim,), with a unit metric."""
    n = density.dim
    point, tree = gradient_at(density, position), nuts_tree.make_tree(n, settings.max_treedepth)
    leapfrog = windowed.unit_metric(n, settings.dense)
    tuning = windowed.begin(density, settings, leapfrog, nuts_tree.end_of(tree, 0), point, rng)
    return State(
        current=point, scratch=unused_gradient(n), tree=tree, leapfrog=leapfrog, tuning=tuning
    )


@jit
def step(density, settings, state, rng):
    """Draw from a trajectory through the current point."""
    x, y, tree, leapfrog = state.current, state.scratch, state.tree, state.leapfrog
    tuning = windowed.tuned(density, state.tuning, leapfrog, tree, x, rng)
    step_size = tuning.step_size
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
    state = replace(state, tuning=tuning)
    if path.moved:
        drawn = GradientPoint(y.position, path.log_density, y.gradient)
        return replace(state, current=drawn, scratch=x), info
    return state, info


@jit
def adapt(density, settings, state, info, t, iter_warmup):
    """Move the step size; learn the metric at the end of a window."""
    tuning = windowed.adapted(
        state.tuning, state.leapfrog, state.current.position, info.acceptance_rate,
        settings.target_accept, t, window_end(t, iter_warmup),
    )  # fmt: skip
    return replace(state, tuning=tuning)


def freeze(settings: Settings, state: State) -> State:
    """Take the averaged step size."""
    return state._replace(tuning=windowed.frozen(state.tuning))


register(
    __name__,
    setting_aliases={"adapt_delta": "target_accept"},
    memory=windowed.MEMORY,
    workspace=("tree", "leapfrog.gradient", "leapfrog.velocity"),
    iter_warmup=1000, iter_sampling=1000, standardize="no", extra_output=KEEP_GRADIENT,
    # on an `Extended`: the paper's pseudo-extended sampler
    presets={
        "nemeth2019": Preset({"target_accept": 0.8, "max_treedepth": 10, "dense": False}),
    },
)  # fmt: skip
