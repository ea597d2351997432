"""A program of several types of parameters, and its pseudo-extension."""

import numpy as np

from stanadapt.samplers.tempering import Extended, ReferenceDistribution

CODE = """
data { int n; vector[n] y; }
parameters { real<lower=0> s; matrix[2, 2] m; simplex[3] p; }
transformed parameters { matrix[2, 2] doubled = 2 * m; }
model {
  s ~ gamma(3, 2);
  to_vector(m) ~ normal(1, 2);
  y ~ normal(m[1, 2], s);
  p ~ dirichlet([1, 2, 3]');
}
generated quantities {
  real z = normal_rng(m[1, 2], s);
  vector[n] log_lik;
  for (i in 1 : n) log_lik[i] = normal_lpdf(y[i] | m[1, 2], s);
}
"""
DIM = 7


def extend(target, n=2, **options):
    """Make a pseudo-extension; its reference distribution is normal unless one is given."""
    options.setdefault("reference_distribution", ReferenceDistribution(np.full(DIM, 0.2), 2.0))
    return Extended(target, n, **options)
