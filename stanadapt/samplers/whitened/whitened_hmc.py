"""Hamiltonian Monte Carlo on a posterior whitened during warm-up: the default.

All chains together learn location, scales and correlations from draws and gradients, in a few
hundred iterations. On the whitened posterior one trajectory of fixed length, two gradients per
draw, or four if it is curved moderately, is as good as one of NUTS with seven or more. If a
pilot run shows that such trajectories do not suit the posterior, NUTS runs with the learned metric.
Funnels, curved valleys and Gaussian blocks are straightened. The result records the choice and the
reason for it.

References
----------
Metric: Seyboldt, Carlson and Carpenter (2026), Preconditioning Hamiltonian Monte Carlo by
minimizing Fisher divergence, arXiv 2603.18845, here pooled over chains. Integrator: Blanes, Casas
and Sanz-Serna (2014), see `two_stage_move`. NUTS: see the sampler `nuts`. The schedule, its lengths
and the rule that chooses between the two are ours: `samplers/whitened/schedule.py`.

The draws of a chain depend on the number of chains, since they learn together.

"""

from typing import NamedTuple

import numpy as np

from stanadapt.engine import adaptation, metric_factor, nuts_tree, points, triangular_map
from stanadapt.engine.compiled.by_reference import pointer_to
from stanadapt.engine.compiled.jit import as_python, jit
from stanadapt.engine.compiled.replace import replace
from stanadapt.engine.density import Density
from stanadapt.engine.leapfrog import (
    LARGEST_ENERGY_ERROR,
    Around,
    Leapfrog,
    first_step,
    moves_around,
    rotating_move,
    two_stage_move,
)
from stanadapt.engine.numerics.vectors import copy, fill_normal, squared_norm
from stanadapt.engine.protocol import KEEP_GRADIENT, Memory
from stanadapt.engine.registry import register
from stanadapt.engine.settings import Fraction, Positive, Probability
from stanadapt.samplers.whitened import schedule, window
from stanadapt.samplers.whitened.around_gaussian import LONGEST_TURN, nowhere
from stanadapt.samplers.whitened.choose_trajectory import Trajectory
from stanadapt.samplers.whitened.climb import Climb, no_climb
from stanadapt.samplers.whitened.earlier_draws import init_from_draws
from stanadapt.samplers.whitened.fisher_metric import Metric
from stanadapt.samplers.whitened.further_climbs import NO_FURTHER, Further
from stanadapt.samplers.whitened.probes import NO_PROBES, Probes
from stanadapt.samplers.whitened.stage_parts import NUTS_CENTER

# largest scale of a coordinate at a start, in units of its position: near a mode a gradient may be
# 1e-250, and with a scale of 1e125 the search for a step size, which halves a hundred times, fails
FARTHEST = 1e30


class Settings(NamedTuple):
    # chosen: by the pilot run. fixed: trajectories of fixed length. nuts: NUTS.
    trajectory: Trajectory = Trajectory.chosen
    # automatic: scales, and as many correlations as the draws support. diagonal: only scales.
    metric: Metric = Metric.automatic
    # acceptance rate to which the step size of fixed trajectories is tuned
    target_accept: Probability = 0.87
    nuts_target_accept: Probability = 0.8  # the same for NUTS, a mean over each trajectory
    # Largest length of a fixed trajectory before jitter, in units of the whitened posterior.
    # The trajectory is shorter if the posterior requires shorter steps. Above 1.8, means are
    # estimated better, but all other quantities worse.
    trajectory_length: Positive = 1.8
    # The step size of each fixed trajectory is drawn from step_size * (1 +- jitter). If there
    # are three or more steps, their number n is drawn too, from 0.6 n to 1.4 n.
    jitter: Fraction = 0.2
    # whether NUTS is tuned to an acceptance rate of 0.95 if its trajectories diverge in a
    # pilot, and to 0.99, with new draws, if more than 0.1% do in sampling
    shorten: bool = True
    # whether to learn a map that straightens funnels and curved ridges; without one, they are
    # sampled in the program's own coordinates
    straighten: bool = True
    # largest depth of a tree of NUTS, which has at most 2^max_treedepth - 1 leapfrog steps
    max_treedepth: nuts_tree.Depth = 10


