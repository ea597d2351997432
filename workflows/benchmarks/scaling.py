"""How cost grows with the number of parameters: the default sampler beside nutpie.

    python -m workflows.benchmarks.scaling                            # up to 1,000 parameters
    python -m workflows.benchmarks.scaling --sizes 100 1000 10000 --models independent level
    python -m workflows.benchmarks.scaling --quick                    # does it run?

Data are simulated from each model. Processor seconds are those of the whole call, in one thread at
a time, on one compiled density; compilation is left out. The effective sample size is the smallest
bulk, square or tail one of 24 parameters, evenly spaced, the first and the last among them. The
ratio is that of our milliseconds per effective draw to those of the better of nutpie's two metrics,
in the same run: below 1, ours is cheaper. The exponent is the slope of the logarithm of our
processor seconds over that of the number of parameters.
"""

import numpy as np
import pandas as pd

import stanadapt as sa
from workflows import record, terminal
from workflows.benchmarks import peers
from workflows.benchmarks.against_nuts import MEASURES, mean_of
from workflows.benchmarks.against_peers import FIRST, FULL, SHORT, row_of
from workflows.benchmarks.samplers import show

INDEPENDENT = """
data { int N; vector<lower=0>[N] scale; }
parameters { vector[N] x; }
model { x ~ normal(0, scale); }
"""
LEVEL = """
data { int N; vector[N] y; }
parameters { vector[N] z; }
model {
  z[1] ~ normal(0, 5);
  z[2:N] ~ normal(.98 * z[1:N - 1], 1);
  y ~ normal(z, 3);
}
"""
VOLATILITY = """
data { int N; vector[N] y; }
parameters { real mu; real<lower=-1, upper=1> phi; real<lower=0> sigma; vector[N] raw; }
transformed parameters {
  vector[N] h = sigma * raw;
  h[1] /= sqrt(1 - phi^2);
  h += mu;
  for (t in 2:N) h[t] += phi * (h[t - 1] - mu);
}
model {
  phi ~ uniform(-1, 1);
  sigma ~ cauchy(0, 5);
  mu ~ cauchy(0, 10);
  raw ~ std_normal();
  y ~ normal(0, exp(h / 2));
}
"""
GROUPS = """
data { int N; array[10 * N] int group; array[10 * N] int<lower=0, upper=1> y; }
parameters { real mu; real<lower=0> tau; vector[N] PARAMETER; }
model {
  mu ~ normal(0, 2);
  tau ~ normal(0, 1);
  PARAMETER ~ PRIOR;
  y ~ bernoulli_logit(EFFECT[group]);
}
"""
NONCENTERED = {"PARAMETER": "raw", "PRIOR": "std_normal()", "EFFECT": "(mu + tau * raw)"}
CENTERED = {"PARAMETER": "theta", "PRIOR": "normal(mu, tau)", "EFFECT": "theta"}
COLLINEAR = """
data { int N; matrix[2 * N, N] x; vector[2 * N] y; }
parameters { real alpha; vector[N] beta; real<lower=0> sigma; }
model {
  alpha ~ normal(0, 5);
  beta ~ normal(0, 1);
  sigma ~ normal(0, 2);
  y ~ normal_id_glm(x, alpha, beta, sigma);
}
"""
COLUMNS = 24  # whose effective sample size is measured


def walk(rng, n, phi):
    """Draw a stationary autoregressive series of unit innovations."""
    series = rng.normal(size=n) / np.sqrt([1 - phi**2] + [1.0] * (n - 1))
    for t in range(1, n):
        series[t] += phi * series[t - 1]
    return series


def simulate_groups(rng, n):
    """Draw ten binary outcomes in each of n groups."""
    logit = 0.5 + rng.normal(size=n)
    y = rng.random((n, 10)) < 1 / (1 + np.exp(-logit[:, None]))
    return {"group": np.repeat(np.arange(1, n + 1), 10), "y": y.ravel().astype(int)}


def simulate_collinear(rng, n):
    """Draw a regression whose predictors are correlated by .94."""
    x = rng.normal(size=(2 * n, n)) + 4.0 * rng.normal(size=(2 * n, 1))
    return {"x": x, "y": x @ rng.normal(size=n) / np.sqrt(n) + rng.normal(size=2 * n)}


def filled(program, words):
    """Replace words of a program."""
    for word, by in words.items():
        program = program.replace(word, by)
    return program


