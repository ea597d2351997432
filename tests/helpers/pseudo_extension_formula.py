"""The pseudo-extended density in NumPy, from its mixture form, for tests to compare with.

    piN = (1/N) sum_i { target(x_i) pi(b_i) prod_{j != i} q(x_j, b_j) },
    q(x, b) = target(x)^b p0(x)^(1 - b) g(b),

with pi and the Jacobian of the u coordinates if b is free; g = 1 / Z. Nothing here is shared
with the package: no weights, no Delta, no logsumexp relative to a largest term.
"""

import numpy as np
from scipy.interpolate import PchipInterpolator
from scipy.special import expit, logsumexp, softmax


def log_extended(x, *others):
    """Log density of x, shape (N, dim); the other arguments are those of `_terms`."""
    return logsumexp(_terms(x, *others)) - np.log(len(x))


def weights(x, *others):
    """Share of each term of the mixture: the probability that x_i is the draw from the target."""
    return softmax(_terms(x, *others))


def _terms(x, u, base, reference, mode, low=0.0, high=1.0, ladder=None):
    """Logs of the terms of the mixture; u, shape (N,), is used by mode "free" alone."""
    target, psi = np.array([base(row) for row in x]), np.array([reference(row) for row in x])
    if mode == "collapsed":
        b, log_z = ladder
        q = logsumexp(np.outer(target, b) + np.outer(psi, 1 - b) - log_z, axis=1)
    else:
        b = low + (high - low) * expit(u) if mode == "free" else np.full(len(x), low)
        q = b * target + (1 - b) * psi
    if mode == "free":
        jacobian = np.log((high - low) * expit(u) * expit(-u))
        q = q + jacobian - (0.0 if ladder is None else PchipInterpolator(*ladder)(b))
        target = target + jacobian - np.log(high - low)
    return np.array([t + q[:i].sum() + q[i + 1 :].sum() for i, t in enumerate(target)])