class State(NamedTuple):
    """The current point, the rejected one, the memory of a trajectory, and the tuning."""

    current: points.GradientPoint
    scratch: points.GradientPoint
    tree: nuts_tree.Tree
    leapfrog: Leapfrog  # workspace with the factor of the metric, stored as in `metric_factor`
    tuning: window.Tuning  # the kernel, its step size, and the state of its adaptation
    record: window.Record  # record of this chain since the chains were last pooled
    force: np.ndarray  # L^T g at the current point, shape (dim,), if `tuning.force_known`
    around: Around | None  # the Gaussian that trajectories of many parameters move around
    # the map to the coordinates y in which trajectories move; empty if they are the program's
    straightening: triangular_map.TriangularMap
    climb: Climb  # the climb that is due before the next iteration, or the findings of the last one
    further: Further  # climbs from other starts that are due then, and their ends
    probes: Probes  # gradients that are due before the next iteration, or were computed then


class Info(NamedTuple):
    # acceptance probability of the end of a fixed trajectory; with NUTS, the mean of min(1,
    # exp(-energy error))
    acceptance_rate: float
    # n_steps, tree_depth: gradients of the trajectory; doublings of NUTS, 0 for a fixed trajectory
    n_steps: int
    tree_depth: int
    diverging: bool  # whether the energy error exceeded 1000, or the density failed
    reached_max_treedepth: bool  # whether NUTS was doubled as often as allowed
    energy: float  # energy of the draw with its momentum
    step_size: float  # step size in units of the whitened posterior


def init(
    density: Density, settings: Settings, position: np.ndarray, rng: np.random.Generator
) -> State:
    """Start at position, shape (dim,), with NUTS, and with scales from the gradient.

    Not compiled, since it makes one evaluation. The first iteration searches for a step size.
    """
    n, point = density.dim, points.start_at(density, position)
    steep = point.gradient != 0.0
    factor = np.ones((1, n))
    factor[0, steep] = np.minimum(
        1.0 / np.sqrt(np.abs(point.gradient[steep])),
        FARTHEST * np.maximum(np.abs(position[steep]), 1.0),
    )
    tuning = window.Tuning(
        two_stage=False,
        step_size=1.0,
        n_steps=1,
        averaging=as_python(adaptation.centered)(1.0, NUTS_CENTER),
        learns_step=False,
        search=NUTS_CENTER,
        nuts_target_accept=settings.nuts_target_accept,
        max_treedepth=settings.max_treedepth,
        force_known=False,
    )
    return State(
        current=point,
        scratch=as_python(points.unused_gradient)(n),
        tree=as_python(nuts_tree.make_tree)(n, settings.max_treedepth),
        leapfrog=Leapfrog(factor, np.empty(n), np.empty(n)),
        tuning=tuning,
        record=as_python(window.no_record)(n),
        force=np.empty(n),
        around=nowhere(n),
        straightening=triangular_map.no_map(),
        climb=no_climb(),
        probes=NO_PROBES,
        further=NO_FURTHER,
    )


class Moved(NamedTuple):
    """The result of a trajectory: whether it moved, to a point in `scratch`, and the tuning."""

    moved: bool
    log_density: float
    tuning: window.Tuning


@jit
def step(density, settings, state, rng):
    """Make a trajectory, in the coordinates of the map if any."""
    current, scratch = state.current, state.scratch
    # the same code with and without a map: two kinds of densities would be compiled one by one
    straightened = pointer_to(
        triangular_map.MappedDensity(density, state.straightening, density.dim)
    )
    x = triangular_map.enter(state.straightening, current)
    # parts of the state, since every function that is given all of it takes long to compile
    leapfrog, tree, tuning = state.leapfrog, state.tree, state.tuning
    if tuning.two_stage:
        made, info = _fixed(
            straightened, settings, leapfrog, tree, state.force, state.around, tuning, x, scratch,
            rng,
        )  # fmt: skip
    else:
        made, info = _nuts(straightened, leapfrog, tree, state.around, tuning, x, scratch, rng)
    if made.moved:
        point = points.GradientPoint(scratch.position, made.log_density, scratch.gradient)
        current, scratch = triangular_map.leave(state.straightening, point), current
    return replace(state, current=current, scratch=scratch, tuning=made.tuning), info


