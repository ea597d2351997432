"""Adaptive Metropolis with a covariance that all chains learn together, in a few warm-up blocks.

For posteriors without a usable gradient, of moderate dimension and any scales. Chains first move
one parameter at a time, each with its own scale, until the log density has settled. Then they move
all parameters together; the proposals have the covariance of the draws of all chains in blocks of
increasing length.

References
----------
One parameter at a time: Roberts and Rosenthal (2009), Examples of adaptive MCMC, section 3. All
together: Haario, Saksman and Tamminen (2001), Bernoulli 7(2), see `am`; pooled over chains as in
Craiu, Rosenthal and Yang (2009), JASA 104. Blocks, lengths and shrinkage are ours:
`samplers/whitened/walk_schedule.py`. After warm-up nothing adapts.

The draws of a chain depend on the number of chains, since they learn together.

"""

from typing import NamedTuple

import numpy as np

from stanadapt.engine.compiled.jit import jit, rarely_called
from stanadapt.engine.compiled.replace import replace
from stanadapt.engine.numerics import triangular as factors
from stanadapt.engine.numerics.vectors import copy, fill_normal
from stanadapt.engine.points import (
    RANDOM_WALK_SCALE,
    ValuePoint,
    acceptance_probability,
    proposed,
    unused_value,
    value_at,
)
from stanadapt.engine.protocol import Pooling
from stanadapt.engine.registry import register, require_probability
from stanadapt.samplers.whitened import walk_schedule
from stanadapt.samplers.whitened.block import ACCEPTANCE, LOG_DENSITY, Block, no_block

# Log scales of single moves change by SINGLE_GAIN times the excess of the acceptance rate; that of
# joint moves by the excess divided by a power GAIN_POWER of the iteration within the block.
SINGLE_GAIN, SINGLE_TARGET, GAIN_POWER = 0.7, 0.44, 0.6


class Settings(NamedTuple):
    """Settings of the sampler.

    target_accept
        Acceptance rate to which the scale of the proposals is tuned, in (0, 1).
    diagonal
        Learn only scales: O(dim) instead of O(dim^2) operations per iteration, but no correlations.

    """

    target_accept: float = 0.25
    diagonal: bool = False


class State(NamedTuple):
    """The current point, the rejected one, the tuning of moves, and the record of the block.

    single, coordinate, scales
        Whether one parameter moves at a time; the next one to move; their scales, shape (dim,),
        updated in place.
    scale, factor
        Joint moves are N(x, scale^2 L L^T), with L of shape (dim, dim) or (1, dim).
    t
        Number of iterations in this block.

    """

    current: ValuePoint
    scratch: ValuePoint
    noise: np.ndarray
    single: bool
    coordinate: int
    scales: np.ndarray
    scale: float
    factor: np.ndarray
    t: int
    block: Block


class Info(NamedTuple):
    """Statistics of one iteration; `step_size` is the scale of joint moves, 0 for single moves."""

    acceptance_rate: float
    accepted: bool
    step_size: float


def check(settings: Settings) -> None:
    """Raise StanadaptError for a setting out of range."""
    require_probability(settings, "target_accept")


@rarely_called
def init(density, settings, position, rng):
    """Start at position, shape (size,)."""
    n = density.dim
    return State(
        current=value_at(density, position),
        scratch=unused_value(density.size),
        noise=np.empty(n),
        single=False,
        coordinate=0,
        scales=np.ones(n),
        scale=RANDOM_WALK_SCALE / np.sqrt(n),
        factor=factors.initial(n, 1.0, True),
        t=0,
        block=no_block(n),
    )


@jit
def step(density, settings, state, rng):
    """Propose a move of one parameter or of all, and accept or reject it."""
    x, y, n = state.current, state.scratch, density.dim
    if state.single:
        k = state.coordinate
        copy(x.position, y.position)
        y.position[k] += state.scales[k] * rng.standard_normal()
    else:
        fill_normal(rng, state.noise)
        factors.times(state.factor, state.noise, y.position[:n])
        for i in range(n):
            y.position[i] = x.position[i] + state.scale * y.position[i]
    proposal = proposed(density, x, y, rng)
    rate = acceptance_probability(proposal.log_density - x.log_density)
    accepted = rng.random() < rate
    info = Info(
        acceptance_rate=rate, accepted=accepted, step_size=0.0 if state.single else state.scale
    )  # fmt: skip
    if accepted:
        return replace(state, current=proposal, scratch=x), info
    return replace(state, scratch=proposal), info


@jit
def adapt(density, settings, state, info, t, iter_warmup):
    """Adjust the scale of moves, and record the draws that the chains are to learn from."""
    n, k, scale, block = density.dim, state.coordinate, state.scale, state.block
    if state.single:
        state.scales[k] *= np.exp(SINGLE_GAIN * (info.acceptance_rate - SINGLE_TARGET))
        k = (k + 1) % n
    else:
        excess = info.acceptance_rate - settings.target_accept
        scale *= np.exp(excess / (1.0 + state.t) ** GAIN_POWER)
    row = block.rows
    # with single moves, one row is recorded per sweep
    if k == 0 and row < block.positions.shape[0]:
        copy(state.current.position, block.positions[row])
        block.numbers[row, ACCEPTANCE] = info.acceptance_rate
        block.numbers[row, LOG_DENSITY] = state.current.log_density
        block = replace(block, rows=row + 1)
    return replace(state, coordinate=k, scale=scale, t=state.t + 1, block=block)


register(
    __name__,
    workspace=("noise",),
    uses_gradient=False, standardize="no",
    warmup=Pooling(
        walk_schedule.begin, walk_schedule.pool, walk_schedule.pool_for_scales,
        rows_of_chains=("mean_log_density",),
    ),
)  # fmt: skip
