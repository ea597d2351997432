"""An initial step size at which one leapfrog is accepted with probability about 0.8.

References
----------
Hoffman and Gelman (2014), JMLR 15, algorithm 4, in the form of stan/mcmc/hmc/base_hmc.hpp: 0.8 in
place of 0.5, and a new momentum for each trial.

"""

import numpy as np

from stanadapt.engine.compiled.jit import jit
from stanadapt.engine.compiled.vectors import squared_norm
from stanadapt.samplers.hamiltonian.leapfrog import from_point, move

TARGET = np.log(0.8)
# beyond these step sizes Stan ends the run; here only the search ends: the run shows what is wrong
SMALLEST, LARGEST, MOST_TRIALS = 1e-300, 1e7, 100


@jit
def first_step(density, leapfrog, phase, point, step_size, rng):
    """Double or halve a step size until the log acceptance of one leapfrog crosses TARGET.

    point is the GradientPoint from which every trial starts; phase is workspace. If none of a
    hundred trials crosses it, the result is LARGEST while doubling; while halving the density fails
    all around, and step_size is returned.
    """
    first = tried = min(max(step_size, SMALLEST), LARGEST)
    larger = _log_acceptance(density, leapfrog, phase, point, tried, rng) > TARGET
    for _ in range(MOST_TRIALS):
        if (_log_acceptance(density, leapfrog, phase, point, tried, rng) > TARGET) != larger:
            return tried
        tried *= 2.0 if larger else 0.5
        if not SMALLEST < tried < LARGEST:
            break
    return LARGEST if larger else first


@jit
def _log_acceptance(density, leapfrog, phase, point, step_size, rng):
    """Energy at point minus that after one leapfrog with a new momentum; -inf where it is NaN."""
    from_point(leapfrog, phase, point, rng)
    before = 0.5 * squared_norm(phase.momentum) - point.log_density
    log_density = move(density, leapfrog, phase, step_size)
    change = before - 0.5 * squared_norm(phase.momentum) + log_density
    return change if change == change else -np.inf
