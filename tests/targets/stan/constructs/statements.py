"""Statements: loops, conditions, assignments, increments, truncation, blocks, output."""

import numpy as np
from scipy import stats

from tests.targets.stan.constructs.construct import Construct, with_prior, x_in_model

Y = np.array([0.4, 1.2, 2.5])

CONSTRUCTS = [
    Construct(
        "for", x_in_model("for (k in 2:3) target += sin(k * v[k]);"),
        with_prior(lambda x, v: np.sin(2 * v[1]) + np.sin(3 * v[2])),
    ),
    Construct(
        "for each element",
        x_in_model("matrix[2, 2] A = [[x, 1], [v[1], 2]]; array[2] real b = {x, v[2]};\n"
                   "for (a in A) target += sin(a); for (e in b) target += cos(e);"),
        with_prior(lambda x, v: np.sum(np.sin([x, 1, v[0], 2])) + np.cos(x) + np.cos(v[1])),
    ),
    Construct(
        "while, break and continue on data",
        x_in_model("int i = 0; while (1) { i += 1; if (i == 2) continue; if (i > K) break; "
                   "target += sin(i * x); }", data="int K;"),
        with_prior(lambda x, v: np.sin(x) + np.sin(3 * x) + np.sin(4 * x)), {"K": 4},
    ),
    Construct(
        "while on parameters",
        x_in_model("real a = x; while (a < 3) { a += 1 + square(v[1]); } target += sin(a);"),
        with_prior(lambda x, v: np.sin(
            x + np.ceil((3 - x) / (1 + v[0] ** 2)) * (1 + v[0] ** 2))),
    ),
    Construct(
        "if and else on data",
        x_in_model("for (k in 1:3) if (g[k] == 1) target += sin(v[k]); else if (g[k] == 2) "
                   "target += cos(v[k]); else target += x * v[k];", data="array[3] int g;"),
        with_prior(lambda x, v: np.sin(v[0]) + np.cos(v[1]) + x * v[2]), {"g": [1, 2, 3]},
    ),
    Construct(
        "if and else on parameters",
        x_in_model("if (x > 0) target += -x; else target += -square(x);"),
        with_prior(lambda x, v: -x if x > 0 else -(x**2)),
    ),
    Construct(
        "? : on data", x_in_model("target += K > 2 ? sin(x) : cos(x);", data="int K;"),
        with_prior(lambda x, v: np.sin(x)), {"K": 3},
    ),
    Construct(
        "? : on parameters", x_in_model("target += x > 0 ? -x : -square(x);"),
        with_prior(lambda x, v: -x if x > 0 else -(x**2)),
    ),
    Construct(
        "abs, fmax and step",
        x_in_model("target += -fmax(x, 0) - abs(v[1]) + step(v[2]);"),
        with_prior(lambda x, v: -max(x, 0) - abs(v[0]) + (v[1] >= 0)),
    ),
    Construct(
        "compound assignment",
        x_in_model("real a = x; vector[3] w = v; a += v[1]; a *= 2; a -= v[2]; a /= 3; w .*= v; "
                   "w ./= 2; w += x; target += sin(a) + sum(sin(w));"),
        with_prior(lambda x, v: np.sin((2 * (x + v[0]) - v[1]) / 3)
                   + np.sum(np.sin(v * v / 2 + x))),
    ),
    Construct(
        "local variables in blocks",
        x_in_model("{ real a = x; { real b = a * v[1]; target += sin(b); } target += cos(a); }"),
        with_prior(lambda x, v: np.sin(x * v[0]) + np.cos(x)),
    ),
    Construct(
        "declarations between statements",
        x_in_model("real a = x; a *= 2; real b = a * v[1]; target += sin(b);"),
        with_prior(lambda x, v: np.sin(2 * x * v[0])),
    ),
    Construct(
        "target += and target()",
        x_in_model("real before = target(); target += sin(x); "
                   "target += 0.5 * (target() - before);"),
        with_prior(lambda x, v: 1.5 * np.sin(x)),
    ),
    Construct(
        "jacobian +=",
        x_in_model("s ~ exponential(1);",
                   transformed_parameters="real s = exp(x); jacobian += x;"),
        with_prior(lambda x, v: -np.exp(x)), since="2.36",
        free=lambda p: np.r_[np.exp(p["x"]), p["v"]],
    ),
    Construct(
        "a Jacobian by target += in transformed parameters",
        x_in_model("target += x; s ~ exponential(1);", transformed_parameters="real s = exp(x);"),
        with_prior(lambda x, v: x - np.exp(x)),
    ),
    Construct(
        "truncation T[a, b]",
        x_in_model("y ~ normal(x, exp(v[1])) T[0, 3];", data="real y;"),
        with_prior(lambda x, v: stats.norm.logpdf(1.2, x, np.exp(v[0])) - np.log(
            stats.norm.cdf(3, x, np.exp(v[0])) - stats.norm.cdf(0, x, np.exp(v[0])))), {"y": 1.2},
    ),
    Construct(
        "truncation T[a, ] and T[ , b]",
        x_in_model("y ~ normal(x, 1) T[0, ]; y ~ normal(v[1], 1) T[ , 3];", data="real y;"),
        with_prior(lambda x, v: stats.norm.logpdf(1.2, x) - stats.norm.logsf(0, x)
                   + stats.norm.logpdf(1.2, v[0]) - stats.norm.logcdf(3, v[0])), {"y": 1.2},
    ),
    Construct(
        "truncation of vectors",
        x_in_model("y ~ normal(x, 1) T[0, ];", data="vector[3] y;"),
        with_prior(lambda x, v: np.sum(stats.norm.logpdf(Y, x)) - 3 * stats.norm.logsf(0, x)),
        {"y": Y}, since="2.31",
    ),
    Construct(
        "truncation of integers",
        x_in_model("k ~ poisson(exp(x)) T[1, ];", data="int k;"),
        with_prior(lambda x, v: stats.poisson.logpmf(2, np.exp(x))
                   - stats.poisson.logsf(0, np.exp(x))), {"k": 2},
    ),
    Construct(
        "censoring by _lcdf and _lccdf",
        x_in_model("target += normal_lccdf(y | x, 1) + normal_lcdf(y | v[1], 2);",
                   data="vector[3] y;"),
        with_prior(lambda x, v: np.sum(stats.norm.logsf(Y, x) + stats.norm.logcdf(Y, v[0], 2))),
        {"y": Y}, tolerance=1e-6,  # normal_lcdf is approximate
    ),
    Construct(
        "_lupdf", x_in_model("target += normal_lupdf(y | x, exp(v[1]));", data="vector[3] y;"),
        with_prior(lambda x, v: np.sum(stats.norm.logpdf(Y, x, np.exp(v[0])))), {"y": Y},
        since="2.25",
    ),
    Construct(
        "transformed data",
        x_in_model("y ~ normal(mean_y + x, sd_y);", data="vector[3] y;",
                   transformed_data="real mean_y = mean(y); real<lower=0> sd_y = sd(y);"),
        with_prior(lambda x, v: np.sum(stats.norm.logpdf(Y, Y.mean() + x, Y.std(ddof=1)))),
        {"y": Y},
    ),
    Construct(
        "transformed parameters with bounds",
        x_in_model("y ~ normal(0, s);", data="vector[3] y;",
                   transformed_parameters="real<lower=0> s = exp(x); "
                       "vector[3] w = cumulative_sum(v);"),
        with_prior(lambda x, v: np.sum(stats.norm.logpdf(Y, 0, np.exp(x)))), {"y": Y},
    ),
    Construct(
        "print", x_in_model('if (K > 2) print("x = ", K); target += sin(x);', data="int K;"),
        with_prior(lambda x, v: np.sin(x)), {"K": 1},
    ),
    Construct(
        "reject on data", x_in_model('if (K > 2) reject("K = ", K); '
                                     'target += sin(x);', data="int K;"),
        with_prior(lambda x, v: np.sin(x)), {"K": 1},
    ),
    Construct(
        "reject on parameters",
        x_in_model('if (x > 50) reject("x = ", x); target += sin(x);'),
        with_prior(lambda x, v: np.sin(x)),
    ),
    Construct(
        "fatal_error",
        x_in_model('if (K > 2) fatal_error("K = ", K); target += sin(x);', data="int K;"),
        with_prior(lambda x, v: np.sin(x)), {"K": 1}, since="2.33",
    ),
    Construct(
        "profile", x_in_model('profile("part") { target += sin(x); }'),
        with_prior(lambda x, v: np.sin(x)), since="2.26",
    ),
    Construct(
        "#include",
        "functions {\n#include sine_of_sum.stanfunctions\n}\n" + x_in_model(
            "target += sine_of_sum(v, x);"),
        with_prior(lambda x, v: np.sin(np.sum(v) + x)),
    ),
    Construct(
        "generated quantities",
        x_in_model("", quantities="real total = sum(v) + x; array[2] int k = {1, 2}; real q; "
                   "{ real a = x * x; q = a; }"),
        with_prior(lambda x, v: 0.0),
        quantities=lambda p: bool(np.allclose([p["total"], p["q"], *p["k"]],
                                              [p["v"].sum() + p["x"], p["x"] ** 2, 1, 2])),
    ),
    Construct(
        "generated quantities that branch on parameters",
        x_in_model("", quantities="int positive = 0; if (x > 0) positive = 1; "
                   "real q = v[1] > 0 ? v[1] : -v[1];"),
        with_prior(lambda x, v: 0.0),
        quantities=lambda p: bool(np.allclose([p["positive"], p["q"]],
                                              [p["x"] > 0, abs(p["v"][0])])),
    ),
    Construct(
        "random numbers of vectors",
        x_in_model("", quantities="array[400] real r = normal_rng(rep_vector(x, 400), 0.1); "
                   "array[400] int k = poisson_rng(rep_vector(4, 400));"),
        with_prior(lambda x, v: 0.0),
        quantities=lambda p: bool(abs(np.mean(p["r"]) - p["x"]) < 0.5 * 0.1 / 2
                                  and abs(np.mean(p["k"]) - 4) < 0.5),
    ),
]  # fmt: skip
