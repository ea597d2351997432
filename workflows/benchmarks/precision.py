"""Expectations with control variates: what is gained over seeds, and are the errors honest?

    python -m workflows.benchmarks.precision                          # 30 seeds of bundled programs
    python -m workflows.benchmarks.precision --programs logistic/pima,rats --sampler nuts
    python -m workflows.benchmarks.precision --picture --seeds 3      # errors against gradients
    python -m workflows.benchmarks.precision --quick                  # does it run?

For means, standard deviations and two quantiles of up to 24 quantities: the variance over seeds of
the crude estimates over that of the controlled ones, the median and the lowest over quantities; and
the share of controlled, and of crude, estimates within two of their errors of the truth. For it
stands the mean of the controlled estimates of the other seeds, weighted by their precision: a seed
that stays with its crude estimate would otherwise be taken for an error of the rest. `bias` is the
largest difference between the mean of all controlled and that of all crude estimates, in
standard errors of the latter. `gradients` is the median number that a fit takes, with warm-up and
those of the control variates. `to 1 %` is how many it would take until the standard error of the
worst mean is 1 % of its standard deviation without control variates, and how many a run with
`until_mcse=0.01` takes (default sampler and nuts).
"""

import time

import numpy as np
import pandas as pd

import stanadapt as sa
from stanadapt import results
from stanadapt.targets.stan import bundled
from workflows import record, terminal
from workflows.benchmarks import peers, precision_picture, precision_programs
from workflows.benchmarks.samplers import show

PROGRAMS = (
    "linear", "logistic/pima", "logistic/german", "student_t", "negative_binomial",
    "weibull", "ordered_logistic", "gaussian_process", "garch", "autoregressive", "galaxies",
    "lotka_volterra", "item_response",
    "eight_schools_noncentered", "eight_schools_centered", "varying_intercepts", "varying_slopes",
    *precision_programs.PROGRAMS,
)  # fmt: skip
KINDS = ("mean", "sd", "q5", "q95")
MOST = 24  # quantities of a program
SHARE = 0.01


def draw(target, sampler, seed):
    """Return a fit of ours, of Stan's NUTS ("stan_nuts") or of a peer."""
    if sampler in peers.PEERS:
        lengths = {"chains": 4, "iter_warmup": 1000, "iter_sampling": 1000}
        return peers.peer_fit(target, sampler, seed=seed, **lengths)
    if sampler == "stan_nuts":
        return sa.stan_nuts(target, seed=seed, show_progress=False)
    return sa.sample(target, sampler, seed=seed, show_progress=False)


def of_fit(target, sampler, seed):
    """Return estimates and errors by kind, crude and controlled, and counts; None without a fit."""
    fit = draw(target, sampler, seed)
    names = list(sa.summary(fit).index)
    began = time.process_time()
    try:
        found = sa.expectations(fit, target, probabilities=(0.05, 0.95), show_progress=False)
    except sa.StanadaptError as error:
        return {"failed": error.code}
    seconds = time.process_time() - began
    table = found.table
    chosen = [name for name in names if np.isfinite(table.loc[name, "mcse_mean"])]
    chosen = [
        chosen[i] for i in np.linspace(0, len(chosen) - 1, min(len(chosen), MOST)).astype(int)
    ]
    table, draws = table.loc[chosen], results.columns(fit)
    flat = np.stack([draws[name].ravel() for name in chosen])
    crude = {
        "mean": flat.mean(axis=1),
        "sd": flat.std(axis=1, ddof=1),
        "q5": np.quantile(flat, 0.05, axis=1),
        "q95": np.quantile(flat, 0.95, axis=1),
    }
    gradients = float(results.attribute(fit, "n_gradients", 0))
    warmup = float(results.attribute(fit, "n_gradients_warmup", 0))
    row = {"seconds": seconds, "gradients": gradients, "warmup": warmup, "extra": found.gradients}
    if sampler in ("auto", "nuts"):  # those that keep gradients
        short = sa.sample(target, sampler, seed=seed, until_mcse=SHARE, show_progress=False)
        row["until"] = float(results.attribute(short, "n_gradients", 0))
    for kind in KINDS:
        error = table[f"mcse_{kind}"].to_numpy()
        row[kind] = table[kind].to_numpy(), error
        row[f"crude {kind}"] = crude[kind], error * np.sqrt(table[f"gain_{kind}"].to_numpy())
    return row


