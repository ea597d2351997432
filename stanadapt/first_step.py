"""A step size of the right order, before it is tuned: one leapfrog is accepted with about 0.8.

References
----------
Hoffman and Gelman (2014), JMLR 15, algorithm 4, in the form of stan/mcmc/hmc/base_hmc.hpp: 0.8 in
place of 0.5, and a fresh momentum for each try.

"""

import numpy as np

from stanadapt._jit import jit
from stanadapt.hamiltonian import from_point, move
from stanadapt.metropolis import squared_norm

TARGET = np.log(0.8)
# Stan ends the run where it leaves these; here the search ends, and the run shows what is wrong
SMALLEST, LARGEST, MOST_TRIES = 1e-300, 1e7, 100


@jit
def first_step(density, leapfrog, phase, point, step_size, rng):
    """Double or halve a step size until log acceptance of one leapfrog crosses TARGET.

    point is the GradientPoint that every try starts from; phase is workspace. Where a hundred
    tries do not find one, the density fails all around, and step_size is returned.
    """
    begin = tried = min(max(step_size, SMALLEST), LARGEST)
    larger = _log_acceptance(density, leapfrog, phase, point, tried, rng) > TARGET
    for _ in range(MOST_TRIES):
        if (_log_acceptance(density, leapfrog, phase, point, tried, rng) > TARGET) != larger:
            return tried
        tried *= 2.0 if larger else 0.5
        if not SMALLEST < tried < LARGEST:
            break
    return LARGEST if larger else begin


@jit
def _log_acceptance(density, leapfrog, phase, point, step_size, rng):
    """Energy at point less that after one leapfrog, with a new momentum; -inf where it failed."""
    from_point(leapfrog, phase, point, rng)
    before = 0.5 * squared_norm(phase.momentum) - point.log_density
    log_density = move(density, leapfrog, phase, step_size)
    change = before - 0.5 * squared_norm(phase.momentum) + log_density
    return change if change == change else -np.inf
