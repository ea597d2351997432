"""The pseudo-extended density in NumPy, from its mixture form, for tests to compare with.

    piN = (1/N) sum_i { target(x_i) pi(b_i) prod_{j != i} q(x_j, b_j) },
    q(x, b) = target(x)^b p0(x)^(1 - b) g(b),

with pi and the Jacobian of the u coordinates if b is free; g = 1 / Z. Nothing here is shared
with the package: no weights, no Delta, no logsumexp relative to a largest term.
"""

import numpy as np
from scipy.interpolate import PchipInterpolator
from scipy.special import expit, logsumexp


def log_extended(x, u, base, reference, mode, low=0.0, high=1.0, ladder=None):
    """Log density of x, shape (N, dim), and u, shape (N,), which only mode "free" uses."""
    n = len(x)
    log_base, psi = np.array([base(row) for row in x]), np.array([reference(row) for row in x])
    pi, jacobian = np.zeros(n), 0.0
    if mode == "collapsed":
        b, log_z = ladder
        q = logsumexp(np.outer(log_base, b) + np.outer(psi, 1 - b) - log_z, axis=1)
    else:
        b = low + (high - low) * expit(u) if mode == "free" else np.full(n, low)
        q = b * log_base + (1 - b) * psi
    if mode == "free":
        pi[:] = -np.log(high - low)
        jacobian = np.sum(np.log((high - low) * expit(u) * expit(-u)))
        if ladder is not None:
            q -= PchipInterpolator(*ladder)(b)
    others = [sum(q[j] for j in range(n) if j != i) for i in range(n)]
    return logsumexp(log_base + pi + others) - np.log(n) + jacobian


def weights(x, u, base, reference, mode, low=0.0, high=1.0, ladder=None):
    """Share of each term of the mixture: the probability that x_i is the draw from the target."""
    terms = []
    for i in range(len(x)):
        order = [i, *[j for j in range(len(x)) if j != i]]
        alone = log_extended(x[order[:1]], u[order[:1]], base, reference, mode, low, high, ladder)
        terms.append(alone)
        for j in order[1:]:
            log_base, psi, v = base(x[j]), reference(x[j]), u[j]
            terms[-1] += _log_q(log_base, psi, v, mode, low, high, ladder)
    return np.exp(np.array(terms) - logsumexp(terms))


def _log_q(log_base, psi, u, mode, low, high, ladder):
    if mode == "collapsed":
        return logsumexp(ladder[0] * log_base + (1 - ladder[0]) * psi - ladder[1])
    b = low + (high - low) * expit(u) if mode == "free" else low
    q = b * log_base + (1 - b) * psi
    if mode == "free":
        q += np.log((high - low) * expit(u) * expit(-u))
        q -= 0.0 if ladder is None else PchipInterpolator(*ladder)(b)
    return q
