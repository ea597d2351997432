"""Centered hierarchies over many simulated data sets: how many fits fail, and are the rest right?

    python -m workflows.benchmarks.hierarchies                        # 100 data sets of each model
    python -m workflows.benchmarks.hierarchies --count 500 --samplers "auto,Stan's NUTS"
    python -m workflows.benchmarks.hierarchies --quick                # does it run?

Parameters are drawn from the prior of a model, and data from the parameters: a hierarchical normal
and a hierarchical binomial model, units within groups, a regression whose coefficients have scales
of their own, the local level of a time series, and groups with a level and a slope that are
correlated. Each data set is fitted with the centered program, whose posterior is a funnel if the
data say little. Groups differ in how much they say: standard errors from 1 to 20, and 2 to 200
trials; 1 to 4 units. The table has the share of fits with divergences, and of those with a verdict
other than "fine", with the codes of their reasons. The verdict of Stan's NUTS is ours on its fit.

The ranks of the true hyperparameters among draws of the posterior are uniform if the sampler is
right (Talts et al., 2018, Validating Bayesian inference algorithms with simulation-based
calibration, arXiv:1804.06788). A chi-square test examines them; small p-values speak against the
sampler. Fits of any verdict count there: to leave out the bad ones would select data sets. Ranks
are those among 99 draws, evenly spaced over all chains. Draws that depend on each other make
extreme ranks more frequent, so fits with few effective draws are seen here as well.
"""

import numpy as np
import pandas as pd
from scipy.stats import chisquare

import stanadapt as sa
from stanadapt import results
from workflows import record, terminal
from workflows.benchmarks.against_nuts import fit_and_time
from workflows.benchmarks.against_peers import divergences
from workflows.benchmarks.samplers import show

ERRORS = np.array([1.0, 2.0, 4.0, 6.0, 10.0, 12.0, 16.0, 20.0])
TRIALS = np.array([2, 3, 5, 8, 12, 20, 40, 80, 120, 200])
GROUP = np.repeat(np.arange(5), [1, 2, 3, 2, 4])
STATES, GROUPS, ROWS = 25, 12, 6
TIMES = np.random.default_rng(2).normal(size=GROUPS * ROWS)
# columns in units of their own
DESIGN = np.random.default_rng(1).normal(size=(25, 6)) * [1.0, 0.01, 50.0, 1.0, 3.0, 0.2]
NORMAL = """
data { int<lower=1> J; vector[J] y; vector<lower=0>[J] error; }
parameters { real mu; real<lower=0> tau; vector[J] theta; }
model {
  mu ~ normal(0, 10);
  tau ~ normal(0, 10);
  theta ~ normal(mu, tau);
  y ~ normal(theta, error);
}
"""
BINOMIAL = """
data { int<lower=1> J; array[J] int<lower=0> y; array[J] int<lower=0> n; }
parameters { real mu; real<lower=0> tau; vector[J] theta; }
model {
  mu ~ normal(-1, 1);
  tau ~ normal(0, 1);
  theta ~ normal(mu, tau);
  y ~ binomial_logit(n, theta);
}
"""
NESTED = """
data { int<lower=1> G; int<lower=1> J; array[J] int group; array[J, 2] real y; }
parameters { real mu; real<lower=0> top; real<lower=0> low; vector[G] theta; vector[J] unit; }
model {
  mu ~ normal(0, 10);
  top ~ normal(0, 5);
  low ~ normal(0, 5);
  theta ~ normal(mu, top);
  unit ~ normal(theta[group], low);
  for (j in 1:J) y[j] ~ normal(unit[j], 4);
}
"""
LOCAL = """
data { int<lower=1> N; int<lower=1> K; matrix[N, K] x; vector[K] unit; vector[N] y; }
parameters { real<lower=0> tau; vector<lower=0>[K] local; vector[K] b; }
model {
  tau ~ normal(0, 1);
  local ~ student_t(3, 0, 1);
  b ~ normal(0, tau * local .* unit);
  y ~ normal(x * b, 1);
}
"""
LEVEL = """
data { int<lower=1> N; vector[N] y; }
parameters { vector[N] u; real<lower=0> s_u; real<lower=0> s_y; }
model {
  s_u ~ normal(0, 1);
  s_y ~ normal(0, 1);
  u[1] ~ normal(0, 2);
  u[2:N] ~ normal(u[1:N - 1], s_u);
  y ~ normal(u, s_y);
}
"""
SLOPES = """
data { int<lower=1> G; int<lower=1> N; array[N] int group; vector[N] x; vector[N] y; }
parameters {
  vector[2] mu; vector<lower=0>[2] tau; cholesky_factor_corr[2] L; array[G] vector[2] b;
  real<lower=0> s;
}
model {
  mu ~ normal(0, 3);
  tau ~ normal(0, 1);
  L ~ lkj_corr_cholesky(2);
  b ~ multi_normal_cholesky(mu, diag_pre_multiply(tau, L));
  s ~ normal(0, 2);
  for (n in 1:N) y[n] ~ normal(b[group[n], 1] + b[group[n], 2] * x[n], s);
}
"""
DRAWS = 99  # so that there are 100 ranks
BINS = (20, 10, 5, 4, 2)  # each divides 100
EXPECTED = 5  # smallest expected number in a bin of the chi-square test


