"""Continuous tempering: Hamiltonian trajectories of a position and its temperature at once.

With q = 1 / (1 + exp(-u)) and the `coordinate` b(q), c(q), trajectories follow

    log p(x, u) = b(q) l(x) + (1 - b(q)) psi(x) - c(q) + log(q (1 - q)),
    d/dx = b l'(x) + (1 - b) psi'(x),
    d/du = q (1 - q) (b'(q) Delta(x) - c'(q)) + 1 - 2 q,                   Delta = l - psi,

with one gradient of the target per leapfrog, for any b. In the Gibbs form x moves at fixed b, and
q is then drawn from its conditional law given x, which needs no evaluation.

Positions with b = 1 are draws of the target, if b = 1 has positive probability (an atom). Without
an atom, each position has the weight r(x), the density of q = 1 given x, and is repeated N times as
a draw, with an integer N of mean proportional to r: resampling during the run. If N is 0 or 1,
these too are the states of a Markov chain that leaves the target invariant.

The mean of the density of q = 1 given x over that of q = 0 is the ratio of the constants at the
ends. A row at b = 0 is redrawn from the reference, together with q: the parts of the chain between
two such redraws are independent, and give the error of that ratio (`tours`).

References
----------
That of `continuous_tempering`: the joint form, the Gibbs form, and the weights. Deviations: a
spacing and constants that are learned, the redraws at b = 0, draws in place of weights, and
trajectories of random length.
"""

import math
from typing import NamedTuple

import numpy as np

from stanadapt.engine import adaptation
from stanadapt.engine.compiled.jit import as_python, inline, jit
from stanadapt.engine.leapfrog import LARGEST_ENERGY_ERROR
from stanadapt.engine.numerics.vectors import fill_normal, squared_norm
from stanadapt.engine.points import acceptance_probability
from stanadapt.samplers.tempering import coordinate as coordinates
from stanadapt.samplers.tempering import path as paths
from stanadapt.samplers.tempering import reference_distribution
from stanadapt.samplers.tempering.coordinate import Coordinate, log_jacobian, place_of
from stanadapt.samplers.tempering.moves import drift
from stanadapt.samplers.tempering.tours import COLD, HOT, end_tour, no_tours

# without an atom: moves per draw, if weights have the mean that warm-up has found
MOVES_PER_DRAW = 5.0
# smallest share of the coordinate that counts as an end in round trips
END_SHARE = 0.1
TENTHS = 10


class Design(NamedTuple):
    leapfrogs: int  # largest number of leapfrogs of a trajectory; the number is uniform from 1
    coordinate_scale: float  # step of u for a step of x with scale 1; 0 in the Gibbs form
    target_accept: float  # acceptance rate to which the step size is tuned


class ContinuousTemperingInfo(NamedTuple):
    """Statistics of an excursion."""

    # acceptance_rate, n_steps, diverging: mean acceptance rate of the trajectories, or of the
    # latest one if there was none; number of leapfrogs; whether a trajectory that began at the
    # target ended in an energy error above 1000, or at a point at which the density failed
    acceptance_rate: float
    n_steps: int
    diverging: bool
    # n_moves, n_redraws: trajectories from one draw to the next, and draws of the reference before
    # them (instead of them, with gibbs)
    n_moves: int
    n_redraws: int
    returned: bool  # whether there is a new draw; otherwise the last one is repeated
    round_trips: int  # number of returns to the cold end of the coordinate from the hot one
    step_size: float  # step size of the trajectories, in units of their scales


class Walker(NamedTuple):
    """A position and its coordinate; arrays are updated in place."""

    path: paths.TemperingPath
    coordinate: Coordinate
    replicas: paths.Replicas  # the CURRENT one and the END of the latest trajectory
    # momentum, scale: momentum and scales of the position, shape (dim,)
    momentum: np.ndarray
    scale: np.ndarray
    # an `Averaging` of the step size, as numbers, and the sum (WEIGHT) and number (WEIGHED) of the
    # densities r(x) seen while it was learned; shape (7,)
    averaging: np.ndarray
    # the coordinate (U); number of times that the position is still to be returned (COPIES);
    # whether it has BEEN_HOT since it was last at b = 1; the latest acceptance rate (RATE); shape
    # (4,)
    numbers: np.ndarray
    visits: np.ndarray  # number of visits to each tenth of q; shape (10,)
    ends: np.ndarray  # sums of the densities of q = 1 (COLD) and q = 0 (HOT) given x, shape (2,)
    tours: np.ndarray  # the same sums between redraws


