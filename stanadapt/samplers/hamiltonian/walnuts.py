"""WALNUTS: the No-U-Turn sampler with step sizes that adapt within each trajectory.

For smooth posteriors whose scales vary from place to place, such as funnels and horseshoes. In
regions of high curvature, a step is divided into 2, 4, 8, ... leapfrog steps until the energy is
conserved well enough, and a reverse search makes this exact. Divergences are rare, and draws reach
the neck of a funnel. If scales do not vary, it needs more gradients than `nuts`.

References
----------
Bou-Rabee, Carpenter, Kleppe and Liu (2026), The within-orbit adaptive leapfrog No-U-Turn sampler,
JMLR 27, arXiv 2506.18746; orbit: `walnuts_orbit`. Metric, windows and dual averaging are those of
`nuts`. As in appendix C of the paper, the macro step is tuned so that a given share of steps is not
divided. Deviations: moves of dual averaging are a quarter as long as those of `nuts`; the tolerance
of the energy is fixed, whereas appendix C tunes it; the share refers to all steps that were tried,
so an iteration whose first step fails counts as zero; and before the first window of warm-up, which
may begin far from the mass, the energy may fall by any amount.
"""

from typing import Annotated, NamedTuple

from stanadapt.engine import nuts_tree
from stanadapt.engine.adaptation import window_end
from stanadapt.engine.compiled.jit import jit, rarely_called
from stanadapt.engine.compiled.replace import replace
from stanadapt.engine.leapfrog import Leapfrog
from stanadapt.engine.points import GradientPoint, gradient_at, unused_gradient
from stanadapt.engine.registry import register
from stanadapt.engine.settings import Between, Fraction, Positive, Probability
from stanadapt.samplers.hamiltonian import walnuts_orbit, windowed

# the share of a short trajectory is often 0 or 1: with moves as long as those of `nuts`, macro
# steps would end far above the target share
DAMPING = 0.25


class Settings(NamedTuple):
    # share of the macro steps of a trajectory that need no refinement, to which the length of
    # macro steps is tuned
    target_accept: Probability = 0.8
    # Largest difference between the energies at both ends of a macro step, in units of the log
    # density. A step that exceeds it is refined.
    energy_tolerance: Positive = 1.0
    # largest number of times that a macro step is halved: it then consists of 2^max_halvings
    # leapfrog steps, each one gradient
    max_halvings: Annotated[int, Between(0, walnuts_orbit.MOST_HALVINGS, "[]")] = 8
    # Probability of one halving more than needed. It makes refined steps reversible more
    # often; a refined step that is not reversible ends the trajectory. With 0, a step that
    # needs no refinement costs one gradient; with 1/3, it costs two on average.
    extra_halving: Fraction = 1.0 / 3.0
    # largest number of doublings of a trajectory, which has at most 2^max_treedepth - 1 macro
    # steps
    max_treedepth: nuts_tree.Depth = 10
    dense: windowed.Dense = False
    # start of the search for the first macro step, in units of the unconstrained parameters
    step_size: Positive = 1.0


class State(NamedTuple):
    """The current point, the rejected one, the orbit's memory, and the tuning."""

    current: GradientPoint
    scratch: GradientPoint
    orbit: walnuts_orbit.Orbit
    leapfrog: Leapfrog  # contains L of the metric (L L^T)^-1, updated in place
    tuning: windowed.Tuning  # of macro steps
    # whether warm-up has not reached its first window: the energy may fall by any amount
    descending: bool


class Info(NamedTuple):
    acceptance_rate: float  # share of macro steps that needed no refinement
    # tree_depth, n_steps: numbers of completed doublings; of leapfrogs, those of steps that were
    # tried and of reverse steps included
    tree_depth: int
    n_steps: int
    # refined, halvings: number of macro steps that needed refinement; how often a macro step was
    # halved at most
    refined: int
    halvings: int
    diverging: bool  # the trajectory ended at a macro step that failed however often it was halved
    reached_max_treedepth: bool  # the trajectory was doubled as often as allowed
    energy: float  # energy of the draw with its momentum
    step_size: float  # length of a macro step


@rarely_called
def init(density, settings, position, rng):
    """Start at position, shape (dim,), with a unit metric."""
    n = density.dim
    point = gradient_at(density, position)
    orbit = walnuts_orbit.make_orbit(n, settings.max_treedepth)
    leapfrog, phase = windowed.unit_metric(n, settings.dense), nuts_tree.end_of(orbit.tree, 0)
    return State(
        current=point,
        scratch=unused_gradient(n),
        orbit=orbit,
        leapfrog=leapfrog,
        tuning=windowed.begin(density, settings, leapfrog, phase, point, rng),
        descending=True,
    )


@jit
def step(density, settings, state, rng):
    """Draw from an orbit through the current point."""
    x, y, orbit, leapfrog = state.current, state.scratch, state.orbit, state.leapfrog
    tuning = windowed.tuned(density, state.tuning, leapfrog, orbit.tree, x, rng)
    steps = walnuts_orbit.Steps(
        tuning.step_size, settings.energy_tolerance, settings.max_halvings, settings.extra_halving,
        state.descending,
    )  # fmt: skip
    path = walnuts_orbit.draw(density, leapfrog, orbit, x, y, steps, settings.max_treedepth, rng)
    counts = path.counts
    info = Info(
        acceptance_rate=counts.unrefined / counts.leaves,
        tree_depth=path.depth,
        n_steps=counts.gradients,
        refined=counts.leaves - counts.unrefined,
        halvings=counts.halvings,
        diverging=path.diverging,
        reached_max_treedepth=path.depth == settings.max_treedepth,
        energy=path.energy,
        step_size=tuning.step_size,
    )
    state = replace(state, tuning=tuning)
    if path.moved:
        drawn = GradientPoint(y.position, path.log_density, y.gradient)
        return replace(state, current=drawn, scratch=x), info
    return state, info


@jit
def adapt(density, settings, state, info, t, iter_warmup):
    """Move the macro step; learn the metric at the end of a window."""
    target, end = settings.target_accept, window_end(t, iter_warmup)
    damped = target + DAMPING * (info.acceptance_rate - target)
    tuning = windowed.adapted(
        state.tuning, state.leapfrog, state.current.position, damped, target, t, end
    )
    return replace(state, tuning=tuning, descending=state.descending and end < 0)


def freeze(settings: Settings, state: State) -> State:
    """Take the averaged macro step."""
    return state._replace(tuning=windowed.frozen(state.tuning), descending=False)


register(
    __name__,
    memory=windowed.MEMORY,
    workspace=("orbit", "leapfrog.gradient", "leapfrog.velocity"),
    iter_warmup=1000, iter_sampling=1000, standardize="no",
)  # fmt: skip