def simulate_normal(rng):
    """Draw hyperparameters and data of the normal model."""
    mu, tau = 10.0 * rng.normal(), 10.0 * abs(rng.normal())
    theta = mu + tau * rng.normal(size=len(ERRORS))
    y = theta + ERRORS * rng.normal(size=len(ERRORS))
    return {"mu": mu, "tau": tau}, {"J": len(ERRORS), "y": y, "error": ERRORS}


def simulate_binomial(rng):
    """Draw hyperparameters and data of the binomial model."""
    mu, tau = -1.0 + rng.normal(), abs(rng.normal())
    theta = mu + tau * rng.normal(size=len(TRIALS))
    y = rng.binomial(TRIALS, 1.0 / (1.0 + np.exp(-theta)))
    return {"mu": mu, "tau": tau}, {"J": len(TRIALS), "y": y, "n": TRIALS}


def simulate_nested(rng):
    """Draw hyperparameters and data of units within groups."""
    mu, top, low = 10.0 * rng.normal(), 5.0 * abs(rng.normal()), 5.0 * abs(rng.normal())
    theta = mu + top * rng.normal(size=GROUP[-1] + 1)
    unit = theta[GROUP] + low * rng.normal(size=len(GROUP))
    y = unit[:, None] + 4.0 * rng.normal(size=(len(GROUP), 2))
    data = {"G": len(theta), "J": len(unit), "group": GROUP + 1, "y": y}
    return {"mu": mu, "top": top, "low": low}, data


def simulate_local(rng):
    """Draw hyperparameters and data of a regression with a scale for each coefficient."""
    n, k = DESIGN.shape
    unit = 1.0 / np.abs(DESIGN).max(axis=0)
    tau, local = abs(rng.normal()), np.abs(rng.standard_t(3, size=k))
    y = DESIGN @ (tau * local * unit * rng.normal(size=k)) + rng.normal(size=n)
    return {"tau": tau}, {"N": n, "K": k, "x": DESIGN, "unit": unit, "y": y}


def simulate_level(rng):
    """Draw the scales of a random walk and of what is observed of it."""
    s_u, s_y = np.abs(rng.normal(size=2))
    u = np.cumsum(np.append(2.0, np.full(STATES - 1, s_u)) * rng.normal(size=STATES))
    y = u + s_y * rng.normal(size=STATES)
    return {"s_u": s_u, "s_y": s_y, "u[25]": u[-1]}, {"N": STATES, "y": y}


def simulate_slopes(rng):
    """Draw groups, each with a level and a slope."""
    mu, tau, s = 3.0 * rng.normal(size=2), np.abs(rng.normal(size=2)), 2.0 * abs(rng.normal())
    rho = 2.0 * rng.beta(2, 2) - 1.0
    factor = tau[:, None] * np.array([[1.0, 0.0], [rho, np.sqrt(1.0 - rho**2)]])
    level, slope = mu[:, None] + factor @ rng.normal(size=(2, GROUPS))
    group = np.repeat(np.arange(GROUPS), ROWS)
    y = level[group] + slope[group] * TIMES + s * rng.normal(size=len(TIMES))
    truth = {"mu[1]": mu[0], "mu[2]": mu[1], "tau[1]": tau[0], "tau[2]": tau[1], "s": s}
    data = {"G": GROUPS, "N": len(y), "group": group + 1, "x": TIMES, "y": y}
    return {**truth, "L[2,1]": rho}, data