def summarize(name, rows):
    """Return the line of a program, from the fits of all seeds."""
    usable = [row for row in rows if "failed" not in row]
    line = {"program": name, "fits": len(usable), "refused": len(rows) - len(usable)}
    if len(usable) < 2:
        return line
    for kind in KINDS:
        values, errors = (np.array([row[kind][i] for row in usable]) for i in (0, 1))
        crude, crude_errors = (
            np.array([row[f"crude {kind}"][i] for row in usable]) for i in (0, 1)
        )
        known = np.isfinite(errors).all(axis=0)
        values, errors, crude, crude_errors = (
            x[:, known] for x in (values, errors, crude, crude_errors)
        )
        if not known.any():
            continue
        with np.errstate(all="ignore"):
            ratio = crude.var(axis=0, ddof=1) / values.var(axis=0, ddof=1)
            weight = errors**-2.0
            others = weight.sum(axis=0) - weight
            truth = ((weight * values).sum(axis=0) - weight * values) / others
            z = np.abs(values - truth) / np.sqrt(errors**2 + 1.0 / others)
            crude_z = np.abs(crude - truth) / np.sqrt(crude_errors**2 + 1.0 / others)
            bias = np.abs((values - crude).mean(axis=0)) / crude.std(axis=0, ddof=1)
        line |= {
            f"{kind}": f"{np.median(ratio):,.3g} ({ratio.min():.2g})",
            f"{kind} < 2": f"{np.mean(z < 2):.0%} ({np.mean(crude_z < 2):.0%})",
            f"{kind} bias": bias.max() * np.sqrt(len(usable)),
        }
    sd = np.array([row["sd"][0] for row in usable])
    errors = np.array([row["crude mean"][1] for row in usable])
    worst = ((errors / sd).max(axis=1) / SHARE) ** 2
    taken, warmup = (np.array([row[name] for row in usable]) for name in ("gradients", "warmup"))
    line["to 1 %, crude"] = float(np.median(warmup + (taken - warmup) * worst))
    if "until" in usable[0]:
        line["to 1 %, controlled"] = float(np.median([row["until"] for row in usable]))
    line["gradients"] = float(np.median([row["gradients"] + row["extra"] for row in usable]))
    line["seconds"] = float(np.median([row["seconds"] for row in usable]))
    return line


def main():
    """Print and keep the table."""
    parser = terminal.parser(__doc__)
    given = ",".join(PROGRAMS)
    parser.add_argument("--programs", default=given, help="names, by commas")
    parser.add_argument("--sampler", default="auto", help="also stan_nuts, nutpie, nutpie_low_rank")
    parser.add_argument("--picture", action="store_true", help="only errors against gradients")
    parser.add_argument("--seeds", type=terminal.positive, default=30)
    parser.add_argument("--quick", action="store_true", help="two seeds of one program")
    args = parser.parse_args()
    programs = ["logistic/pima"] if args.quick else args.programs.split(",")
    seeds = 2 if args.quick else args.seeds
    folder, lines = record.folder("benchmarks/precision"), []
    if args.picture:
        precision_picture.make(
            folder, draw, args.programs if args.programs != given else None, seeds
        )
        record.write_settings(folder / "settings.json", vars(args))
        return
    with terminal.progress_bar() as bar:
        task = bar.add_task("", total=seeds * len(programs))
        for name in programs:
            bar.update(task, description=name)
            own = name in precision_programs.PROGRAMS
            found = precision_programs.find(name) if own else bundled.find(*name.split("/"))
            target = sa.Target(*found, show_progress=False)
            rows = []
            for seed in range(1, seeds + 1):
                rows.append(of_fit(target, args.sampler, seed))
                bar.advance(task)
            lines.append(summarize(name, rows))
            pd.DataFrame(lines).to_csv(folder / "precision.csv", index=False)
    table = pd.DataFrame(lines)
    show(f"expectations of fits by {args.sampler}", table)
    record.write_settings(folder / "settings.json", vars(args))
    print(f"tables: {folder}")


if __name__ == "__main__":
    main()