CURRENT, END = 0, 1
LOG_STEP, LOG_MEAN, WEIGHT, WEIGHED = 3, 4, 5, 6
U, COPIES, BEEN_HOT, RATE = 0, 1, 2, 3
# u of a walker that is placed at the target
COLD_U = 5.0


def no_walker(path: paths.TemperingPath, atom: float) -> Walker:
    """Return a Walker without a position."""
    dim = path.target.dim
    return Walker(
        path, coordinates.no_coordinate(atom), paths.no_replicas(2, dim), np.zeros(dim),
        np.ones(dim), np.zeros(7), np.zeros(4), np.zeros(TENTHS), np.zeros(2), no_tours(),
    )  # fmt: skip


def place(
    walker: Walker, replicas: paths.Replicas, row: int, scale: np.ndarray, log_step: float
) -> None:
    """Put the walker at b = 1, at a row of Replicas, with initial scales and step size."""
    for part, of in zip(walker.replicas, replicas, strict=True):
        part[CURRENT] = of[row]
    walker.scale[:] = scale
    walker.numbers[U] = COLD_U
    center = math.log(math.exp(log_step))
    as_python(_keep)(walker, adaptation.Averaging(center, 0, 0.0, center, center))


@inline
def _keep(walker, averaging):
    a = walker.averaging
    a[0], a[1], a[2] = averaging.center, averaging.count, averaging.shortfall
    a[LOG_STEP], a[LOG_MEAN] = averaging.log_step, averaging.log_mean


@inline
def _learn(walker, rate, target_accept):
    a = walker.averaging
    averaging = adaptation.Averaging(a[0], int(a[1]), a[2], a[LOG_STEP], a[LOG_MEAN])
    _keep(walker, adaptation.update(averaging, rate, target_accept))


@jit
def excursion(walker, design, learning, longest, rng):
    """Move until a draw is due, at most `longest` times; tune the step size while `learning`."""
    numbers, returned = walker.numbers, True
    rates, n_moved, steps, moves, redraws, trips, diverging = 0.0, 0, 0, 0, 0, 0, False
    while numbers[COPIES] < 1.0:
        if moves >= longest:
            returned = False
            break
        moves += 1
        redrawn, at = _redraw(walker, learning, rng), place_of(walker.coordinate, numbers[U])
        redraws += redrawn
        if not redrawn or design.coordinate_scale > 0.0:
            step_size = np.exp(walker.averaging[LOG_STEP if learning else LOG_MEAN])
            rate, made, failed = trajectory(walker, design, step_size, rng)
            rates, n_moved, steps = rates + rate, n_moved + 1, steps + made
            diverging = diverging or (failed and at.b == 1.0)
            if learning:
                _learn(walker, rate, design.target_accept)
        trips += _choose_coordinate(walker, design, learning, rng)
    if n_moved > 0:
        numbers[RATE] = rates / n_moved
    numbers[COPIES] = max(numbers[COPIES] - 1.0, 0.0)
    step_size = np.exp(walker.averaging[LOG_STEP if learning else LOG_MEAN])
    return ContinuousTemperingInfo(
        numbers[RATE], steps, diverging, moves, redraws, returned, trips, step_size
    )  # fmt: skip


@inline
def _redraw(walker, learning, rng):
    """At b = 0, draw the position from the reference, if there is one; returns whether it did."""
    if walker.path.kind != paths.DISTRIBUTION or not at_hot_atom(walker):
        return False
    replicas = walker.replicas
    reference_distribution.draw(
        walker.path.reference, replicas.vectors[CURRENT, paths.POSITION], rng
    )
    paths.evaluate(walker.path, replicas, CURRENT, True)
    q = walker.coordinate.atom * (1.0 - rng.random())
    walker.numbers[U] = np.log(q) - np.log1p(-q)
    if not learning:
        end_tour(walker.tours)
    return True


@inline
def at_hot_atom(walker):
    """Whether b is 0, which has positive probability only if there is an atom."""
    q = 1.0 / (1.0 + np.exp(-walker.numbers[U]))
    return q <= walker.coordinate.atom


@inline
def log_joint(walker, row, u, at):
    """Return log p(x, u) of a row and a coordinate with Place `at`."""
    return paths.log_density_of(walker.replicas, row, at.b) - at.c + log_jacobian(u)


