"""Programs with posteriors that can be drawn from directly, so that any fit can be checked.

Each entry of `KNOWN` has a Stan program, its data, and a function that draws independently from the
posterior. There are five kinds: "easy" posteriors, hard "edges" where a program bounds a parameter
by its density alone, "funnels", "heavy" tails, and posteriors with a curved ridge or several
"modes". Scales differ, so that a threshold in a parameter's own units would show.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from scipy import stats

Draws = dict[str, np.ndarray]


class Known(NamedTuple):
    """A posterior with independent draws.

    kind
        "easy", "edges", "funnels", "heavy", "curved" or "modes".
    program
        Stan program.
    draw
        (rng, n) -> draws of each parameter by name, shape (n, ...).
    data
        Its data.
    """

    kind: str
    program: str
    draw: Callable[[np.random.Generator, int], Draws]
    data: dict[str, Any]


def _known(kind: str, program: str, draw: Callable, **data: Any) -> Known:
    return Known(kind, program, draw, data)


# --- easy ----------------------------------------------------------------------------------------

CORRELATED_SDS = np.array([1e-3, 1.0, 50.0, 1e4, 0.2])
CORRELATED = 0.7 ** np.abs(np.subtract.outer(np.arange(5), np.arange(5)))
CORRELATED = CORRELATED * np.outer(CORRELATED_SDS, CORRELATED_SDS)
CORRELATED_MEANS = np.array([0.1, -3.0, 1e3, 0.0, 7.0])


def _correlated(rng, n):
    return {"x": rng.multivariate_normal(CORRELATED_MEANS, CORRELATED, n)}


YEARS = np.arange(1990.0, 2015.0)
SALES = 3.0 * (YEARS - 2000.0) + 40.0 + 8.0 * np.sin(np.arange(25.0))


def _line(rng, n):
    """Flat priors, known sd of the errors: normal."""
    from_middle = YEARS - YEARS.mean()
    squares = np.sum(from_middle**2)
    # the slope and the level in the middle year are independent
    slope = from_middle @ SALES / squares + rng.normal(size=n) * 8.0 / np.sqrt(squares)
    level = SALES.mean() + rng.normal(size=n) * 8.0 / np.sqrt(len(YEARS))
    return {"a": level - slope * YEARS.mean(), "b": slope}


FOUR = np.array([1.0, 2.0, 3.0, 4.0])


def _four(rng, n):
    """Flat priors of mean and sd: 5 / sd^2 has a chi-square distribution with two degrees."""
    sigma = np.sqrt(5.0 / rng.chisquare(2, n))
    return {"mu": 2.5 + sigma * rng.normal(size=n) / 2.0, "sigma": sigma}


COUNTS = np.array([0, 3, 17])


def _rates(rng, n):
    return {"rate": rng.gamma(2.0 + COUNTS, 1.0 / 1.5, (n, 3))}


def _shares(rng, n):
    return {"p": rng.dirichlet([1.5, 4.0, 20.0, 0.8], n)}


def _ordered(rng, n):
    return {"cut": np.sort(rng.normal(5.0, 2.0, (n, 4)), axis=1)}


def _skewed(rng, n):
    return {
        "g": rng.gumbel(3.0, 2.0, n), "l": np.exp(rng.normal(2.0, 1.2, n)),
        "s": rng.gamma(0.7, 1.0 / 0.01, n), "p": rng.beta(0.9, 6.0, n),
    }  # fmt: skip


def _chain(rng, n):
    x = np.empty((n, 40))
    x[:, 0] = rng.normal(0.0, 1.0 / np.sqrt(1.0 - 0.95**2), n)
    for t in range(1, 40):
        x[:, t] = 0.95 * x[:, t - 1] + rng.normal(size=n)
    return {"x": x}


# --- edges ---------------------------------------------------------------------------------------


def _box(rng, n):
    return {"theta": rng.uniform(0.0, 1.0, n), "x": rng.normal(10.0, 3.0, n)}


def _cut_exponential(rng, n):
    return {"x": rng.exponential(20.0, n), "z": rng.normal(size=n)}


def _truncated(rng, n):
    return {"x": stats.truncnorm(-0.5, np.inf, 1.0, 4.0).rvs(n, random_state=rng)}


def _triangle(rng, n):
    return {"x": np.sort(rng.uniform(0.0, 5.0, (n, 2)), axis=1)}


def _disc(rng, n):
    radius, angle = 3.0 * np.sqrt(rng.uniform(size=n)), rng.uniform(0.0, 2.0 * np.pi, n)
    return {"x": radius * np.cos(angle), "y": radius * np.sin(angle)}


# --- funnels -------------------------------------------------------------------------------------


def _funnel(sd, members):
    def draw(rng, n):
        v = 20.0 + sd * rng.normal(size=n)
        return {
            "v": v, "x": -5.0 + np.exp((v[:, None] - 20.0) / 2.0) * rng.normal(size=(n, members))
        }  # fmt: skip

    return draw


def _hierarchy(rng, n):
    mu, tau = 50.0 + 20.0 * rng.normal(size=n), 5.0 * np.abs(rng.normal(size=n))
    return {
        "mu": mu, "tau": tau, "theta": mu[:, None] + tau[:, None] * rng.normal(size=(n, 8))
    }  # fmt: skip


def _two_drivers(rng, n):
    a, b = rng.normal(size=n), 1.5 * rng.normal(size=n)
    return {"a": a, "b": b, "x": np.exp((a + b) / 2.0)[:, None] * rng.normal(size=(n, 5))}


def _nested(rng, n):
    top, low = np.exp(rng.normal(size=n)), np.exp(0.5 * rng.normal(size=n))
    group = top[:, None] * rng.normal(size=(n, 4))
    unit = group[:, [0, 0, 1, 1, 2, 2, 3, 3]] + low[:, None] * rng.normal(size=(n, 8))
    return {"top": top, "low": low, "group": group, "unit": unit}


def _precision(rng, n):
    p = rng.gamma(2.0, 1.0, n)
    return {"p": p, "x": rng.normal(size=(n, 5)) / np.sqrt(p)[:, None]}


def _volatility(rng, n):
    sigma = np.exp(-1.5 + 0.5 * rng.normal(size=n))
    steps = sigma[:, None] * rng.normal(size=(n, 20))
    return {"sigma": sigma, "h": np.cumsum(steps, axis=1)}


# --- heavy tails ---------------------------------------------------------------------------------


def _student(rng, n):
    return {"x": 200.0 + 30.0 * rng.standard_t(3.0, (n, 3))}


def _cauchy(rng, n):
    return {"x": 5.0 + rng.standard_cauchy((n, 2))}


def _laplace(rng, n):
    return {"x": rng.laplace(3.0, 0.01, (n, 10))}


def _joint_student(rng, n):
    normal = rng.normal(size=(n, 6)) @ np.linalg.cholesky(0.5 * np.eye(6) + 0.5).T
    return {"x": normal / np.sqrt(rng.chisquare(4.0, n) / 4.0)[:, None]}


def _horseshoe(rng, n):
    tau = np.abs(rng.standard_cauchy(n))
    local = np.abs(rng.standard_cauchy((n, 3)))
    return {"tau": tau, "local": local, "beta": tau[:, None] * local * rng.normal(size=(n, 3))}


# --- curved ridges and modes ---------------------------------------------------------------------


def _banana(rng, n):
    x = 10.0 * rng.normal(size=n)
    return {"x": x, "y": 0.03 * (x**2 - 100.0) + rng.normal(size=n)}


def _rosenbrock(rng, n):
    x = np.empty((n, 4))
    x[:, 0] = 1.0 + rng.normal(size=n)
    for i in range(1, 4):
        x[:, i] = x[:, i - 1] ** 2 * (i == 1) + x[:, i - 1] * (i > 1) + 0.2 * rng.normal(size=n)
    return {"x": x}


def _wave(rng, n):
    x = 3.0 * rng.normal(size=n)
    return {"x": x, "y": 2.0 * np.sin(x) + 0.3 * rng.normal(size=n)}


def _ring(rng, n):
    """The density of the radius r is proportional to r exp(-(r - 5)^2 / (2 * 0.25))."""
    radius = np.empty(0)
    while radius.size < n:
        tried = 5.0 + 0.5 * rng.normal(size=2 * n)
        radius = np.append(radius, tried[rng.uniform(0.0, 9.0, 2 * n) < tried])
    angle = rng.uniform(0.0, 2.0 * np.pi, n)
    return {"x": radius[:n] * np.cos(angle), "y": radius[:n] * np.sin(angle)}


def _two_normals(weight, centers, scales):
    def draw(rng, n):
        second = (rng.uniform(size=n) < weight).astype(int)
        center, scale = np.array(centers)[second], np.array(scales)[second]
        return {"x": center[:, None] + scale[:, None] * rng.normal(size=(n, 2))}

    return draw


TWO_NORMALS = """
data { real weight; array[2] real center; array[2] real scale; }
parameters { vector[2] x; }
model {
  target += log_mix(weight, normal_lpdf(x | center[2], scale[2]),
                    normal_lpdf(x | center[1], scale[1]));
}
"""


def _mixture(weight, centers, scales):
    draw = _two_normals(weight, centers, scales)
    return _known("modes", TWO_NORMALS, draw, weight=weight, center=centers, scale=scales)


def _funnel_program(sd, members):
    return _known(
        "funnels",
        f"parameters {{ real v; vector[{members}] x; }} model {{ v ~ normal(20, {sd}); "
        "x ~ normal(-5, exp((v - 20) / 2)); }",
        _funnel(sd, members),
    )


KNOWN: dict[str, Known] = {
    "correlated": _known(
        "easy",
        "data { vector[5] m; matrix[5, 5] S; } parameters { vector[5] x; } "
        "model { x ~ multi_normal(m, S); }",
        _correlated, m=CORRELATED_MEANS, S=CORRELATED,
    ),
    "line": _known(
        "easy",
        "data { vector[25] t; vector[25] y; } parameters { real a; real b; } "
        "model { y ~ normal(a + b * t, 8); }",
        _line, t=YEARS, y=SALES,
    ),
    "four": _known(
        "easy",
        "data { vector[4] y; } parameters { real mu; real<lower=0> sigma; } "
        "model { y ~ normal(mu, sigma); }",
        _four, y=FOUR,
    ),
    "rates": _known(
        "easy",
        "data { array[3] int y; } parameters { vector<lower=0>[3] rate; } "
        "model { rate ~ gamma(2, 0.5); y ~ poisson(rate); }",
        _rates, y=COUNTS,
    ),
    "shares": _known(
        "easy",
        "parameters { simplex[4] p; } model { p ~ dirichlet([1.5, 4, 20, 0.8]'); }", _shares,
    ),
    "ordered": _known(
        "easy", "parameters { ordered[4] cut; } model { cut ~ normal(5, 2); }", _ordered
    ),
    "skewed": _known(
        "easy",
        "parameters { real g; real<lower=0> l; real<lower=0> s; real<lower=0, upper=1> p; } "
        "model { g ~ gumbel(3, 2); l ~ lognormal(2, 1.2); s ~ gamma(0.7, 0.01); "
        "p ~ beta(0.9, 6); }",
        _skewed,
    ),
    "chain": _known(
        "easy",
        "parameters { vector[40] x; } model { x[1] ~ normal(0, inv_sqrt(1 - square(0.95))); "
        "x[2:] ~ normal(0.95 * x[:39], 1); }",
        _chain,
    ),
    "box": _known(
        "edges",
        "parameters { real theta; real x; } model { theta ~ uniform(0, 1); x ~ normal(10, 3); }",
        _box,
    ),
    "cut_exponential": _known(
        "edges",
        "parameters { real x; real z; } model { x ~ exponential(0.05); z ~ normal(0, 1); }",
        _cut_exponential,
    ),
    "truncated": _known(
        "edges",
        "parameters { real x; } model { x ~ normal(1, 4); x ~ uniform(-1, 100); }",
        _truncated,
    ),
    "triangle": _known(
        "edges",
        "parameters { vector[2] x; } "
        "model { x ~ uniform(0, 5); target += uniform_lpdf(x[2] - x[1] | 0, 5); }",
        _triangle,
    ),
    "disc": _known(
        "edges",
        "parameters { real x; real y; } model { target += uniform_lpdf(hypot(x, y) | 0, 3); }",
        _disc,
    ),
    "funnel": _funnel_program(3, 9),
    "mild_funnel": _funnel_program(1, 20),
    "hierarchy": _known(
        "funnels",
        "parameters { real mu; real<lower=0> tau; vector[8] theta; } "
        "model { mu ~ normal(50, 20); tau ~ normal(0, 5); theta ~ normal(mu, tau); }",
        _hierarchy,
    ),
    "two_drivers": _known(
        "funnels",
        "parameters { real a; real b; vector[5] x; } "
        "model { a ~ normal(0, 1); b ~ normal(0, 1.5); x ~ normal(0, exp((a + b) / 2)); }",
        _two_drivers,
    ),
    "nested": _known(
        "funnels",
        "parameters { real<lower=0> top; real<lower=0> low; vector[4] group; vector[8] unit; } "
        "model { top ~ lognormal(0, 1); low ~ lognormal(0, 0.5); group ~ normal(0, top); "
        "unit ~ normal(group[{1, 1, 2, 2, 3, 3, 4, 4}], low); }",
        _nested,
    ),
    "precision": _known(
        "funnels",
        "parameters { real<lower=0> p; vector[5] x; } "
        "model { p ~ gamma(2, 1); x ~ normal(0, inv_sqrt(p)); }",
        _precision,
    ),
    "volatility": _known(
        "funnels",
        "parameters { real<lower=0> sigma; vector[20] h; } model { "
        "sigma ~ lognormal(-1.5, 0.5); h[1] ~ normal(0, sigma); h[2:] ~ normal(h[:19], sigma); }",
        _volatility,
    ),
    "student": _known(
        "heavy", "parameters { vector[3] x; } model { x ~ student_t(3, 200, 30); }", _student
    ),
    "cauchy": _known("heavy", "parameters { vector[2] x; } model { x ~ cauchy(5, 1); }", _cauchy),
    "laplace": _known(
        "heavy", "parameters { vector[10] x; } model { x ~ double_exponential(3, 0.01); }", _laplace
    ),
    "joint_student": _known(
        "heavy",
        "data { matrix[6, 6] S; } parameters { vector[6] x; } "
        "model { x ~ multi_student_t(4, rep_vector(0, 6), S); }",
        _joint_student, S=0.5 * np.eye(6) + 0.5,
    ),
    "horseshoe": _known(
        "heavy",
        "parameters { real<lower=0> tau; vector<lower=0>[3] local; vector[3] beta; } "
        "model { tau ~ cauchy(0, 1); local ~ cauchy(0, 1); beta ~ normal(0, tau * local); }",
        _horseshoe,
    ),
    "banana": _known(
        "curved",
        "parameters { real x; real y; } "
        "model { x ~ normal(0, 10); y ~ normal(0.03 * (square(x) - 100), 1); }",
        _banana,
    ),
    "rosenbrock": _known(
        "curved",
        "parameters { vector[4] x; } model { x[1] ~ normal(1, 1); x[2] ~ normal(square(x[1]), 0.2);"
        " x[3:] ~ normal(x[2:3], 0.2); }",
        _rosenbrock,
    ),
    "wave": _known(
        "curved",
        "parameters { real x; real y; } model { x ~ normal(0, 3); y ~ normal(2 * sin(x), 0.3); }",
        _wave,
    ),
    "ring": _known(
        "curved",
        "parameters { real x; real y; } model { target += normal_lpdf(hypot(x, y) | 5, 0.5); }",
        _ring,
    ),
    "apart": _mixture(0.4, [-20.0, 20.0], [1.0, 2.0]),
    "near": _mixture(0.3, [-2.0, 2.0], [1.0, 1.0]),
    "spike": _mixture(0.2, [0.0, 0.0], [1.0, 0.05]),
}  # fmt: skip
