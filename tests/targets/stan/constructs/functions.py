"""User-defined functions, functions of functions, and functions of matrices."""

import numpy as np
from scipy import linalg, special, stats

from tests.targets.stan.constructs.construct import Construct, with_prior, x_in_model

Y = np.array([0.4, 1.2, 2.5, -0.6])
COUNTS = np.array([2, 0, 3, 1])
KERNEL_AT = np.array([0.0, 0.7, 1.9])


def kernel(amplitude, scale):
    distance = (KERNEL_AT[:, None] - KERNEL_AT) / scale
    return amplitude**2 * np.exp(-0.5 * distance**2)


def matern(amplitude, scale):
    distance = np.sqrt(3) * np.abs(KERNEL_AT[:, None] - KERNEL_AT) / scale
    return amplitude**2 * (1 + distance) * np.exp(-distance)


def hidden_markov(x, v):
    """The forward algorithm of two states in probabilities."""
    emission = np.exp(stats.norm.logpdf(Y[None], np.array([[x], [v[0]]]), 1))
    moves = np.array([[0.8, 0.2], [0.3, 0.7]])
    forward = np.array([0.5, 0.5]) * emission[:, 0]
    for t in range(1, Y.size):
        forward = (forward @ moves) * emission[:, t]
    return np.log(forward.sum())


def positive(x, v):
    return np.outer(v, v) + np.diag([1, 2, 3]) * (1 + x**2)


POSITIVE = "matrix[3, 3] S = add_diag(v * v', [1, 2, 3]' * (1 + square(x)));"

