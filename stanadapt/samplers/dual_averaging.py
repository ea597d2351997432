"""Dual averaging of a log step size towards a target acceptance rate.

References
----------
Nesterov (2009), Mathematical Programming 120. Hoffman and Gelman (2014), The No-U-Turn Sampler,
JMLR 15, equation 6 and algorithm 5: gamma, t0, kappa and the centre mu = log(10 eps) are theirs
and Stan's. As there, the average includes the iterate of the same iteration.

"""

from typing import NamedTuple

import numpy as np

from stanadapt.engine.compiled.jit import jit

# shrinkage of the iterates to the centre, damping of the first iterates, and the rate at which old
# iterates lose weight in the average
GAMMA, T0, KAPPA = 0.05, 10.0, 0.75


class Averaging(NamedTuple):
    """State of dual averaging.

    centre
        mu, towards which the iterates shrink.
    count
        Number of acceptance rates so far.
    shortfall
        Weighted mean of target acceptance rate - acceptance rate.
    log_step
        The current iterate: log of the step size to try next.
    log_mean
        Weighted mean of the iterates: log of the final step size.

    """

    centre: float
    count: int
    shortfall: float
    log_step: float
    log_mean: float


@jit
def start(step_size):
    """Return an Averaging without data, centred at ten times a step size."""
    return centred(step_size, 10.0)


@jit
def centred(step_size, multiple):
    """Return an Averaging without data, centred at a multiple of a step size."""
    log_step = np.log(step_size)
    return Averaging(np.log(multiple * step_size), 0, 0.0, log_step, log_step)


@jit
def update(averaging, acceptance_rate, target_accept):
    """Update with one acceptance rate in [0, 1]."""
    t = averaging.count + 1
    weight = 1.0 / (t + T0)
    difference = target_accept - acceptance_rate
    shortfall = (1.0 - weight) * averaging.shortfall + weight * difference
    log_step = averaging.centre - np.sqrt(t) / GAMMA * shortfall
    weight = t**-KAPPA
    log_mean = (1.0 - weight) * averaging.log_mean + weight * log_step
    return Averaging(averaging.centre, t, shortfall, log_step, log_mean)