@jit
def _fixed(density, settings, leapfrog, tree, force, around, tuning, x, y, rng):
    """Follow a trajectory of fixed length from x, accept or reject its end; write it into y."""
    end = nuts_tree.end_of(tree, 1)
    # the last iteration used NUTS or another metric; with a map, the gradient in y is recomputed
    # from that in x, so that a resumed chain continues with the same bits
    if not tuning.force_known or triangular_map.is_used(density.straightening):
        metric_factor.transposed_times(leapfrog.factor, x.gradient, force)
    copy(x.position, end.position)
    copy(force, end.force)
    fill_normal(rng, end.momentum)
    start = 0.5 * squared_norm(end.momentum) - x.log_density
    step_size = tuning.step_size * (1.0 + settings.jitter * (2.0 * rng.random() - 1.0))
    n_steps = tuning.n_steps
    if n_steps > 2:  # for one or two steps, the jitter of the step size is enough
        n_steps = max(1, int(n_steps * (0.6 + 0.8 * rng.random()) + 0.5))
    log_density, energy, made, diverging = -np.inf, start, 0, False
    if around is not None and moves_around(around):
        copy(around.here, around.moving)
    # the trajectory does not stop at a large energy error: the reverse one might end elsewhere
    for _ in range(n_steps):
        made += 1
        if around is not None and moves_around(around):
            log_density = rotating_move(density, leapfrog, around, end, step_size)
        else:
            log_density = two_stage_move(density, leapfrog, end, step_size)
        energy = 0.5 * squared_norm(end.momentum) - log_density
        diverging |= not energy - start <= LARGEST_ENERGY_ERROR
        if not log_density > -np.inf:
            break
    rate = points.acceptance_probability(start - energy)
    accepted = rng.random() < rate
    if accepted:
        copy(end.position, y.position)
        copy(leapfrog.gradient, y.gradient)
        copy(end.force, force)
        if around is not None and moves_around(around):
            copy(around.moving, around.here)
    info = Info(
        acceptance_rate=rate,
        n_steps=2 * made,
        tree_depth=0,
        diverging=diverging,
        reached_max_treedepth=False,
        energy=energy if accepted else start,
        step_size=step_size,
    )
    return Moved(accepted, log_density, replace(tuning, force_known=True)), info


@jit
def _nuts(density, leapfrog, tree, around, tuning, x, y, rng):
    """Draw y from a trajectory of NUTS from x, after a search for its step size if one is due."""
    if tuning.search > 0.0:
        end = nuts_tree.end_of(tree, 1)
        found = first_step(density, leapfrog, end, x, tuning.step_size, rng, around)
        if moves_around(around):  # no step fails in a Gaussian
            found = min(found, LONGEST_TURN)
        averaging = adaptation.centered(found, tuning.search)
        tuning = replace(tuning, step_size=found, averaging=averaging, search=0.0)
    drawn = nuts_tree.draw(
        density, leapfrog, tree, x, y, tuning.step_size, tuning.max_treedepth, rng, around
    )
    info = Info(
        acceptance_rate=drawn.acceptance_rate,
        n_steps=drawn.leaves,
        tree_depth=drawn.depth,
        diverging=drawn.diverging,
        reached_max_treedepth=drawn.depth == tuning.max_treedepth,
        energy=drawn.energy,
        step_size=tuning.step_size,
    )
    return Moved(drawn.moved, drawn.log_density, tuning), info


@jit
def adapt(density, settings, state, info, t, iter_warmup):
    """Adjust the step size, and record the draws that the chains are to learn from."""
    tuning, record = state.tuning, state.record
    if tuning.learns_step:
        target = settings.target_accept if tuning.two_stage else tuning.nuts_target_accept
        averaging = adaptation.update(tuning.averaging, info.acceptance_rate, target)
        longest = LONGEST_TURN if moves_around(state.around) else np.inf
        if tuning.two_stage:
            longest = settings.trajectory_length / tuning.n_steps
        step_size = min(np.exp(averaging.log_step), longest)
        tuning = replace(tuning, averaging=averaging, step_size=step_size)
    row = record.rows[0]
    if row < record.positions.shape[0]:
        copy(state.current.position, record.positions[row])
        copy(state.current.gradient, record.gradients[row])
        record.numbers[row, window.ACCEPTANCE] = info.acceptance_rate
        record.numbers[row, window.LOG_DENSITY] = state.current.log_density
        record.numbers[row, window.DIVERGING] = info.diverging
        by_nuts = info.diverging and not tuning.two_stage
        record.numbers[row, window.STEEP] = by_nuts and not nuts_tree.left_support(state.tree)
        record.rows[0] = row + 1
    return replace(state, tuning=tuning)


register(
    __name__,
    setting_aliases={"adapt_delta": "nuts_target_accept"},
    workspace=(
        "tree", "leapfrog.gradient", "leapfrog.velocity", "force", "tuning.force_known",
        "around.moving", "straightening.work",
    ),
    iter_warmup=2000, iter_sampling=1000, standardize="no",
    warmup=schedule.WARMUP,
    init_from={"warm_start": init_from_draws}, starts_at_draws=True,
    in_place_except=("current", "scratch", "tuning"),
    extra_output=KEEP_GRADIENT,
    memory=Memory(
        storage=schedule.bytes_of_trees, pooled=schedule.bytes_of_pool,
        name="factors, blocks and trees",
    ),
)  # fmt: skip
