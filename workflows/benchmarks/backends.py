"""The cost of a density in each backend, and the time each backend takes to start.

    python -m workflows.benchmarks.backends
    python -m workflows.benchmarks.backends --quick    # once each, two programs

Microseconds per gradient and per value of the native backend and of stanli, for the logistic
regressions of the paper on gad, eight schools and a Gaussian process with 200 points; then the
seconds of a cold native start (of a program that was never compiled), of CmdStan's own compilation
of the same program, and of a cached start. Costs are the smallest of `--repeats`, because
disturbances can only add to them. Needs CmdStan and an idle machine.
"""

import time
from functools import partial

import numpy as np
import pandas as pd
from numba import njit

import stanadapt as sa
from stanadapt.engine.density import value, value_and_gradient
from stanadapt.runs.stan_nuts.cmdstan import executable
from stanadapt.targets.stan.bundled import find
from stanadapt.targets.stan.program import read
from workflows import terminal
from workflows.benchmarks.samplers import report

BACKENDS = ("cmdstan", "stanli")
CASES = [("logistic", name) for name in ("ripley", "pima", "german", "caravan")]
CASES += [("eight_schools_noncentered", "eight_schools"), ("neal", "neal")]
SECONDS = 0.2  # of each timing
GAUSSIAN_PROCESS = """
data { int N; array[N] real x; vector[N] y; }
parameters { real<lower=0> rho; real<lower=0> alpha; real<lower=0> sigma; }
model {
  matrix[N, N] covariance = gp_exp_quad_cov(x, alpha, rho);
  for (n in 1:N) covariance[n, n] = covariance[n, n] + square(sigma);
  rho ~ inv_gamma(5, 5);
  alpha ~ normal(0, 1);
  sigma ~ normal(0, 1);
  y ~ multi_normal_cholesky(rep_vector(0, N), cholesky_decompose(covariance));
}
"""


@njit
def _gradients(density, position, out, n):
    total = 0.0
    for _ in range(n):
        total += value_and_gradient(density, position, out)
    return total


@njit
def _values(density, position, n):
    total = 0.0
    for _ in range(n):
        total += value(density, position)
    return total


def gaussian_process(n=200):
    """A Gaussian process with a noisy sine as data."""
    rng = np.random.default_rng(1)
    x = np.sort(rng.uniform(0, 10, n))
    return GAUSSIAN_PROCESS, {"N": n, "x": x, "y": np.sin(x) + 0.3 * rng.standard_normal(n)}


def microseconds(loop, n=1):
    """Time per call; `loop(n)` makes n calls, and n is raised until a timing is long enough."""
    loop(1)
    while True:
        began = time.perf_counter()
        loop(n)
        seconds = time.perf_counter() - began
        if seconds > SECONDS:
            return 1e6 * seconds / n
        n = int(n * max(2.0, 1.2 * SECONDS / max(seconds, 1e-6)))


def costs(cases, repeats):
    """One row per program: microseconds per gradient and per value in each backend."""
    rows = []
    for name, program, data in cases:
        row = {"program": name}
        targets = [sa.Target(program, data, backend=backend) for backend in BACKENDS]
        position = np.random.default_rng(1).normal(size=targets[0].dim) * 0.3
        out = np.empty_like(position)
        best = dict.fromkeys([f"{kind} {b}" for kind in ("gradient", "value") for b in BACKENDS])
        for _ in range(repeats):  # alternating, so that a disturbance affects all backends
            for target in targets:
                density = target.density()
                times = {
                    "gradient": microseconds(partial(_gradients, density, position, out)),
                    "value": microseconds(partial(_values, density, position)),
                }
                for kind, cost in times.items():
                    column = f"{kind} {target.backend}"
                    best[column] = min(best[column] or np.inf, cost)
        row |= best
        row["native/stanli"] = best["gradient cmdstan"] / best["gradient stanli"]
        row["gradient/value"] = best["gradient cmdstan"] / best["value cmdstan"]
        rows.append(row)
    return pd.DataFrame(rows)


def starts(repeats):
    """Seconds of a cold and of a cached native start, and of CmdStan's own compilation."""
    path, data = find("logistic", "pima")
    code, rows = path.read_text(), []
    # compiles the header that all programs share
    sa.Target(path, data, backend="cmdstan", show_progress=False)
    for k in range(repeats):
        # a new comment makes it a new program, which uses the same precompiled header
        new = f"{code}\n// {time.time_ns()} {k}\n"
        began = time.perf_counter()
        target = sa.Target(new, data, backend="cmdstan", show_progress=False)
        cold = time.perf_counter() - began
        own = executable(read(new), lambda text: None)[1]
        began = time.perf_counter()
        sa.Target(new, data, backend="cmdstan", show_progress=False)
        cached = time.perf_counter() - began
        rows.append({
            "cold native start s": cold, "compiling s": target.compile_seconds,
            "CmdStan's own compilation s": own, "cold/own": cold / own, "cached start s": cached,
        })  # fmt: skip
    return pd.DataFrame(rows).median().to_frame().T


def main():
    """Measure and report."""
    parser = terminal.parser(__doc__)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--quick", action="store_true", help="once each, two programs")
    args = parser.parse_args()
    repeats = 1 if args.quick else args.repeats
    cases = [("gaussian_process 200", *gaussian_process())]
    cases += [(f"{p} {d}", *find(p, d)) for p, d in (CASES[1:2] if args.quick else CASES)]
    tables = {
        "microseconds per call": costs(cases, repeats),
        "seconds to start": starts(min(repeats, 3)),
    }
    report("benchmarks/backends", tables, args)


if __name__ == "__main__":
    main()
