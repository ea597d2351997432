"""The recommendation of `advise`, against full runs of all its candidates.

    python -m workflows.benchmarks.advice                       # all targets, two seeds
    python -m workflows.benchmarks.advice --targets pima,funnel --minutes 0.5
    python -m workflows.benchmarks.advice --quick               # does it run?

For each target: the advice of one set of short trials, and runs of every sampler that was tried, of
its default length, with other seeds. The cost of a run is the processor time, warm-up counted, that
it needs for 1000 effective draws: of the bulk, the tails and the squared deviations from the mean,
whichever is least. `relative` is the cost of the recommended sampler divided by that of the
cheapest one with usable draws in every run, in medians over seeds: 1 is the best possible choice,
and 1.5 the worst that is acceptable. `evaluations` is the same ratio by evaluations of the density,
with or without gradient, which depend neither on the machine nor on the work of a sampler between
them.
"""

import json
import warnings

import numpy as np
import pandas as pd

import stanadapt as sa
from stanadapt import results
from stanadapt.diagnostics.missed_modes import missed_share
from stanadapt.studies.advise.trials import Candidate, smallest_ess
from stanadapt.targets.stan.bundled import find
from workflows import record, terminal
from workflows.benchmarks.samplers import show

ESS = 1000.0
FUNNEL = """
parameters { real v; vector[9] x; }
model { v ~ normal(0, 3); x ~ normal(0, exp(v / 2)); }
"""
# an unbiased estimate of a Gaussian's density, with noise that grows with x[1]
NOISY = """
data { int M; real s; }
parameters { vector[2] x; vector[M] u; }
model {
  vector[M] terms;
  for (m in 1:M) terms[m] = s * exp(x[1] / 2) * u[m] - square(s * exp(x[1] / 2)) / 2;
  x[1] ~ normal(0.3, 0.5);
  x[2] ~ normal(-2, 3);
  target += log_sum_exp(terms) - log(M);
  u ~ std_normal();
}
"""
BUNDLED = (
    ("logistic", "ripley"), ("logistic", "pima"), ("linear", "california"),
    ("student_t", "davis"), ("negative_binomial", "deep_sea"), ("ordered_logistic", "bank"),
    ("eight_schools_noncentered", "eight_schools"), ("weibull", "veteran"),
    ("varying_slopes", "sleepstudy"), ("neal", "neal"), ("logistic", "german"),
    ("gaussian_process", "motorcycle"), ("varying_intercepts", "minnesota"),
)  # fmt: skip


def targets():
    """Return functions that make each target, by name."""
    bundled = {
        data: lambda pair=(program, data): sa.Target(*find(*pair)) for program, data in BUNDLED
    }
    return {
        "funnel": lambda: sa.Target(FUNNEL),
        "noisy": lambda: sa.Target(NOISY, {"M": 10, "s": 0.7}, noise=["u"]),
        **bundled,
        "twenty modes": lambda: sa.Target(*find("mixture", "twenty")),
    }


