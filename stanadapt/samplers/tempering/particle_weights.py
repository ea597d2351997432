"""Weights of particles: how far to go in one stage, what that adds, which ones to go on with.

References
----------
Zhou, Johansen and Aston (2016), Toward automatic model comparison: an adaptive sequential Monte
Carlo approach, JCGS 25: the conditional effective sample size. Deviation: it is taken over the
particles of positive density, since with few of these no step, however short, would reach the
threshold. Carpenter, Clifford and Fearnhead (1999), IEE Proceedings F 146: systematic resampling.

"""

import numpy as np

from stanadapt.engine.compiled.jit import jit

HALVINGS = 60


@jit
def next_temperature(delta, log_weights, b, threshold):
    """Return the largest b' <= 1 whose conditional effective sample size is not below threshold.

    delta, log_weights
        Delta(x) and log weight of each particle, shape (particle,).
    threshold
        As a share of the particles.

    """
    if conditional_ess(delta, log_weights, 1.0 - b) >= threshold:
        return 1.0
    # the share decreases in the step: its log is 2 C(d) - C(2 d) with a convex C
    low, high = 0.0, 1.0 - b
    for _ in range(HALVINGS):
        middle = 0.5 * (low + high)
        if conditional_ess(delta, log_weights, middle) >= threshold:
            low = middle
        else:
            high = middle
    return b + high if b + high > b else 1.0


@jit
def conditional_ess(delta, log_weights, step):
    """(sum W v)^2 / (sum W sum W v^2), v = exp(step Delta), over particles of positive density."""
    top, peak = -np.inf, -np.inf
    for n in range(delta.shape[0]):
        if delta[n] > -np.inf:
            top, peak = max(top, log_weights[n]), max(peak, step * delta[n])
    if not top > -np.inf:
        return 1.0
    total, first, second = 0.0, 0.0, 0.0
    for n in range(delta.shape[0]):
        if delta[n] > -np.inf:
            weight, v = np.exp(log_weights[n] - top), np.exp(step * delta[n] - peak)
            total += weight
            first += weight * v
            second += weight * v * v
    return first * first / (second * total) if second > 0.0 else 0.0


@jit
def reweigh(delta, log_weights, step):
    """Multiply the weights by exp(step Delta); returns the log of their mean factor."""
    before = log_sum(log_weights)
    for n in range(delta.shape[0]):
        # not NaN: of two particles without density neither counts
        log_weights[n] = log_weights[n] + step * delta[n] if delta[n] > -np.inf else -np.inf
    return log_sum(log_weights) - before


@jit
def log_sum(logs):
    peak = np.max(logs)
    if not peak > -np.inf:
        return -np.inf
    total = 0.0
    for n in range(logs.shape[0]):
        total += np.exp(logs[n] - peak)
    return peak + np.log(total)


@jit
def systematic(weights, uniform, chosen):
    """Write as many indices into `chosen`, in order: the one where the sum passes (n + u) / N."""
    rows, total, last = weights.shape[0], 0.0, 0
    for n in range(rows):
        total += weights[n]
        if weights[n] > 0.0:
            last = n
    index, passed = -1, 0.0
    for n in range(rows):
        goal = (n + uniform) / rows * total
        # never beyond the last of positive weight: the sum may fall short by its rounding
        while passed <= goal and index < last:
            index += 1
            passed += weights[index]
        chosen[n] = index
