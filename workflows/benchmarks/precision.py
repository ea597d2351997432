"""Expectations with control variates: what is gained over seeds, and are the errors honest?

    python -m workflows.benchmarks.precision                          # 30 seeds of all programs
    python -m workflows.benchmarks.precision --programs logistic/pima,rats --sampler nuts
    python -m workflows.benchmarks.precision --until 0.01 --seeds 200 # runs that end by the rule
    python -m workflows.benchmarks.precision --picture --seeds 3      # errors against gradients
    python -m workflows.benchmarks.precision --cost                   # processor time
    python -m workflows.benchmarks.precision --quick                  # does it run?

For means, standard deviations and two quantiles of up to 24 quantities: the variance over seeds of
the crude estimates over that of the controlled ones, the median and the lowest over quantities; and
the share of controlled, and of crude, estimates within two of their errors of the truth. For it
stands the mean of the controlled estimates of the other seeds, weighted by their precision: a seed
that stays with its crude estimate would otherwise be taken for an error of the rest. The last table
counts differences between the mean of the controlled estimates and the estimate of a long run of
nuts, in standard errors of both, over all quantities. `to 1 %` is how many gradients a fit would
take, with warm-up, until the standard error of the worst mean is 1 % of its standard deviation
without control variates. `--until` ends fits when means are precise.
"""

import contextlib
import time
from itertools import pairwise

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
EDGES = [-np.inf, *range(-4, 5), np.inf]  # of the histogram of differences


def draw(target, sampler, seed, until=None):
    """Return a fit of ours, of Stan's NUTS ("stan_nuts") or of a peer."""
    if sampler in peers.PEERS:
        lengths = {"chains": 4, "iter_warmup": 1000, "iter_sampling": 1000}
        return peers.peer_fit(target, sampler, seed=seed, **lengths)
    if sampler == "stan_nuts":
        return sa.stan_nuts(target, seed=seed, show_progress=False)
    return sa.sample(target, sampler, seed=seed, until_mcse=until, show_progress=False)


def quantities(fit):
    """Return the names of up to MOST elements that vary."""
    names = [name for name, x in results.columns(fit).items() if np.ptp(x) > 0.0]
    return [names[i] for i in np.unique(np.linspace(0, len(names) - 1, MOST).astype(int))]


def of_fit(fit, target, names):
    """Return values, errors, crude values and crude errors by kind, and counts of gradients."""
    found = sa.expectations(fit, target, names, probabilities=(0.05, 0.95), show_progress=False)
    table, draws = found.table.loc[names], results.columns(fit)
    flat = np.stack([draws[name].ravel() for name in names])
    crude = flat.mean(axis=1), flat.std(axis=1, ddof=1), *np.quantile(flat, (0.05, 0.95), axis=1)
    row = {"gradients": float(results.attribute(fit, "n_gradients", 0)), "extra": found.gradients}
    row["warmup"] = float(results.attribute(fit, "n_gradients_warmup", 0))
    for kind, value in zip(KINDS, crude, strict=True):
        error = table[f"mcse_{kind}"].to_numpy()
        crude_error = error * np.sqrt(table[f"gain_{kind}"].to_numpy())
        row[kind] = np.stack([table[kind].to_numpy(), error, value, crude_error])
    return row


def summarize(line, rows, long):
    """Add columns of all seeds to the line of a program; return differences by kind."""
    away = {}
    if len(rows) < 2:
        return away
    for kind in KINDS:
        every = np.array([row[kind] for row in rows])
        every = every[:, :, np.isfinite(every).all(axis=(0, 1))]
        values, errors, crude, crude_errors = every.swapaxes(0, 1)
        if not values.size:
            continue
        with np.errstate(all="ignore"):
            ratio = crude.var(axis=0, ddof=1) / values.var(axis=0, ddof=1)
            weight = errors**-2.0
            others = weight.sum(axis=0) - weight
            truth = ((weight * values).sum(axis=0) - weight * values) / others
            z, crude_z = (
                np.abs(x - truth) / np.sqrt(error**2 + 1.0 / others)
                for x, error in ((values, errors), (crude, crude_errors))
            )
        line |= {
            kind: f"{np.median(ratio):,.3g} ({ratio.min():.2g})",
            f"{kind} < 2": f"{np.mean(z < 2):.0%} ({np.mean(crude_z < 2):.0%})",
        }
        if long is not None:
            value, error = long[kind][:2, np.isfinite([r[kind] for r in rows]).all(axis=(0, 1))]
            mean, total = (weight * values).sum(axis=0), weight.sum(axis=0)
            away[kind] = (mean / total - value) / np.sqrt(1.0 / total + error**2)
    sd = np.array([row["sd"][0] for row in rows])
    errors = np.array([row["mean"][3] for row in rows])
    worst = ((errors / sd).max(axis=1) / SHARE) ** 2
    taken, warmup, extra = (
        np.array([row[name] for row in rows]) for name in ("gradients", "warmup", "extra")
    )
    line["gradients"] = float(np.median(taken + extra))
    line["to 1 %, crude"] = float(np.median(warmup + (taken - warmup) * worst))
    return away