def full_run(target, candidate, seed, length):
    """One run of default length.

    Returns seconds of processor time and evaluations for ESS effective draws, the verdict, and the
    parameters' draws.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            fit = sa.sample(
                target, candidate.sampler, chains=4, seed=seed, show_progress=False,
                **candidate.settings, **length,
            )  # fmt: skip
        except sa.StanadaptError:
            return np.inf, np.inf, "failed", {}
    counts = {
        name: sum(
            results.attribute(fit, f"{kind}{name}", 0) for kind in ("n_gradients", "n_density")
        )
        for name in ("", "_warmup")
    }
    warmup, sampling = (
        float(np.sum(results.attribute(fit, f"{phase}_processor_seconds")))
        for phase in ("warmup", "sampling")
    )
    ess = smallest_ess(fit)
    longer = ESS / ess if ess > 0.0 else np.inf
    seconds = warmup + sampling * longer
    evaluations = counts["_warmup"] + (counts[""] - counts["_warmup"]) * longer
    columns = results.columns(fit, wanted=results.parameters(fit))
    return seconds, evaluations, results.attribute(fit, "verdict"), columns


def rows_of(name, make, minutes, seeds, length):
    """One row per sampler that was tried on a target; the recommended one is marked."""
    target = make()
    advice = sa.advise(target, max_minutes=minutes, seed=1000, show_progress=False)
    recommended = Candidate(advice.sampler, advice.settings).name
    rows, draws = [], {}
    for candidate in advice.candidates:
        runs = [full_run(target, candidate, seed, length) for seed in range(1, seeds + 1)]
        draws[candidate.name] = runs[0][3]
        rows.append({
            "target": name, "parameters": target.dim - target.noise_size,
            "sampler": candidate.name, "recommended": candidate.name == recommended,
            "cost": float(np.median([seconds for seconds, *_ in runs])),
            "evaluations": float(np.median([evaluations for _, evaluations, *_ in runs])),
            "usable": all(verdict == "fine" for *_, verdict, _ in runs),
            "verdicts": json.dumps([verdict for *_, verdict, _ in runs]),
        })  # fmt: skip
    for row in rows:
        here = draws[row["sampler"]]
        fine = [r["sampler"] for r in rows if r["usable"] and r is not row]
        row["missed"] = any(missed_share(draws[other], here).clear for other in fine if here)
    return rows


def summary(table):
    """Return one row per target: the recommended and the cheapest sampler, and their ratio."""
    lines = []
    for name, part in table.groupby("target", sort=False):
        good = part[part["usable"] & ~part["missed"] & np.isfinite(part["cost"])]
        (mine,) = part[part["recommended"]].to_dict("records")
        best = good.loc[good["cost"].idxmin()] if len(good) else None
        sound = best is not None and mine["sampler"] in set(good["sampler"])
        fewest = good["evaluations"].min()
        lines.append({
            "target": name, "parameters": mine["parameters"], "recommended": mine["sampler"],
            "cheapest": "none" if best is None else best["sampler"],
            "relative": mine["cost"] / best["cost"] if sound else np.nan,
            "evaluations": mine["evaluations"] / fewest if sound else np.nan,
            "of": f"{len(good)} of {len(part)}",
        })  # fmt: skip
    return pd.DataFrame(lines)


def markdown(table):
    """The table of the documentation."""
    lines = [
        "| target | parameters | recommended | cheapest usable | relative cost | "
        "relative evaluations | usable samplers |",
        "|---|---|---|---|---|---|---|",
    ]
    for row in table.to_dict("records"):
        cost, evaluations = (
            "–" if np.isnan(row[name]) else f"{row[name]:.2f}"
            for name in ("relative", "evaluations")
        )
        lines.append(
            f"| {row['target']} | {row['parameters']} | `{row['recommended']}` | "
            f"`{row['cheapest']}` | {cost} | {evaluations} | {row['of']} |"
        )
    return "\n".join(lines) + "\n"


def main():
    """Measure, print and write."""
    parser, known = terminal.parser(__doc__), targets()
    parser.add_argument("--targets", default="", help="names, separated by commas; default: all")
    parser.add_argument("--minutes", type=float, default=0.5, help="of trials for each target")
    parser.add_argument("--seeds", type=terminal.positive, default=2, help="of the full runs")
    parser.add_argument("--quick", action="store_true", help="one target, short runs")
    args = parser.parse_args()
    names = [n for n in args.targets.split(",") if n] or list(known)
    if unknown := set(names) - set(known):
        parser.error(f"no target {sorted(unknown)[0]!r} among {', '.join(known)}")
    names = ["ripley"] if args.quick else names
    length = {"iter_warmup": 300, "iter_sampling": 300} if args.quick else {}
    folder, rows = record.folder("benchmarks/advice"), []
    for name in terminal.each(names):
        minutes = 0.05 if args.quick else args.minutes
        rows += rows_of(name, known[name], minutes, 1 if args.quick else args.seeds, length)
        pd.DataFrame(rows).to_csv(folder / "runs.csv", index=False)
        table = summary(pd.DataFrame(rows))
        (folder / "advice.md").write_text(markdown(table), encoding="utf-8")
    show("the recommendation of advise, against full runs", table.astype(object))
    record.finish(folder, vars(args))


if __name__ == "__main__":
    main()
