"""Five kinds of stanli's silent faults, one program each: harmless only with the guards.

With the guards each program is right or refused. Without them each is wrong. None ends the process.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from tests.fuzz import program_runner

STEP = 1e-30  # of the complex step
Y = np.array([0.4, -1.1, 1.7, 0.2, 2.3, -0.6, 0.8])
D = np.array([[0.3, -0.9], [1.2, 0.1], [-0.4, 0.7], [0.6, -0.2], [-1.3, 0.5], [0.8, 1.1]])
K = np.array([2, 0, 5, 1, 3, 4, 0])


class Reproducer(NamedTuple):
    """A program, its log density at a complex position, and the expected outcomes.

    `with_guards` and `without` are the outcomes with and without the guards; `reason` is that of
    the latter.
    """

    code: str
    data: dict[str, Any]
    dim: int
    log_density: Callable[[np.ndarray], complex]
    with_guards: str
    without: str
    reason: str = ""

    def positions(self, count: int) -> np.ndarray:
        return np.random.default_rng(5).normal(0, 0.8, (count, self.dim))

    def value_and_gradient(self, position: np.ndarray) -> tuple[float, np.ndarray]:
        values = [self.log_density(position + 1j * step) for step in STEP * np.eye(self.dim)]
        return values[0].real, np.imag(values) / STEP


def normal(y: Any, location: Any, scale: Any) -> Any:
    """Sum of normal log densities, without their constant."""
    return np.sum(-np.log(scale) - 0.5 * np.square((y - location) / scale))


# --- after a branch, the initial constant of a variable is used as its value ---------------------

CHANGED_CONSTANT = """
parameters { real a; real b; }
model {
  real level = 0;
  if (a > -0.3) level = exp(b);
  target += level > 0.5 ? -3 * level : -0.1;
  a ~ normal(0, 1);
  b ~ normal(0, 1);
}
"""


def changed_constant(position):
    a, b = position
    level = np.exp(b) if a.real > -0.3 else 0
    return (-3 * level if level.real > 0.5 else -0.1) + normal(position, 0, 1.0)


# --- a store that does not depend on the loop, next to one that depends on data -----------------

INVARIANT_STORE = """
data { int N; vector[N] y; array[N] int k; }
parameters { real slope; real log_scale; }
model {
  vector[N] location;
  vector[N] scale = rep_vector(3, N);
  for (n in 1:N) {
    scale[n] = exp(log_scale);
    if (k[n] > 2) location[n] = slope; else location[n] = slope * y[n];
  }
  y ~ normal(location, scale);
}
"""


def invariant_store(position):
    slope, log_scale = position
    return normal(Y, np.where(K > 2, slope, slope * Y), np.exp(log_scale) * np.ones(7))


# --- a vector overwritten after use: only the gradient is wrong ----------------------------------

OVERWRITTEN = """
data { int N; int J; matrix[N, J] D; array[N] int k; }
parameters { real a; vector[N] x; }
model {
  vector[N] v = a + x;
  for (j in 1:J) {
    for (n in 1:N) {
      target += -square(fmax(v[n], D[n, j]));
      target += normal_lpdf(v[n] | a, exp(v[n]));
    }
  }
  for (n in 3:N) { if (k[n] > 2) { v[n] = v[n - 1]; } }
}
"""


def overwritten(position):
    a, v = position[0], position[0] + position[1:]
    larger = np.where(v.real[:, None] > D, v[:, None], D)
    return -np.sum(np.square(larger)) + 2 * normal(v, a, np.exp(v))


# --- two loops, and a density with arguments from both -------------------------------------------

NESTED_LOOPS = """
data { int N; int J; vector[N] y; }
parameters { vector[N] location; vector[J] log_scale; }
model {
  for (n in 1:N) {
    for (j in 1:J) y[n] ~ normal(location[n], exp(log_scale[j]));
  }
}
"""


def nested_loops(position):
    location, log_scale = position[:7, None], position[7:]
    return normal(Y[:, None], location, np.exp(log_scale) * np.ones((7, 1)))


# --- two loops within a branch, and a density that depends on one of them ------------------------

DENSITY_IN_A_BRANCH = """
data { int N; int J; array[N] int<lower=0> k; }
parameters { real a; }
model {
  a ~ normal(0, 1);
  if (a > -0.2) {
    for (n in 1:N) {
      for (j in 1:J) target += poisson_log_lpmf(k[n] | a);
    }
  }
}
"""


def density_in_a_branch(position):
    (a,) = position
    if not a.real > -0.2:
        return normal(a, 0, 1.0)
    factorials = np.sum(np.log([np.prod(np.arange(1, k + 1)) for k in K]))
    return normal(a, 0, 1.0) + 2 * (np.sum(K) * a - K.size * np.exp(a) - factorials)


VECTORS = {"N": 7, "J": 2, "y": Y, "k": K}
MATRIX = {"N": 6, "J": 2, "D": D, "k": K[:6]}
REPRODUCERS = {
    "changed constant": Reproducer(
        CHANGED_CONSTANT, {}, 2, changed_constant, "refused", "wrong"
    ),
    "invariant store": Reproducer(
        INVARIANT_STORE, VECTORS, 2, invariant_store, "right", "wrong"
    ),
    "overwritten vector": Reproducer(
        OVERWRITTEN, MATRIX, 7, overwritten, "right", "wrong", program_runner.GRADIENT_ONLY
    ),
    "nested loops": Reproducer(
        NESTED_LOOPS, VECTORS, 9, nested_loops, "right", "wrong"
    ),
    "density in a branch": Reproducer(
        DENSITY_IN_A_BRANCH, VECTORS, 1, density_in_a_branch, "refused", "wrong"
    ),
}  # fmt: skip


def reproducer(number: int) -> Reproducer:
    """An entry of the table, for the runner."""
    return list(REPRODUCERS.values())[number]