@jit
def trajectory(walker, design, step_size, rng):
    """Move position and coordinate; returns acceptance rate, number of leapfrogs, divergence."""
    replicas, momentum, u = walker.replicas, walker.momentum, walker.numbers[U]
    u_step, at = step_size * design.coordinate_scale, place_of(walker.coordinate, u)
    fill_normal(rng, momentum)
    u_momentum, steps = rng.standard_normal(), 1 + int(rng.random() * design.leapfrogs)
    before = log_joint(walker, CURRENT, u, at) - 0.5 * squared_norm(momentum)
    before -= 0.5 * u_momentum * u_momentum
    paths.copy_replica(replicas, CURRENT, replicas, END)
    u_momentum += 0.5 * u_step * force(walker, at)
    _kick(walker, at.b, 0.5 * step_size)
    made, after = 0, -np.inf
    while made < steps:
        drift(replicas.vectors[END, paths.POSITION], momentum, walker.scale, step_size)
        u += u_step * u_momentum
        paths.evaluate(walker.path, replicas, END, True)
        made, at = made + 1, place_of(walker.coordinate, u)
        after = log_joint(walker, END, u, at)
        if not after > -np.inf:
            break
        half = 0.5 if made == steps else 1.0
        u_momentum += half * u_step * force(walker, at)
        _kick(walker, at.b, half * step_size)
    gain = after - 0.5 * squared_norm(momentum) - 0.5 * u_momentum * u_momentum - before
    rate = acceptance_probability(gain)
    if rng.random() < rate:
        paths.copy_replica(replicas, END, replicas, CURRENT)
        walker.numbers[U] = u
    return rate, made, not gain > -LARGEST_ENERGY_ERROR


@inline
def force(walker, at):
    """d/du of log p at the END, with the coordinate at Place `at`."""
    delta = max(paths.log_ratio(walker.replicas, END), paths.IMPOSSIBLE)
    return at.q * (1.0 - at.q) * (at.b_slope * delta - at.c_slope) + 1.0 - 2.0 * at.q


@inline
def _kick(walker, b, size):
    """Add the gradient at the END, times size and scale, to the momentum."""
    momentum, scale = walker.momentum, walker.scale
    vectors = walker.replicas.vectors
    slope, reference_slope = vectors[END, paths.SLOPE], vectors[END, paths.REFERENCE_SLOPE]
    for i in range(momentum.shape[0]):
        momentum[i] += size * scale[i] * (b * slope[i] + (1.0 - b) * reference_slope[i])


@inline
def _choose_coordinate(walker, design, learning, rng):
    """Weigh the position, and in the Gibbs form draw q; returns 1 after a round trip, otherwise 0.

    Also decides how many times the position is a draw.
    """
    coordinate, numbers = walker.coordinate, walker.numbers
    cold, hot = coordinates.condition(coordinate, paths.log_ratio(walker.replicas, CURRENT))
    if design.coordinate_scale == 0.0:
        q = coordinates.draw(coordinate, rng)
        numbers[U] = np.log(q) - np.log1p(-q)
    at = place_of(coordinate, numbers[U])
    if learning:
        walker.averaging[WEIGHT] += cold
        walker.averaging[WEIGHED] += 1.0
    else:
        walker.visits[min(int(TENTHS * at.q), TENTHS - 1)] += 1.0
        walker.ends[COLD] += cold
        walker.ends[HOT] += hot
        walker.tours[COLD] += cold
        walker.tours[HOT] += hot
    if coordinate.atom > 0.0:
        numbers[COPIES] = 1.0 if at.q >= 1.0 - coordinate.atom else 0.0
    else:
        copies = np.floor(cold / _weight_of_a_draw(walker) + rng.random())
        numbers[COPIES] = copies if copies < np.inf else 1.0
    return _count_trip(walker, at.q)


@inline
def _weight_of_a_draw(walker):
    """Weight of a position that becomes one draw on average; fixed while draws are kept."""
    count = walker.averaging[WEIGHED]
    # all weights of warm-up may be below the smallest number
    known = count > 0.0 and walker.averaging[WEIGHT] > 0.0
    return MOVES_PER_DRAW * (walker.averaging[WEIGHT] / count if known else 1.0)


@inline
def _count_trip(walker, q):
    end = max(walker.coordinate.atom, END_SHARE)
    if q <= end:
        walker.numbers[BEEN_HOT] = 1.0
    if q < 1.0 - end or walker.numbers[BEEN_HOT] == 0.0:
        return 0
    walker.numbers[BEEN_HOT] = 0.0
    return 1
