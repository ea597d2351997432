"""Solvers: differential and algebraic equations, integrals."""

import numpy as np
from scipy import optimize, special

from tests.targets.stan.constructs.construct import Construct, with_prior, x_in_model

DECAY = "vector decay(real t, vector y, real a) { return [-a * y[1], a * y[1] - y[2]]'; }"
TIMES = np.array([0.5, 1.5])
SOLVED = ("array[2] vector[2] y = {0}(decay, [1, 0]', 0, t{1}, exp(x){2});\n"
          "target += sin(y[1, 1] + y[2, 2] + v[1]);")  # fmt: skip
CONTROL = ", 1e-9, 1e-9, 100000"


def decayed(x, v):
    """y1 = exp(-a t), y2 = a (exp(-t) - exp(-a t)) / (a - 1)."""
    a = np.exp(x)
    second = a * (np.exp(-TIMES[1]) - np.exp(-a * TIMES[1])) / (a - 1)
    return np.sin(np.exp(-a * TIMES[0]) + second + v[0])


def ode(name, control="", since="", tolerance=1e-5, by_default=""):
    statements = SOLVED.format(name, control, by_default)
    return Construct(
        name, x_in_model(statements, functions=DECAY, data="array[2] real t;"),
        with_prior(decayed), {"t": TIMES}, since=since, tolerance=tolerance,
    )  # fmt: skip


def root(x, v):
    """Z + z^3 = exp(x) has one root."""
    return np.sin(optimize.brentq(lambda z: z + z**3 - np.exp(x), 0, 1e3, xtol=1e-14) + v[0])


CUBIC = "vector cubic(vector z, real a) { return [z[1] + z[1]^3 - a]'; }"
OLD_CUBIC = ("vector cubic(vector z, vector a, data array[] real r, data array[] int i) "
             "{ return [z[1] + z[1]^3 - a[1]]'; }")  # fmt: skip

CONSTRUCTS = [
    ode("ode_rk45", since="2.24"),
    ode("ode_rk45_tol", CONTROL, "2.24", 1e-7),
    ode("ode_ckrk", since="2.27"),
    ode("ode_bdf", since="2.24"),
    ode("ode_bdf_tol", CONTROL, "2.24", 1e-7),
    ode("ode_adams_tol", CONTROL, "2.24", 1e-7),
    ode(
        "ode_adjoint_tol_ctl",
        ", 1e-9, [1e-9, 1e-9]', 1e-9, [1e-9, 1e-9]', 1e-9, 1e-9, 100000, 100, 1, 2, 2",
        "2.27", 1e-7,
    ),
    Construct(
        "dae",
        x_in_model("array[2] vector[2] y = dae(residual, [1, 1]', [-exp(x), 0]', 0, t, exp(x));\n"
                   "target += sin(y[1, 1] + y[2, 2] + v[1]);", data="array[2] real t;",
                   functions="vector residual(real t, vector y, vector dy, real a) "
                   "{ return [dy[1] + a * y[1], y[1] + y[2] - 2]'; }"),
        with_prior(lambda x, v: np.sin(np.exp(-np.exp(x) * TIMES[0]) + 2
                                       - np.exp(-np.exp(x) * TIMES[1]) + v[0])),
        {"t": TIMES}, since="2.29", tolerance=1e-5,
    ),
    Construct(
        "solve_newton",
        x_in_model("target += sin(solve_newton(cubic, [1]', exp(x))[1] + v[1]);", functions=CUBIC),
        with_prior(root), since="2.31", tolerance=1e-5,
    ),
    Construct(
        "solve_powell",
        x_in_model("target += sin(solve_powell(cubic, [1]', exp(x))[1] + v[1]);", functions=CUBIC),
        with_prior(root), since="2.31", tolerance=1e-5,
    ),
    Construct(
        "algebra_solver",
        x_in_model("target += sin(algebra_solver(cubic, [1]', [exp(x)]', r, i)[1] + v[1]);",
                   functions=OLD_CUBIC, transformed_data="array[0] real r; array[0] int i;"),
        with_prior(root), tolerance=1e-5,
    ),
    Construct(
        "integrate_1d",
        x_in_model("target += sin(integrate_1d(bell, negative_infinity(), 0.5, {x}, r, i) + v[1]);",
                   functions="real bell(real z, real zc, array[] real th, data array[] real r, "
                   "data array[] int i) { return exp(-0.5 * square(z - th[1])); }",
                   transformed_data="array[0] real r; array[0] int i;"),
        with_prior(lambda x, v: np.sin(np.sqrt(2 * np.pi) * special.ndtr(0.5 - x) + v[0])),
        tolerance=1e-7,
    ),
]  # fmt: skip