def cost(dims=(100, 1000)):
    """Return processor seconds of expectations of Gaussians, with gradients that the fit keeps."""
    lines = []
    for dim in dims:
        program = precision_programs.GAUSSIAN, {"d": dim}
        target = sa.Target(*program, backend="stanli", show_progress=False)
        fit = sa.sample(target, save="gradient", seed=1, show_progress=False)
        began = time.process_time()
        sa.expectations(fit, target, show_progress=False)
        lines.append({"parameters": dim, "draws": 4000, "seconds": time.process_time() - began})
    return pd.DataFrame(lines)


def main():
    """Print and keep the table."""
    parser = terminal.parser(__doc__)
    given = ",".join(PROGRAMS)
    parser.add_argument("--programs", default=given, help="names, by commas")
    parser.add_argument("--sampler", default="auto", help="also stan_nuts, nutpie, nutpie_low_rank")
    parser.add_argument("--backend", default="auto", help="of the densities")
    parser.add_argument("--until", type=float, help="end runs of ours at this error of means")
    parser.add_argument("--long", type=int, default=10_000, help="draws of the long run; 0: none")
    parser.add_argument("--picture", action="store_true", help="only errors against gradients")
    parser.add_argument("--cost", action="store_true", help="only processor time")
    parser.add_argument("--seeds", type=terminal.positive, default=30)
    parser.add_argument("--quick", action="store_true", help="two seeds of one program")
    args = parser.parse_args()
    programs = ["logistic/pima"] if args.quick else args.programs.split(",")
    seeds = 2 if args.quick else args.seeds
    folder = record.folder("benchmarks/precision")
    if args.picture:
        chosen = args.programs if args.programs != given else None
        precision_picture.make(folder, draw, chosen, seeds)
    elif args.cost:
        show("processor seconds of expectations", cost())
    else:
        tables(folder, programs, seeds, args)
    record.write_settings(folder / "settings.json", vars(args))


def tables(folder, programs, seeds, args):
    """Measure, print and keep the tables."""
    lines, away = [], {kind: [] for kind in KINDS}
    with terminal.progress_bar() as bar:
        task = bar.add_task("", total=seeds * len(programs))
        for name in programs:
            bar.update(task, description=name)
            own = name in precision_programs.PROGRAMS
            found = precision_programs.find(name) if own else bundled.find(*name.split("/"))
            target = sa.Target(*found, backend=args.backend, show_progress=False)
            rows, long, names = [], None, None
            for seed in range(1, seeds + 1):
                fit = draw(target, args.sampler, seed, args.until)
                names = names or quantities(fit)
                with contextlib.suppress(sa.StanadaptError):  # a fit that cannot be used
                    rows.append(of_fit(fit, target, names))
                bar.advance(task)
            if args.long:
                options = {"iter_sampling": args.long, "seed": 2**31, "show_progress": False}
                with contextlib.suppress(sa.StanadaptError):
                    long = of_fit(sa.sample(target, "nuts", **options), target, names)
            lines.append({"program": name, "fits": len(rows), "refused": seeds - len(rows)})
            for kind, z in summarize(lines[-1], rows, long).items():
                away[kind] += list(z[np.isfinite(z)])
            pd.DataFrame(lines).to_csv(folder / "precision.csv", index=False)
            counts = pd.DataFrame({"z": [f"{a:g} to {b:g}" for a, b in pairwise(EDGES)]} | {
                kind: np.histogram(z, EDGES)[0] for kind, z in away.items()
            })  # fmt: skip
            counts.to_csv(folder / "differences.csv", index=False)
    show(f"expectations of fits by {args.sampler}", pd.DataFrame(lines))
    show("differences from a long run of nuts, in standard errors", counts)
    print(f"tables: {folder}")


if __name__ == "__main__":
    main()
