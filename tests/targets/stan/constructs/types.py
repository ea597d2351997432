"""Types of variables, and the transforms of constrained parameters."""

import numpy as np
from scipy import stats

from tests.targets.stan.constructs.construct import Construct, with_prior, x_in_model

STRICTLY_LOWER, LOWER = np.tril_indices(3, -1), np.tril_indices(3)
W = np.array([0.3, -0.2, 0.5])


def constrained(name, declaration, log_density, free=None, **options):
    """A parameter `p` of a constrained type, with a statement for its density."""
    code, statement = declaration
    program = f"parameters {{ {code} }} model {{ {statement} }}"
    return Construct(name, program, log_density, free=free, **options)


def weighted(p):
    """The density of a matrix or a vector p: target += sum(sin(p))."""
    return np.sum(np.sin(p["p"]))


def of_matrix(p):
    return np.sum(np.sin(p["p"])) - 0.1 * np.sum(p["p"] ** 2)


SINES = "target += sum(sin(to_vector(p)));"
SINES_OF_MATRIX = f"{SINES} target += -0.1 * dot_self(to_vector(p));"

CONSTRUCTS = [
    constrained(
        "real<lower>", ("real<lower=-1> p;", "p ~ exponential(0.5);"),
        lambda p: -0.5 * p["p"], lambda p: p["p"],
    ),
    constrained(
        "real<upper>", ("real<upper=2> p;", "p ~ normal(0, 2);"),
        lambda p: -p["p"] ** 2 / 8, lambda p: p["p"],
    ),
    constrained(
        "real<lower, upper>", ("real<lower=-1, upper=3> p;", "p ~ normal(0, 2);"),
        lambda p: -p["p"] ** 2 / 8, lambda p: p["p"],
    ),
    constrained(
        "real<offset, multiplier>", ("real<offset=2, multiplier=3> p;", "p ~ normal(2, 3);"),
        lambda p: -(p["p"] - 2) ** 2 / 18, lambda p: p["p"],
    ),
    Construct(
        "bounds that depend on parameters",
        "parameters { real<lower=0> a; real<lower=a, upper=a + 2> p; }\n"
        "model { a ~ exponential(1); p ~ normal(1, 1); }",
        lambda p: -p["a"] - 0.5 * (p["p"] - 1) ** 2,
        free=lambda p: np.array([p["a"], p["p"]]),
    ),
    Construct(
        "a vector of bounds",
        "data { vector[3] low; } parameters { vector<lower=low>[3] p; }\n"
        "model { p ~ normal(0, 2); }",
        lambda p: -np.sum(p["p"] ** 2) / 8, {"low": [-1.0, 0.0, 0.5]}, free=lambda p: p["p"],
    ),
    constrained(
        "simplex", ("simplex[3] p;", "p ~ dirichlet([2, 3, 4]');"),
        lambda p: np.sum(np.array([1, 2, 3]) * np.log(p["p"])), lambda p: p["p"][:-1],
    ),
    constrained("unit_vector", ("unit_vector[3] p;", SINES), weighted,
                of_position=lambda u: -0.5 * u @ u),
    constrained(
        "ordered", ("ordered[3] p;", "p ~ normal(0, 1);"),
        lambda p: -0.5 * p["p"] @ p["p"], lambda p: p["p"],
    ),
    constrained(
        "positive_ordered", ("positive_ordered[3] p;", "p ~ normal(0, 1);"),
        lambda p: -0.5 * p["p"] @ p["p"], lambda p: p["p"],
    ),
    constrained(
        "sum_to_zero_vector", ("sum_to_zero_vector[3] p;", "p ~ normal(0, [1, 2, 3]');"),
        lambda p: -0.5 * np.sum((p["p"] / [1, 2, 3]) ** 2), lambda p: p["p"][:-1], since="2.36",
    ),
    constrained(
        "sum_to_zero_matrix", ("sum_to_zero_matrix[2, 3] p;", SINES_OF_MATRIX),
        of_matrix, lambda p: p["p"][:-1, :-1], since="2.37",
    ),
    constrained(
        "row_stochastic_matrix", ("row_stochastic_matrix[2, 3] p;", SINES), weighted,
        lambda p: p["p"][:, :-1], since="2.36",
    ),
    constrained(
        "column_stochastic_matrix", ("column_stochastic_matrix[2, 3] p;", SINES), weighted,
        lambda p: p["p"][:-1], since="2.36",
    ),
    constrained(
        "corr_matrix", ("corr_matrix[3] p;", "p ~ lkj_corr(2);"),
        lambda p: np.linalg.slogdet(p["p"])[1], lambda p: p["p"][STRICTLY_LOWER],
    ),
    constrained(
        "cov_matrix", ("cov_matrix[3] p;", "p ~ wishart(5, identity_matrix(3));"),
        lambda p: stats.wishart.logpdf(p["p"], 5, np.eye(3)), lambda p: p["p"][LOWER],
    ),
    constrained(
        "cholesky_factor_corr", ("cholesky_factor_corr[3] p;", "p ~ lkj_corr_cholesky(2);"),
        lambda p: np.sum((3 - np.arange(2, 4) + 2) * np.log(np.diag(p["p"])[1:])),
        lambda p: p["p"][STRICTLY_LOWER],
    ),
    constrained(
        "cholesky_factor_cov", ("cholesky_factor_cov[3] p;", "to_vector(p) ~ normal(0, 1);"),
        lambda p: -0.5 * np.sum(p["p"] ** 2), lambda p: p["p"][LOWER],
    ),
    Construct(
        "arrays of constrained types",
        "parameters { array[2] simplex[3] p; array[2, 2] real<lower=0> q; }\n"
        "model { for (i in 1:2) { p[i] ~ dirichlet([2, 3, 4]'); q[i] ~ exponential(i); } }",
        lambda p: np.sum(np.array([1, 2, 3]) * np.log(p["p"]))
        - np.sum(np.array([1, 2])[:, None] * p["q"]),
        free=lambda p: np.r_[p["p"][:, :-1].ravel(), p["q"].ravel()],
    ),
    Construct(
        "vectors, row vectors and matrices",
        x_in_model("matrix[2, 3] M = [v', x * v']; row_vector[2] r = (M * v)'; "
                   "target += sum(sin(r));"),
        with_prior(lambda x, v: np.sin(v @ v) + np.sin(x * (v @ v))),
    ),
    Construct(
        "arrays of arrays and array expressions",
        x_in_model("array[2, 2] real a = {{x, v[1]}, {v[2], v[3]}}; "
                   "target += sin(a[2, 1] * a[1, 2]);"),
        with_prior(lambda x, v: np.sin(v[1] * v[0])),
    ),
    Construct(
        "arrays of vectors and of matrices",
        x_in_model(
            "array[2] matrix[2, 2] m; m[1] = [[x, v[1]], [0, 1]]; m[2] = m[1] * m[1];\n"
            "array[2] vector[3] w = {v, 2 * v}; target += sin(m[2, 1, 2]) + sin(w[2, 3]);"
        ),
        with_prior(lambda x, v: np.sin(x * v[0] + v[0]) + np.sin(2 * v[2])),
    ),
    Construct(
        "tuples",
        x_in_model(
            "tuple(real, vector[3]) t = (x, v); t.1 = sin(t.1);\n"
            "target += t.1 * sum(t.2);"
        ),
        with_prior(lambda x, v: np.sin(x) * np.sum(v)), since="2.33",
    ),
    Construct(
        "arrays of tuples, unpacking",
        x_in_model(
            "array[2] tuple(real, int) t = {(x, 2), (v[1], 3)}; real a; int k; (a, k) = t[2];\n"
            "target += sin(a * k) + sin(t[1].1 * t[1].2);"
        ),
        with_prior(lambda x, v: np.sin(3 * v[0]) + np.sin(2 * x)), since="2.34",
    ),
    Construct(
        "tuples as parameters",
        "parameters { tuple(real, real<lower=0>) p; } model { p.1 ~ std_normal(); "
        "p.2 ~ exponential(1); }",
        lambda p: -0.5 * p["p:1"] ** 2 - p["p:2"] if "p:1" in p
        else -0.5 * p["p"][0] ** 2 - p["p"][1], since="2.33",
    ),
    Construct(
        "complex numbers",
        x_in_model("complex z = to_complex(x, v[1]); target += get_real(z * z) + sin(abs(z));"),
        with_prior(lambda x, v: x**2 - v[0] ** 2 + np.sin(np.hypot(x, v[0]))), since="2.28",
    ),
    Construct(
        "complex vectors and matrices",
        x_in_model("complex_vector[3] z = fft(to_complex(v, 0)); target += sum(sin(get_imag(z)));"),
        with_prior(lambda x, v: np.sum(np.sin(np.fft.fft(v).imag))), since="2.30",
    ),
    Construct(
        "integers and integer arithmetic",
        x_in_model(
            "int a = 7 %/% k; int b = 7 % k; array[2] int c = {a, b}; "
            "target += sin(x * c[1] + c[2]);",
            data="int k;",
        ),
        with_prior(lambda x, v: np.sin(2 * x + 1)), {"k": 3},
    ),
    Construct(
        "parameters of size zero",
        "data { int K; } parameters { real x; vector[K] w; array[K] simplex[3] s; }\n"
        "model { x ~ normal(0, 1); w ~ normal(0, 1); "
        "for (k in 1:K) s[k] ~ dirichlet([1, 1, 1]'); }",
        lambda p: -0.5 * p["x"] ** 2, {"K": 0},
    ),
]  # fmt: skip
