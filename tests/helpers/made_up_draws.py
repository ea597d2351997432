"""Stand-ins for draws of CmdStan: its output at given positions."""

import copy

import numpy as np
from scipy.stats import norm

import stanadapt as sa
from stanadapt.runs.stan_nuts.verification import verify

PROGRAM = """
data { int N; vector[N] y; }
parameters { real mu; real<lower=0> sigma; }
model { mu ~ normal(0, 5); sigma ~ exponential(1); y ~ normal(mu, sigma); }
generated quantities { real twice = 2 * mu; }
"""


def small_target():
    """Make a target of two parameters with the embedded backend."""
    data = {"N": 5, "y": [0.3, -1.2, 2.2, 0.9, 1.7]}
    return sa.Target(PROGRAM, data, backend="stanli")


def positions(target, n=300, seed=1):
    return np.random.default_rng(seed).uniform(-2, 2, (2, n // 2, target.dim))


def written(target, at):
    """CmdStan's output at positions (chain, draw, dim): names, draws, lp."""
    rows = [[target.model.param_constrain(x) for x in chain] for chain in at]
    lp = [[target.evaluate(x)[0] for x in chain] for chain in at]
    return target.model.param_names(), np.array(rows), np.array(lp)


def faulty(target, fault):
    """The target with its log density replaced by fault(position, value)."""
    wrong = copy.copy(target)

    def evaluate(position):
        value, gradient, message = target.evaluate(position)
        value = fault(position, value)
        return value, gradient, message if np.isfinite(value) else "Exception: it went wrong."

    wrong.evaluate = evaluate
    return wrong


def check(ours, theirs=None, at=None, offset=0.0):
    theirs = theirs or ours
    names, draws, lp = written(theirs, positions(theirs) if at is None else at)
    return verify(ours, names, draws, lp + offset, "2.27.0")


def prior(position):
    return norm.logpdf(position[0], 0, 5)


FAULTS = {
    "a wrong sign": lambda x, value: value - 2 * prior(x),
    "a missing term": lambda x, value: value - prior(x),
    "a term missing on one side": lambda x, value: value - (x[0] > 0) * prior(x),
    "a tilt": lambda x, value: value + 0.5 * x[1],
    "a missing Jacobian": lambda x, value: value - x[1],
    "minus infinity at some": lambda x, value: -np.inf if x[0] > 1.5 else value,
    "not a number at some": lambda x, value: np.nan if x[0] > 1.5 else value,
    "plus infinity at some": lambda x, value: np.inf if x[0] > 1.5 else value,
    "minus infinity everywhere": lambda x, value: -np.inf,
}
