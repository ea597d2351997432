"""Repelling-attracting Metropolis: jumps between modes without gradients, in few dimensions.

Each iteration is forced downhill, away from the current point, and then uphill, often to another
mode. Together these take four to eight density evaluations in two dimensions. On a standard normal
target, steps with standard deviation 1 take 7 evaluations in ten dimensions, 15 in twenty and 30 in
thirty. Steps twice as wide take 62 in twenty dimensions, and one of 10,000 is accepted. Warm-up
then learns short steps, which stay within a mode. For more than ten parameters, use samplers that
temper.

A downhill move from x proposes x' ~ q(. | x) = N(x, S) until one is accepted with probability

    a_D(x' | x) = min(1, pi(x) / pi(x')),                                       (downhill)

and an uphill move from x' proposes x* ~ q(. | x') until one is accepted with probability

    a_U(x* | x') = min(1, pi(x*) / pi(x')).                                     (uphill)

With A(x) the probability that one downhill try is accepted, the two moves have the density
q_DU(x* | x) = s(x, x*) / A(x), s symmetric, so that the Metropolis-Hastings ratio contains the
unknown A(x) / A(x*). It cancels on the pairs (x, z) with z | x ~ q(. | x), if z* is a downhill move
from x* and the pair (x*, z*) is accepted with probability

    min(1, pi(x*) a_D(z | x) / (pi(x) a_D(z* | x*))).                           (pair)

A forced move may be given up after a number of tries, and the pair kept: the probability of not
being cut short depends on x or x' alone, and cancels as A does.

References
----------
Tak, Meng and van Dyk (2018), A repelling-attracting Metropolis algorithm for multimodality, Journal
of Computational and Graphical Statistics 27. Deviations: (a) They add a constant of 1e-308 to all
densities, so that no ratio is 0 / 0. If all log densities are below -709 this makes the sampler a
plain random walk. Here all is in logs, and the ratio of two densities of zero is 1, which keeps
a_D(x' | x) = a_U(x | x'), all that the derivation needs. (b) The number of tries of a forced move
is bounded. (c) The proposal's standard deviations, which are given in the paper, are learned in
warm-up and then kept (`scale_grid`). All three are exact.
"""

from typing import NamedTuple

import numpy as np

from stanadapt.engine import points
from stanadapt.engine.after_run import Findings, RunView
from stanadapt.engine.compiled.jit import inline, jit, rarely_called
from stanadapt.engine.compiled.replace import replace
from stanadapt.engine.density import value
from stanadapt.engine.numerics.vectors import largest
from stanadapt.engine.protocol import Preset
from stanadapt.engine.registry import register
from stanadapt.engine.settings import Count, Positive
from stanadapt.errors import Message
from stanadapt.samplers.jumps import scale_grid

# limits of a note: number of parameters; share of iterations that gave up a search, at the
# cost of some hundred other iterations each; share of accepted moves
MANY_PARAMETERS, LARGEST_CAPPED, SMALLEST_ACCEPTED = 10, 0.001, 0.01
TEMPERING = "Use a sampler that tempers, such as simulated_tempering."


@inline
def log_downhill(here, there):
    """Return log a_D of a move between log densities `here` and `there`, not both -inf."""
    return min(0.0, here - there)


@jit
def log_pair_ratio(x, z, x_star, z_star):
    """Return the log of the ratio (pair), from log densities; those of x and x* are finite."""
    return x_star - x + log_downhill(x, z) - log_downhill(x_star, z_star)


@jit
def forced_move(density, start, proposal, scales, sign, most_tries, rng):
    """Propose N(start, diag(scales)^2) until accepted: downhill if sign is 1.0, uphill if -1.0.

    Both points are ValuePoints; the position of `proposal` is overwritten. Returns the proposal,
    the number of tries, and whether one of them was accepted.
    """
    for tries in range(1, most_tries + 1):
        for i in range(density.dim):
            proposal.position[i] = start.position[i] + scales[i] * rng.standard_normal()
        proposal = points.proposed(density, start, proposal, rng)
        rise = proposal.log_density - start.log_density
        # NaN if both densities are zero: their ratio is 1
        rate = 1.0 if np.isnan(rise) else points.acceptance_probability(-sign * rise)
        if rng.random() < rate:
            return proposal, tries, True
    return proposal, most_tries, False


DOWNHILL, UPHILL = 1.0, -1.0


class Settings(NamedTuple):
    # The proposal's first standard deviation, in all directions, in units of the unconstrained
    # parameters. It should be of the size of the distances between modes, which are about 1 in
    # standardized coordinates.
    initial_scale: Positive = 1.0
    # Whether warm-up learns, for each parameter, the standard deviation with which the chain
    # moves farthest per evaluation. Otherwise initial_scale is used throughout.
    tune_scale: bool = True
    # Largest number of tries of a forced move. If no try is accepted, the chain does not move.
    # The draws are exact with any value.
    longest_search: Count = 1000


class State(NamedTuple):
    """The pair (x, z), the rejected one, and the scales of proposals."""

    # current, scratch: x, and x* if it was rejected; otherwise the x before it
    current: points.ValuePoint
    scratch: points.ValuePoint
    # partner, scratch_partner: The auxiliary point z ~ q(. | x), and z* or the z before it.
    partner: points.ValuePoint
    scratch_partner: points.ValuePoint
    valley: points.ValuePoint  # x', the end of the last downhill move
    scales: np.ndarray  # standard deviations of the proposal, shape (dim,), updated in place
    grid: scale_grid.ScaleGrid  # measurements from which the scales are learned