CONSTRUCTS = [
    Construct(
        "user-defined functions",
        x_in_model("target += wave(x, 2) + wave(v[1], 3);",
                   functions="real wave(real a, int k) { return sin(k * a); }"),
        with_prior(lambda x, v: np.sin(2 * x) + np.sin(3 * v[0])),
    ),
    Construct(
        "functions of arrays and matrices",
        x_in_model("target += total({v, x * v}, [[x, 1], [2, x]]);",
                   functions="real total(array[] vector a, matrix b) { real t = 0; "
                             "for (k in 1:size(a))"
                   " t += sin(sum(a[k])); return t + sum(b) / cols(b); }"),
        with_prior(lambda x, v: np.sin(v.sum()) + np.sin(x * v.sum()) + (2 * x + 3) / 2),
    ),
    Construct(
        "overloaded functions",
        x_in_model("target += wave(x) + wave(v);",
                   functions="real wave(real a) { return sin(a); } "
                   "real wave(vector a) { return sum(cos(a)); }"),
        with_prior(lambda x, v: np.sin(x) + np.sum(np.cos(v))), since="2.29",
    ),
    Construct(
        "recursive functions",
        x_in_model("target += chain(x, 3);",
                   functions="real chain(real a, int k); real chain(real a, int k) { "
                   "if (k == 0) return a; return sin(chain(a, k - 1)) + a; }"),
        with_prior(lambda x, v: np.sin(np.sin(np.sin(x) + x) + x) + x),
    ),
    Construct(
        "functions without a value",
        x_in_model("require(2); target += sin(x);",
                   functions='void require(int k) { if (k < 1) reject("k = ", k); }'),
        with_prior(lambda x, v: np.sin(x)),
    ),
    Construct(
        "_lpdf and _lpmf of the user",
        x_in_model("y ~ bell(x); target += bell_lpdf(y | v[1]); k ~ tally(v[2]);",
                   functions="real bell_lpdf(real y, real m) { return -square(y - m); } "
                   "real tally_lpmf(int k, real a) { return k * a - exp(a); }",
                   data="real y; int k;"),
        with_prior(lambda x, v: -((1.5 - x) ** 2) - (1.5 - v[0]) ** 2 + 3 * v[1] - np.exp(v[1])),
        {"y": 1.5, "k": 3},
    ),
    Construct(
        "_lp of the user",
        x_in_model("raise_lp(x);", functions="void raise_lp(real a) { target += sin(a); }"),
        with_prior(lambda x, v: np.sin(x)),
    ),
    Construct(
        "_jacobian of the user",
        x_in_model("s ~ exponential(1);",
                   functions="real up_jacobian(real a) { jacobian += a; return exp(a); }",
                   transformed_parameters="real s = up_jacobian(x);"),
        with_prior(lambda x, v: -np.exp(x)), since="2.36",
        free=lambda p: np.r_[np.exp(p["x"]), p["v"]],
    ),
    Construct(
        "_rng of the user",
        x_in_model("", functions="real draw_rng(real a) { return uniform_rng(a, a + 1); }",
                   quantities="real r = draw_rng(x);"),
        with_prior(lambda x, v: 0.0), quantities=lambda p: bool(0 <= p["r"] - p["x"] <= 1),
    ),
    Construct(
        "functions with conditions on data",
        x_in_model("target += pick(x, 1) + pick(v[1], 2);",
                   functions="real pick(real a, data int k) { if (k == 1) return sin(a); "
                   "else return cos(a); }"),
        with_prior(lambda x, v: np.sin(x) + np.cos(v[0])),
    ),
    Construct(
        "functions with conditions on parameters",
        x_in_model("target += hinge(x);",
                   functions="real hinge(real a) { if (a > 0) return -a; return -square(a); }"),
        with_prior(lambda x, v: -x if x > 0 else -(x**2)),
    ),
    Construct(
        "reduce_sum",
        x_in_model("target += reduce_sum(part_lpdf, y, 2, x, exp(v[1]));", data="array[4] real y;",
                   functions="real part_lpdf(array[] real s, int a, int b, real m, real d) "
                   "{ return normal_lpdf(s | m, d); }"),
        with_prior(lambda x, v: np.sum(stats.norm.logpdf(Y, x, np.exp(v[0])))), {"y": Y},
    ),
    Construct(
        "map_rect",
        x_in_model("target += sum(map_rect(shard, [x, v[1]]', th, xr, xi));",
                   functions="vector shard(vector phi, vector th, data array[] real xr, data "
                   "array[] int xi) { return [normal_lpdf(xr | phi[1] + th[1], exp(phi[2]))]'; }",
                   data="array[2, 2] real xr;",
                   transformed_data="array[2, 0] int xi; array[2] vector[1] th = {[0.5]', [1]'};"),
        with_prior(lambda x, v: np.sum(stats.norm.logpdf(
            Y.reshape(2, 2), x + np.array([[0.5], [1]]), np.exp(v[0])))),
        {"xr": Y.reshape(2, 2)},
    ),
    Construct(
        "functions of vectors elementwise",
        x_in_model("target += sum(log1p_exp(v)) + sum(inv_logit(v)) + sum(tgamma(exp(v)));"),
        with_prior(lambda x, v: np.sum(np.logaddexp(0, v) + special.expit(v)
                                       + special.gamma(np.exp(v)))),
    ),
    Construct(
        "log_sum_exp, log_mix, softmax",
        x_in_model("target += log_sum_exp(v) + log_mix(inv_logit(x), v[1], v[2]) "
                   "+ sin(softmax(v)[2]);"),
        with_prior(lambda x, v: special.logsumexp(v) + np.sin(special.softmax(v)[1])
                   + np.logaddexp(np.log(special.expit(x)) + v[0],
                                  np.log(special.expit(-x)) + v[1])),
    ),
    Construct(
        "linear algebra",
        x_in_model(f"{POSITIVE} target += log_determinant(S) + quad_form(inverse_spd(S), v) "
                   "+ sum(cholesky_decompose(S)) + sum(S \\ v);"),
        with_prior(lambda x, v: np.linalg.slogdet(positive(x, v))[1]
                   + v @ np.linalg.solve(positive(x, v), v)
                   + np.linalg.cholesky(positive(x, v)).sum()
                   + np.linalg.solve(positive(x, v), v).sum()),
    ),
    Construct(
        "trace", x_in_model(f"{POSITIVE} target += sin(trace(S));"),
        with_prior(lambda x, v: np.sin(np.trace(positive(x, v)))),
    ),
    Construct(
        "eigenvalues, svd and qr",
        x_in_model(f"{POSITIVE} target += sum(sin(eigenvalues_sym(S))) "
                   "+ sum(log(singular_values(S))) + sum(abs(diagonal(qr_thin_R(S))));"),
        with_prior(lambda x, v: np.sum(np.sin(np.linalg.eigvalsh(positive(x, v))))
                   + np.linalg.slogdet(positive(x, v))[1]
                   + np.sum(np.abs(np.diag(np.linalg.qr(positive(x, v))[1])))), since="2.30",
    ),
    Construct(
        "matrix_exp", x_in_model("target += sum(sin(matrix_exp([[x, v[1]], [v[2], 0.5]])));"),
        with_prior(lambda x, v: np.sum(np.sin(linalg.expm([[x, v[0]], [v[1], 0.5]])))),
    ),
    Construct(
        "sparse matrices",
        x_in_model("target += sum(sin(csr_matrix_times_vector(2, 3, w, at, u, v)));",
                   data="vector[3] w; array[3] int at; array[3] int u;"),
        with_prior(lambda x, v: np.sin(v[0] + 2 * v[2]) + np.sin(3 * v[1])),
        {"w": [1.0, 2.0, 3.0], "at": [1, 3, 2], "u": [1, 3, 4]},
    ),
    Construct(
        "gp_exp_quad_cov",
        x_in_model("target += sum(sin(gp_exp_quad_cov(t, exp(x), exp(v[1]))));",
                   data="array[3] real t;"),
        with_prior(lambda x, v: np.sum(np.sin(kernel(np.exp(x), np.exp(v[0]))))), {"t": KERNEL_AT},
    ),
    Construct(
        "gp_matern32_cov",
        x_in_model("target += sum(sin(gp_matern32_cov(t, exp(x), exp(v[1]))));",
                   data="array[3] real t;"),
        with_prior(lambda x, v: np.sum(np.sin(matern(np.exp(x), np.exp(v[0]))))), {"t": KERNEL_AT},
    ),
    Construct(
        "hmm_marginal",
        x_in_model("matrix[2, 4] w; for (t in 1:4) { w[1, t] = normal_lpdf(y[t] | x, 1); "
                   "w[2, t] = normal_lpdf(y[t] | v[1], 1); }\n"
                   "target += hmm_marginal(w, [[0.8, 0.2], [0.3, 0.7]], [0.5, 0.5]');",
                   data="vector[4] y;"),
        with_prior(hidden_markov), {"y": Y}, since="2.24",
    ),
    Construct(
        "sorting and ranking data",
        x_in_model("target += sum(sin(v[sort_indices_asc(y[1:3])])) + x * rank(y, 2);",
                   data="vector[4] y;"),
        with_prior(lambda x, v: np.sum(np.sin(v)) + x * 2), {"y": Y},
    ),
    Construct(
        "constraints as functions",
        x_in_model("s ~ exponential(1);",
                   transformed_parameters="real s = lower_bound_jacobian(x, 0.5);"),
        with_prior(lambda x, v: -np.exp(x)), since="2.37",
        free=lambda p: np.r_[np.exp(p["x"]), p["v"]],
    ),
]  # fmt: skip
