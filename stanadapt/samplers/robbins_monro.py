"""The tuning rule for scales that several samplers share."""

from stanadapt.engine.compiled.jit import jit

DECAY_RATE, DECAY_POWER = 0.01, 0.6


@jit
def rescaled(scale, acceptance_rate, target_accept, learning_rate, t, iter_warmup):
    """Multiply a scale > 0 to bring the acceptance rate closer to its target, after iteration t.

    scale * (1 + gain * (a - a*) / a*), the rule that Titsias and Dellaportas (2019) use for the
    baselines of their tables, with two changes. We use the acceptance probability a where their
    code uses 0 or 1: the same mean, less noise. And the gain, their constant learning rate,
    decreases in the second half of warm-up (Robbins and Monro, 1951): a constant gain leaves the
    final scale so noisy that the acceptance rate of a 100-dimensional random walk ends anywhere
    between 0.19 and 0.30. A gain below 1 keeps the factor positive for all a in [0, 1].
    """
    gain = learning_rate
    if 2 * t > iter_warmup:
        gain /= (1.0 + DECAY_RATE * (t - 0.5 * iter_warmup)) ** DECAY_POWER
    return scale * (1.0 + gain * (acceptance_rate - target_accept) / target_accept)