class Info(NamedTuple):
    # acceptance_rate, accepted: acceptance of the pair; the rate is 0 if a forced move was given
    # up, or ended at zero density
    acceptance_rate: float
    accepted: bool
    n_tries: int  # number of tries of the three forced moves together, each one density evaluation
    capped: bool  # whether a forced move was given up after `longest_search` tries
    step_size: float  # the largest of the proposal's standard deviations


@rarely_called
def init(density, settings, position, rng):
    """Start at position, shape (dim,), with z drawn around it."""
    z = position.copy()
    for i in range(density.dim):
        z[i] += settings.initial_scale * rng.standard_normal()
    return State(
        current=points.value_at(density, position),
        scratch=points.unused_value(density.size),
        partner=points.value_at(density, z),
        scratch_partner=points.unused_value(density.size),
        valley=points.unused_value(density.size),
        scales=np.full(density.dim, settings.initial_scale),
        grid=scale_grid.begin(density.dim, settings.initial_scale),
    )


@jit
def _propose(density, settings, state, rng):
    """Write x', x*, z* into a State.

    Returns the State, the tries, whether a search was given up, and the log ratio (pair). If the
    density at x* is zero the last move is not made, since downhill from x* might never end.
    """
    most, scales = settings.longest_search, state.scales
    x, z, star, z_star = state.current, state.partner, state.scratch, state.scratch_partner
    valley, tries, moved = forced_move(density, x, state.valley, scales, DOWNHILL, most, rng)
    log_ratio = -np.inf
    if moved:
        star, more, moved = forced_move(density, valley, star, scales, UPHILL, most, rng)
        tries += more
    if moved and star.log_density > -np.inf:
        z_star, more, moved = forced_move(density, star, z_star, scales, DOWNHILL, most, rng)
        tries += more
        if moved:
            log_ratio = log_pair_ratio(
                x.log_density, z.log_density, star.log_density, z_star.log_density
            )
    proposal = replace(state, scratch=star, scratch_partner=z_star, valley=valley)
    return proposal, tries, not moved, log_ratio


@jit
def step(density, settings, state, rng):
    """Go downhill, uphill, and downhill from there; take both x* and z*, or neither."""
    x, z = state.current, state.partner
    state, tries, capped, log_ratio = _propose(density, settings, state, rng)
    rate = points.acceptance_probability(log_ratio)
    accepted = rng.random() < rate
    info = Info(
        acceptance_rate=rate, accepted=accepted, n_tries=tries, capped=capped,
        step_size=largest(state.scales),
    )  # fmt: skip
    if accepted:
        return replace(
            state, current=state.scratch, scratch=x,
            partner=state.scratch_partner, scratch_partner=z,
        ), info  # fmt: skip
    return state, info


@jit
def adapt(density, settings, state, info, t, iter_warmup):
    """Measure the current scales, and take others when their turn ends."""
    if not settings.tune_scale:
        return state
    grid, x = state.grid, state.current.position
    end = state.scratch.position
    scale_grid.measure(grid, x, end, info.acceptance_rate, info.n_tries)
    grid = scale_grid.turned(grid, t, iter_warmup)
    return _rescaled(density, replace(state, grid=grid))


@jit
def _rescaled(density, state):
    """Take the scales of the grid, and move z with them, so that it is a draw of the new q."""
    scales, grid, x, z = state.scales, state.grid, state.current, state.partner
    factor, moved = scale_grid.factor(grid), False
    for i in range(density.dim):
        scale = factor * grid.spread[i]
        if scale != scales[i]:
            moved = True
            z.position[i] = x.position[i] + scale / scales[i] * (z.position[i] - x.position[i])
            scales[i] = scale
    if moved:
        z = points.ValuePoint(z.position, value(density, z.position))
    return replace(state, partner=z)


def report(view: RunView) -> Findings:
    """Report too many evaluations, searches that were given up, and chains that hardly move."""
    settings, dim, stats = view.settings, view.dim, view.sample_stats
    notes = []
    if dim > MANY_PARAMETERS:
        text = (
            f"repelling_attracting took {stats['n_tries'].mean():.1f} density evaluations per "
            f"iteration for {dim} parameters. For steps as wide as the distance between modes, "
            "this number grows exponentially with the number of parameters: with more than "
            f"{MANY_PARAMETERS}, it finds few modes or takes very long. {TEMPERING}"
        )
        notes.append(Message("many_evaluations", text))
    if stats["capped"].mean() > LARGEST_CAPPED:
        text = (
            f"repelling_attracting gave up a search after {settings.longest_search} tries "
            f"(longest_search) in {stats['capped'].mean():.2%} of iterations, and did not move: "
            f"the draws are exact, but more of them repeat the previous one. {TEMPERING}"
        )
        notes.append(Message("search_given_up", text))
    rates = stats["accepted"].mean(axis=1)
    worst = int(np.argmin(rates))
    if rates[worst] < SMALLEST_ACCEPTED:
        text = (
            f"repelling_attracting: chain {worst + 1} accepted {rates[worst]:.2%} of its moves, "
            f"because their scale is too large (step_size {stats['step_size'][worst, -1]:.3g}). "
            "Lengthen warm-up (iter_warmup), during which the scale is learned, or lower "
            f"initial_scale. {TEMPERING}"
        )
        notes.append(Message("few_moves_accepted", text))
    return Findings(messages=notes)


register(
    __name__,
    iter_warmup=5_000, iter_sampling=20_000,
    workspace=("partner", "scratch_partner", "valley"),
    uses_gradient=False, standardize="diagonal",
    exact_on_estimates=False,
    # for twenty modes in a square of ten
    presets={
        "tak2018": Preset({"tune_scale": False, "initial_scale": 2.0}),
    },
)  # fmt: skip
