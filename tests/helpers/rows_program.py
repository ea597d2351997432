"""Programs with independent rows, and the data to go with them."""

import numpy as np

import stanadapt as sa

NORMAL = """
data { int<lower=0> N; vector[N] y; }
parameters { real mu; }
model { mu ~ normal(0, 10); y ~ normal(mu, 1); }
"""
REGRESSION = """
data { int<lower=LEAST> N; int D; matrix[N, D] X; array[N] int<lower=0, upper=1> y; }
parameters { vector[D] w; real<lower=0> s; }
model { s ~ exponential(1); w ~ normal(0, s); y ~ bernoulli_logit(X * w); }
"""


def normal(count=100, seed=5):
    """The mean of normal rows: its posterior and the noise of its gradients are known exactly."""
    y = np.random.default_rng(seed).normal(0.4, 1.0, count)
    return sa.Target(NORMAL, {"N": count, "y": y}, backend="stanli")


def regression(count=60, least=0, seed=6):
    """A logistic regression with a scale, which insists on `least` rows."""
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(count, 2))
    y = (rng.random(count) < 1.0 / (1.0 + np.exp(-x @ [1.0, -2.0]))).astype(int)
    code = REGRESSION.replace("LEAST", str(least))
    return sa.Target(code, {"N": count, "D": 2, "X": x, "y": y}, backend="stanli")