# programs, and what draws their hyperparameters and data
MODELS = {
    "normal": (NORMAL, simulate_normal), "binomial": (BINOMIAL, simulate_binomial),
    "nested": (NESTED, simulate_nested), "local": (LOCAL, simulate_local),
    "level": (LEVEL, simulate_level), "slopes": (SLOPES, simulate_slopes),
}  # fmt: skip


def rank(draws, truth):
    """Number of DRAWS evenly spaced draws, of all chains in turn, that are below the truth."""
    flat = np.asarray(draws, float).ravel()
    chosen = np.linspace(0, flat.size - 1, DRAWS).round().astype(int)
    return int(np.sum(flat[chosen] < truth))


def uniformity(ranks):
    """Return the p-value of a chi-square test of ranks 0, ..., 99; nan for too few of them."""
    bins = next((b for b in BINS if len(ranks) / b >= EXPECTED), None)
    if bins is None:
        return np.nan
    numbers = np.bincount(np.asarray(ranks) * bins // (DRAWS + 1), minlength=bins)
    return float(chisquare(numbers).pvalue)


def row_of(target, truth, sampler, seed, lengths):
    """Fit one data set: verdict, divergences, and ranks of the true hyperparameters."""
    fit, seconds = fit_and_time(target, sampler, seed, "auto", lengths)
    drawn = results.columns(fit, wanted=results.parameters(fit))
    return {
        "sampler": sampler,
        "seed": seed,
        "verdict": results.attribute(fit, "verdict"),
        "codes": " ".join(results.from_json(fit, "verdict_codes", [])),
        "divergences": divergences(fit),
        "gradients": int(results.attribute(fit, "n_gradients", 0)),
        "seconds": seconds,
        **{f"rank {name}": rank(drawn[name], value) for name, value in truth.items()},
    }


def rows_of(model, samplers, count, lengths, advance=lambda: None):
    """One row per data set and sampler; the same data sets for every sampler."""
    program, simulate = MODELS[model]
    target, rows = None, []
    for number in range(1, count + 1):
        truth, data = simulate(np.random.default_rng([number, list(MODELS).index(model)]))
        target = (
            sa.Target(program, data, show_progress=False)
            if target is None
            else target.with_data(data)
        )
        for sampler in samplers:
            rows.append({"model": model, **row_of(target, truth, sampler, number, lengths)})
        advance()
    return rows


def summary(rows):
    """One row per model and sampler: shares of failures, and p-values of the ranks."""
    table = []
    for (model, sampler), part in rows.groupby(["model", "sampler"], sort=False):
        row = {"model": model, "sampler": sampler, "data sets": len(part)}
        row["with divergences"] = f"{(part['divergences'] > 0).mean():.1%}"
        row["not fine"] = f"{(part['verdict'] != 'fine').mean():.1%}"
        codes = part.loc[part["verdict"] != "fine", "codes"].str.split().explode()
        row["codes"] = ", ".join(f"{code} {n}" for code, n in codes.value_counts().items())
        row["gradients"] = part["gradients"].median()
        ranks = part.filter(like="rank ").dropna(axis="columns")
        row["p-values of ranks"] = ", ".join(
            f"{name.removeprefix('rank ')} {uniformity(ranks[name].to_numpy(int)):.2g}"
            for name in ranks
        )
        table.append(row)
    return pd.DataFrame(table)


def main():
    """Simulate, fit, print and write."""
    parser = terminal.parser(__doc__)
    parser.add_argument("--samplers", default="auto", help="ours, or Stan's NUTS, by commas")
    parser.add_argument(
        "--count", type=terminal.positive, default=100, help="data sets of each model"
    )
    parser.add_argument("--models", nargs="+", choices=MODELS, default=list(MODELS))
    parser.add_argument("--quick", action="store_true", help="two data sets, short chains")
    args = parser.parse_args()
    count = 2 if args.quick else args.count
    lengths = {"iter_warmup": 300, "iter_sampling": 300} if args.quick else {}
    folder, rows = record.folder("benchmarks/hierarchies"), []
    with terminal.progress_bar() as bar:
        task = bar.add_task("", total=count * len(args.models))
        for model in args.models:
            bar.update(task, description=model)
            samplers = args.samplers.split(",")
            rows += rows_of(model, samplers, count, lengths, lambda: bar.advance(task))
            pd.DataFrame(rows).to_csv(folder / "fits.csv", index=False)
    table = summary(pd.DataFrame(rows))
    table.to_csv(folder / "summary.csv", index=False)
    show("centered hierarchies of simulated data", table)
    record.finish(folder, vars(args))


if __name__ == "__main__":
    main()
