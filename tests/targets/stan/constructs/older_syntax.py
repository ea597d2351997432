"""Syntax that Stan has removed in version 2.33, and functions that have another name now."""

import numpy as np
from scipy import stats

from tests.targets.stan.constructs.construct import Construct, with_prior, x_in_model
from tests.targets.stan.constructs.functions import KERNEL_AT, kernel
from tests.targets.stan.constructs.solvers import TIMES, decayed

LAST = "2.32"

CONSTRUCTS = [
    Construct(
        "int n[3]",
        x_in_model("real a[2]; a[1] = x; a[2] = v[n[1]]; target += sin(a[1] * a[2]);",
                   data="int n[2];"),
        with_prior(lambda x, v: np.sin(x * v[2])), {"n": [3, 1]}, until=LAST,
    ),
    Construct(
        "<-", x_in_model("real a; a <- sin(x); target += a;"),
        with_prior(lambda x, v: np.sin(x)), until=LAST,
    ),
    Construct(
        "increment_log_prob", x_in_model("increment_log_prob(sin(x));"),
        with_prior(lambda x, v: np.sin(x)), until=LAST,
    ),
    Construct(
        "# comments", x_in_model("target += sin(x); # a comment"),
        with_prior(lambda x, v: np.sin(x)), until=LAST,
    ),
    Construct(
        "normal_log", x_in_model("target += normal_log(y, x, 2);", data="real y;"),
        with_prior(lambda x, v: stats.norm.logpdf(1.5, x, 2)), {"y": 1.5}, until=LAST,
    ),
    Construct(
        "cov_exp_quad",
        x_in_model("target += sum(sin(cov_exp_quad(t, exp(x), exp(v[1]))));",
                   data="array[3] real t;"),
        with_prior(lambda x, v: np.sum(np.sin(kernel(np.exp(x), np.exp(v[0]))))), {"t": KERNEL_AT},
        until=LAST,
    ),
    Construct(
        "integrate_ode_rk45",
        x_in_model("array[2, 2] real y = integrate_ode_rk45(decay, {1.0, 0.0}, 0, t, {exp(x)}, "
                   "r, i);"
                   "\ntarget += sin(y[1, 1] + y[2, 2] + v[1]);", data="array[2] real t;",
                   functions="array[] real decay(real t, array[] real y, array[] real a, "
                   "array[] real r, array[] int i) { return {-a[1] * y[1], a[1] * y[1] - y[2]}; }",
                   transformed_data="array[0] real r; array[0] int i;"),
        with_prior(decayed), {"t": TIMES}, tolerance=1e-5,
    ),
    Construct(
        "fabs", x_in_model("target += -fabs(v[1]);"), with_prior(lambda x, v: -abs(v[0])),
        until=LAST,
    ),
    Construct(
        "if_else", x_in_model("target += if_else(K > 2, sin(x), cos(x));", data="int K;"),
        with_prior(lambda x, v: np.sin(x)), {"K": 3}, until=LAST,
    ),
]  # fmt: skip