# the program, and what draws its data but for their number
MODELS = {
    "independent": (INDEPENDENT, lambda rng, n: {"scale": np.geomspace(1e-2, 1e2, n)}),
    "level": (LEVEL, lambda rng, n: {"y": walk(rng, n, 0.98) + 3.0 * rng.normal(size=n)}),
    "volatility": (
        VOLATILITY,
        lambda rng, n: {"y": np.exp(-0.5 + 0.075 * walk(rng, n, 0.97)) * rng.normal(size=n)},
    ),
    "groups": (filled(GROUPS, NONCENTERED), simulate_groups),
    "groups, centered": (filled(GROUPS, CENTERED), simulate_groups),
    "collinear": (COLLINEAR, simulate_collinear),
}


def spaced(target):
    """Return the columns of a fit, of scalars and vectors, that are measured."""
    split = [name.partition(".") for name in target.column_names]
    names = [
        f"{name}[{number}]" if number else name
        for name, _, number in split
        if name in target.recorded_parameters
    ]
    places = np.linspace(0, len(names) - 1, COLUMNS).round().astype(int)
    return [names[place] for place in sorted(set(places))]


def rows_of(model, size, samplers, seeds, lengths):
    """One row per sampler and seed of a model."""
    program, simulate = MODELS[model]
    data = {"N": size, **simulate(np.random.default_rng(size), size)}
    backend, rows = peers.compiled_backend(), []
    target = sa.Target(program, data, backend=backend, show_progress=False)
    for sampler in samplers:  # compile before the clock starts
        row_of(target, sampler, 1, "auto", FIRST)
    for seed in range(1, seeds + 1):
        for sampler in samplers:
            row = row_of(target, sampler, seed, "auto", lengths, spaced(target))
            rows.append({"model": model, "size": size, "sampler": sampler, "seed": seed} | row)
    return rows


def summary(runs, ours):
    """One row per model and size: geometric means over seeds, and ours over the better peer's."""
    runs = runs.assign(cost=1000 * runs["seconds"] / runs[list(MEASURES)].min(axis=1))
    rows = []
    for (model, size), part in runs.groupby(["model", "size"], sort=False):
        cost = part.groupby("sampler")["cost"].agg(mean_of)
        mine, others = part[part["sampler"] == ours], cost.drop(ours).dropna()
        rows.append({
            "model": model, "size": size, "gradients": mean_of(mine["gradients"]),
            "seconds": mean_of(mine["seconds"]), "ms per draw": cost[ours],
            "the peer's": others.min() if len(others) else np.nan,
            "peer": others.idxmin() if len(others) else "",
            "usable": f"{int(mine['usable'].sum())}/{len(mine)}",
        })  # fmt: skip
    table = pd.DataFrame(rows)
    return table.assign(ratio=table["ms per draw"] / table["the peer's"])


def exponents(table):
    """Slope of log seconds over log size between the smallest and the largest size of a model."""
    rows = []
    for model, part in table.groupby("model", sort=False):
        first, last = part.iloc[0], part.iloc[-1]
        if last["size"] > first["size"]:
            rows.append({
                "model": model, "from": first["size"], "to": last["size"],
                "exponent": np.log(last["seconds"] / first["seconds"])
                / np.log(last["size"] / first["size"]),
            })  # fmt: skip
    return pd.DataFrame(rows)


def main():
    """Measure, print and write."""
    parser = terminal.parser(__doc__)
    parser.add_argument("--sampler", default="auto", help="ours")
    parser.add_argument("--peers", nargs="*", choices=peers.PEERS, default=list(peers.PEERS))
    parser.add_argument("--models", nargs="+", choices=MODELS, default=list(MODELS))
    parser.add_argument("--sizes", nargs="+", type=terminal.positive, default=[100, 300, 1000])
    parser.add_argument("--seeds", type=terminal.positive, default=3)
    parser.add_argument("--quick", action="store_true", help="two sizes, short chains, ours alone")
    args = parser.parse_args()
    if args.quick:
        args.sizes, args.seeds, args.peers = [10, 20], 1, []
    folder, rows = record.folder("benchmarks/scaling"), []
    samplers, lengths = [args.sampler, *args.peers], SHORT if args.quick else FULL
    jobs = [(model, size) for model in args.models for size in args.sizes]
    for model, size in terminal.each(jobs, lambda job: f"{job[0]}, {job[1]}"):
        rows += rows_of(model, size, samplers, args.seeds, lengths)
        pd.DataFrame(rows).to_csv(folder / "runs.csv", index=False)
    table = summary(pd.DataFrame(rows), args.sampler)
    table.to_csv(folder / "summary.csv", index=False)
    show("processor milliseconds per effective draw", table.astype(object))
    show("processor seconds over the number of parameters", exponents(table).astype(object))
    record.finish(folder, vars(args))


if __name__ == "__main__":
    main()
