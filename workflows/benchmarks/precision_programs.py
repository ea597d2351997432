"""Programs of the benchmark of expectations that are not bundled: small, of kinds that differ.

A hierarchy of growth curves (30 rats with five weights each, simulated), a regression with a
horseshoe prior, a Cauchy distribution, two modes, a Gaussian of 100 dimensions with unequal scales,
posteriors with densities that do not vanish at a declared bound, a t and a gamma variable, a hidden
Markov model of two states (100 observations, simulated), the germination of seeds on 21 plates,
centered (Crowder 1978, Applied Statistics 27), and noncentered intercepts of radon in 85 counties.
"""

import numpy as np

from stanadapt.targets.stan import bundled

RATS = """
data { int n; int m; vector[m] x; array[n] vector[m] y; }
parameters {
  vector[n] alpha; vector[n] beta; real mu_alpha; real mu_beta;
  real<lower=0> sigma; real<lower=0> sigma_alpha; real<lower=0> sigma_beta;
}
model {
  mu_alpha ~ normal(250, 100); mu_beta ~ normal(0, 20);
  sigma_alpha ~ normal(0, 30); sigma_beta ~ normal(0, 3); sigma ~ normal(0, 20);
  alpha ~ normal(mu_alpha, sigma_alpha); beta ~ normal(mu_beta, sigma_beta);
  for (i in 1:n) y[i] ~ normal(alpha[i] + beta[i] * (x - 22), sigma);
}
"""
HORSESHOE = """
data { int n; int d; matrix[n, d] x; vector[n] y; }
parameters { vector[d] z; vector<lower=0>[d] local; real<lower=0> tau; real<lower=0> sigma; }
transformed parameters { vector[d] beta = z .* local * tau; }
model {
  z ~ std_normal(); local ~ student_t(3, 0, 1); tau ~ student_t(3, 0, 0.2); sigma ~ normal(0, 2);
  y ~ normal(x * beta, sigma);
}
"""
CAUCHY = "parameters { vector[3] x; } model { x ~ cauchy([0, 10, -1]', [1, 100, 1e-3]'); }"
TWO_MODES = """
parameters { real m; vector[2] w; }
model {
  target += log_mix(0.4, normal_lpdf(m | -1.5, 1), normal_lpdf(m | 1.8, 0.8));
  w ~ normal(0.5 * m, 1);
}
"""
GAUSSIAN = """
data { int d; }
parameters { vector[d] x; }
model {
  x[1] ~ normal(3, 2);
  for (i in 2:d) x[i] ~ normal(0.7 * x[i - 1], 0.5 + 0.01 * i);
}
"""
AT_A_BOUND = """
parameters { vector<lower=0>[2] e; real<lower=0, upper=1> u; real<lower=1> h; }
model { e ~ exponential([0.01, 30]'); h ~ normal(0, 1); }
"""
T_AND_GAMMA = """
parameters { real x; real<lower=0> s; }
model { x ~ student_t(9, 3, 2); s ~ gamma(9, 3); }
"""
HIDDEN_MARKOV = """
data { int n; vector[n] y; }
parameters { array[2] simplex[2] move; positive_ordered[2] level; }
model {
  vector[2] at = [normal_lpdf(y[1] | level[1], 1), normal_lpdf(y[1] | level[2], 1)]';
  level ~ normal([3, 10]', 1);
  for (t in 2:n) {
    vector[2] next;
    for (k in 1:2)
      next[k] = log_sum_exp(at[1] + log(move[1, k]), at[2] + log(move[2, k]))
                + normal_lpdf(y[t] | level[k], 1);
    at = next;
  }
  target += log_sum_exp(at);
}
"""
SEEDS = """
data { int n; array[n] int r; array[n] int m; vector[n] x; vector[n] z; }
parameters { real a; real b; real c; real d; real<lower=0> sigma; vector[n] plate; }
model {
  [a, b, c, d] ~ normal(0, 10); sigma ~ normal(0, 1);
  plate ~ normal(0, sigma);
  r ~ binomial_logit(m, a + b * x + c * z + d * (x .* z) + plate);
}
"""
RADON = """
data {
  int N; int J; array[N] int<lower=1, upper=J> county; vector[N] first_floor; vector[N] log_radon;
}
parameters { real mu; real<lower=0> tau; vector[J] z; real beta; real<lower=0> sigma; }
model {
  mu ~ normal(0, 5); tau ~ normal(0, 1); beta ~ normal(0, 5); sigma ~ normal(0, 2);
  z ~ std_normal();
  log_radon ~ normal(mu + tau * z[county] + beta * first_floor, sigma);
}
"""


def _rats():
    rng, x = np.random.default_rng(1), np.array([8.0, 15, 22, 29, 36])
    alpha, beta = rng.normal(242, 14, (30, 1)), rng.normal(6.2, 0.5, (30, 1))
    y = alpha + beta * (x - 22) + rng.normal(0, 6, (30, 5))
    return {"n": 30, "m": 5, "x": x.tolist(), "y": y.tolist()}


def _horseshoe():
    rng = np.random.default_rng(2)
    x = rng.normal(size=(60, 8))
    y = x @ np.array([2.0, -1, 0.5, 0, 0, 0, 0, 0]) + rng.normal(size=60)
    return {"n": 60, "d": 8, "x": x.tolist(), "y": y.tolist()}


def _hidden_markov():
    rng, state, y = np.random.default_rng(3), 0, []
    for _ in range(100):
        y.append(rng.normal((3.0, 9.0)[state], 1.0))
        state = int(rng.random() < (0.3, 0.8)[state])
    return {"n": 100, "y": y}


def _seeds():
    r = [10, 23, 23, 26, 17, 5, 53, 55, 32, 46, 10, 8, 10, 8, 23, 0, 3, 22, 15, 32, 3]
    m = [39, 62, 81, 51, 39, 6, 74, 72, 51, 79, 13, 16, 30, 28, 45, 4, 12, 41, 30, 51, 7]
    x, z = np.repeat([0, 1], (11, 10)), np.repeat([0, 1, 0, 1], (5, 6, 5, 5))
    return {"n": 21, "r": r, "m": m, "x": x.tolist(), "z": z.tolist()}


PROGRAMS = {
    "rats": (RATS, _rats),
    "small_horseshoe": (HORSESHOE, _horseshoe),
    "cauchy": (CAUCHY, dict),
    "two_modes": (TWO_MODES, dict),
    "gaussian_100": (GAUSSIAN, lambda: {"d": 100}),
    "at_a_bound": (AT_A_BOUND, dict),
    "t_and_gamma": (T_AND_GAMMA, dict),
    "hidden_markov": (HIDDEN_MARKOV, _hidden_markov),
    "seeds": (SEEDS, _seeds),
    "radon_noncentered": (RADON, lambda: bundled.find("varying_intercepts")[1]),
}


def find(name):
    """Return a program and its data."""
    program, data = PROGRAMS[name]
    return program, data()
