"""Forced moves: away from a mode, then towards another, and the ratio that makes them exact.

A downhill move from x proposes x' ~ q(. | x) = N(x, S) until one is accepted with probability

    a_D(x' | x) = min(1, pi(x) / pi(x')),                                       (downhill)

and an uphill move from x' proposes x* ~ q(. | x') until one is accepted with probability

    a_U(x* | x') = min(1, pi(x*) / pi(x')).                                     (uphill)

With A(x) the chance that one downhill try is accepted, their product has the density
q_DU(x* | x) = s(x, x*) / A(x), s symmetric, so that the Metropolis-Hastings ratio holds the unknown
A(x) / A(x*). It cancels on the pairs (x, z) with z | x ~ q(. | x), where z* is a downhill move from
x* and the pair (x*, z*) is accepted with probability

    min(1, pi(x*) a_D(z | x) / (pi(x) a_D(z* | x*))).                           (pair)

Forced moves of more than a number of tries may be given up, and the pair kept: the chance not to be
cut short depends on x or x' alone, and cancels as A does.

References
----------
Tak, Meng and van Dyk (2018), A repelling-attracting Metropolis algorithm for multimodality, Journal
of Computational and Graphical Statistics 27. Deviation: they add a constant of 1e-308 to all
densities, so that none is 0 / 0. Where log densities are below -709 everywhere it makes this a
plain random walk. Here all is in logs, and the ratio of two densities of zero is 1, which keeps
a_D(x' | x) = a_U(x | x'), all that the derivation needs.

"""

import numpy as np

from stanadapt.engine.compiled.jit import inlined, jit
from stanadapt.engine.metropolis import acceptance_probability
from stanadapt.engine.points import proposed


@inlined
def log_downhill(here, there):
    """Log a_D of a move between log densities `here` and `there`, not both of them -inf."""
    return min(0.0, here - there)


@jit
def log_pair_ratio(x, z, x_star, z_star):
    """Log of the ratio (pair), from log densities; those of x and x* are finite."""
    return x_star - x + log_downhill(x, z) - log_downhill(x_star, z_star)


@jit
def forced_move(density, start, proposal, scales, sign, most_tries, rng):
    """Propose N(start, diag(scales)^2) until accepted: downhill if sign is 1.0, uphill if -1.0.

    Both points are ValuePoints; the position of `proposal` is written into. Returns the proposal,
    the tries it took, and whether one of them was accepted.
    """
    for tries in range(1, most_tries + 1):
        for i in range(density.dim):
            proposal.position[i] = start.position[i] + scales[i] * rng.standard_normal()
        proposal = proposed(density, start, proposal, rng)
        rise = proposal.log_density - start.log_density
        # NaN where both densities are zero: their ratio is 1
        rate = 1.0 if np.isnan(rise) else acceptance_probability(-sign * rise)
        if rng.random() < rate:
            return proposal, tries, True
    return proposal, most_tries, False
