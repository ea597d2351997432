"""A program with a noisy estimate of a density; the exact moments are known."""

import numpy as np

# x ~ N(MEAN, diag(SD^2)). The estimate of its density is unbiased, and its log has standard
# deviation s exp(x[1] / 2). Because the noise grows with x[1], a chain is biased if it reuses a
# stale estimate, counts the density of the noise or redraws the current estimate.
PROGRAM = """
data { int M; real s; }
parameters { vector[2] x; vector[M] u; }
transformed parameters { real doubled = 2 * x[1]; }
model {
  vector[M] terms;
  for (m in 1:M) terms[m] = s * exp(x[1] / 2) * u[m] - square(s * exp(x[1] / 2)) / 2;
  x[1] ~ normal(0.3, 0.5);
  x[2] ~ normal(-2, 3);
  target += log_sum_exp(terms) - log(M);
  u ~ std_normal();
}
generated quantities { real total = sum(x); }
"""
MEAN, SD = np.array([0.3, -2.0]), np.array([0.5, 3.0])
