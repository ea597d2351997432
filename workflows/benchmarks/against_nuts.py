"""Samplers against Stan's NUTS, on programs of an everyday kind in raw units.

    python -m workflows.benchmarks.against_nuts                  # the default sampler, five seeds
    python -m workflows.benchmarks.against_nuts --samplers auto,nuts,gad_mala --seeds 3
    python -m workflows.benchmarks.against_nuts --quick          # does it run?
    python -m workflows.benchmarks.publish output/benchmarks/against_nuts    # for the documentation

For each program and seed: the smallest bulk, square and tail effective sample size of the
parameters, per gradient and per processor second, warm-up counted, divided by that of Stan's NUTS
with its defaults in the same run. Squares are those of the deviations from the mean: long
trajectories can make means very good and variances bad. Processor seconds are those of the whole
call, with results built; for CmdStan, those of its processes. Compilation is left out. A fit is
usable if R-hat is below 1.01 and bulk and tail effective sample size are above 400. The error is
the largest difference of a median from that of all NUTS runs together, in half widths of the
posterior's central 68 percent: for a normal posterior, that of the mean in standard deviations. A
posterior with the tails of a half-Cauchy prior may have neither.

Left out are programs with separate modes, between which neither sampler moves, and those without a
gradient.
"""

import json
import resource
import time
import warnings
from pathlib import Path

import numpy as np
import pandas as pd

import stanadapt as sa
from stanadapt import results
from stanadapt.diagnostics.mixing import TAILS
from stanadapt.targets.stan.bundled import available, find
from workflows import record, terminal
from workflows.benchmarks.samplers import show

LEFT_OUT = {"mixture", "boltzmann", "ring", "flower", "glass", "rings"}
QUICK = [("logistic", "ripley"), ("eight_schools_noncentered", "eight_schools")]
NUTS = "Stan's NUTS"
MEASURES = ("bulk", "squares", "tail")
LENGTHS = {"chains": 4, "show_progress": False}


def cases():
    """Every bundled program and data set that is measured."""
    programs = [p for name, p in available().items() if name not in LEFT_OUT]
    return [(program.name, data) for program in programs for data in program.data]


def case_parser(docstring, seeds):
    """Return a parser with the options of comparisons on bundled programs."""
    parser = terminal.parser(docstring)
    parser.add_argument("--samplers", default="auto", help="ours: names, separated by commas")
    parser.add_argument("--seeds", type=terminal.positive, default=seeds)
    parser.add_argument(
        "--programs", default="", help="NAME or NAME/DATA, separated by commas; default: all"
    )
    parser.add_argument("--engine", default="auto", help="of Stan's NUTS: auto, cmdstan or stanli")
    parser.add_argument("--quick", action="store_true", help="two programs, short chains")
    return parser


def chosen_cases(parser, args):
    """Return the programs and data that are asked for; an unknown name ends the command."""
    wanted = set(filter(None, args.programs.split(",")))
    known = dict.fromkeys(name for case in cases() for name in (case[0], "/".join(case)))
    if unknown := wanted - set(known):
        parser.error(f"no program {sorted(unknown)[0]!r} among {', '.join(known)}")
    named = [case for case in cases() if not wanted.isdisjoint({case[0], "/".join(case)})]
    return QUICK if args.quick else named or cases()


def columns_of(fit, names=None):
    """Columns that vary of the parameters, or of the variables or columns named: (chain, draw)."""
    wanted = set(names or json.loads(results.attribute(fit, "parameters")))
    columns = {n: np.asarray(x, float) for n, x in results.columns(fit).items()}
    selected = {n: x for n, x in columns.items() if not wanted.isdisjoint({n, n.split("[")[0]})}
    return {n: x for n, x in selected.items() if not np.all(x == x.flat[0])}


def measured(fit, names=None):
    """Smallest effective sample sizes and largest R-hat of `columns_of`; nan is the worst."""
    arviz, columns = results.arviz_module(), columns_of(fit, names)
    measures = {"bulk": np.inf, "squares": np.inf, "tail": np.inf, "r_hat": 0.0}
    for x in columns.values():
        values = {
            "bulk": arviz.ess(x, method="bulk"),
            "squares": arviz.ess((x - x.mean()) ** 2, method="bulk"),
            "tail": arviz.ess(x, method="tail", prob=TAILS),
        }
        for name, value in values.items():
            measures[name] = min(measures[name], np.nan_to_num(float(value)))
        r_hat = float(arviz.rhat(x))
        measures["r_hat"] = max(measures["r_hat"], np.inf if np.isnan(r_hat) else r_hat)
    usable = measures["r_hat"] < 1.01 and min(measures["bulk"], measures["tail"]) > 400
    return {**measures, "usable": usable}


def processor_seconds():
    """Return processor seconds of this process, and of its children that have ended."""
    children = resource.getrusage(resource.RUSAGE_CHILDREN)
    return time.process_time(), children.ru_utime + children.ru_stime


def fit_and_time(target, sampler, seed, engine, lengths):
    """Return a fit, and the processor seconds that it took."""
    before = processor_seconds()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # verdicts are in the table
        if sampler == NUTS:
            fit = sa.stan_nuts(target, backend=engine, seed=seed, **LENGTHS, **lengths)
        else:
            fit = sa.sample(target, sampler, seed=seed, **LENGTHS, **lengths)
    ours, children = (after - then for after, then in zip(processor_seconds(), before, strict=True))
    # CmdStan's CSV files are read, and the density is checked, by this process
    return fit, children if sampler == NUTS and children > 0.05 else ours


def rows_of(case, samplers, seeds, engine, quick):
    """One row per sampler and seed of a program, Stan's NUTS among them."""
    target = sa.Target(*find(*case), show_progress=False)
    lengths = {"iter_warmup": 300, "iter_sampling": 300} if quick else {}
    for sampler in (NUTS, *samplers):  # compile before the clock starts
        fit_and_time(target, sampler, 1, engine, {"iter_warmup": 20, "iter_sampling": 20})
    fits, rows = {}, []
    for seed in range(1, seeds + 1):
        for sampler in (NUTS, *samplers):
            fit, seconds = fit_and_time(target, sampler, seed, engine, lengths)
            fits[sampler, seed] = columns_of(fit)
            rows.append({
                "program": case[0], "data": case[1], "sampler": sampler, "seed": seed,
                "verdict": results.attribute(fit, "verdict"), **measured(fit),
                "gradients": int(results.attribute(fit, "n_gradients", 0)),
                "densities": int(results.attribute(fit, "n_density", 0)), "seconds": seconds,
                "chosen": results.attribute(fit, "trajectory", ""),
                "engine": results.attribute(fit, "engine", ""),
            })  # fmt: skip
    reference = [fits[NUTS, seed] for seed in range(1, seeds + 1)]
    for row in rows:
        row["error"] = error(fits[row["sampler"], row["seed"]], reference)
    return rows


def error(fit, reference):
    """Largest difference of medians from those of the reference runs; see above."""
    largest = 0.0
    for name, draws in fit.items():
        pooled = np.concatenate([run[name] for run in reference if name in run])
        low, middle, high = np.quantile(pooled, [0.16, 0.5, 0.84])
        largest = max(largest, abs(np.median(draws) - middle) / (0.5 * (high - low)))
    return largest


def summary(table):
    """One row per program and sampler: ratios to Stan's NUTS, over seeds."""
    for name in MEASURES:
        calls = table["gradients"] + table["densities"]
        table[f"{name}/gradient"] = table[name] / calls.clip(lower=1)
        table[f"{name}/s"] = table[name] / table["seconds"]
    rows = []
    for (program, data), part in table.groupby(["program", "data"], sort=False):
        stan = part[part["sampler"] == NUTS]
        for sampler, ours in part[part["sampler"] != NUTS].groupby("sampler", sort=False):
            row = {"program": program, "data": data, "sampler": sampler}
            row["usable"] = f"{ours['usable'].sum()}/{len(ours)}"
            row["NUTS usable"] = f"{stan['usable'].sum()}/{len(stan)}"
            for unit in ("gradient", "s"):
                for name in MEASURES:
                    ratio = ours[f"{name}/{unit}"].to_numpy() / mean_of(stan[f"{name}/{unit}"])
                    row[f"{name}/{unit}"] = mean_of(ratio)
                    if name == "bulk":
                        row[f"worst {name}/{unit}"] = ratio.min()
            row["error"] = ours["error"].max()
            row["chosen"] = ours["chosen"].iloc[0].split(":")[0]
            rows.append(row)
    return with_overall(pd.DataFrame(rows))


def mean_of(ratios):
    """Geometric mean."""
    return float(np.exp(np.log(np.maximum(ratios, 1e-12)).mean()))


def with_usable_nuts(table):
    """Return the rows of data sets on which every run of Stan's NUTS is usable.

    If NUTS fails, its effective sample size measures how badly, and a ratio to it means nothing.
    """
    counts = table["NUTS usable"].str.split("/")
    return table[counts.str[0] == counts.str[1]]


def with_overall(table):
    """Add, for each sampler, geometric means and the worst over `with_usable_nuts`."""
    numbers = [c for c in table if "/" in c]
    extra = []
    for sampler, part in with_usable_nuts(table).groupby("sampler", sort=False):
        for title, of in (("geometric mean", mean_of), ("worst", np.min)):
            values = {c: of(part[c]) for c in numbers}
            extra.append({"program": title, "data": "", "sampler": sampler, **values})
    return pd.concat([table, pd.DataFrame(extra)], ignore_index=True)


def main(words=None):
    """Measure, print and write."""
    parser = case_parser(__doc__, 5)
    parser.add_argument("--out", type=Path, help="folder; default: output/benchmarks/against_nuts")
    args = parser.parse_args(words)
    listed = chosen_cases(parser, args)
    seeds, samplers = 1 if args.quick else args.seeds, args.samplers.split(",")
    folder, rows = record.folder("benchmarks/against_nuts", args.out), []
    for case in terminal.each(listed, "/".join):
        rows += rows_of(case, samplers, seeds, args.engine, args.quick)
        pd.DataFrame(rows).to_csv(folder / "runs.csv", index=False)
    table = summary(pd.DataFrame(rows))
    table.to_csv(folder / "summary.csv", index=False)
    for unit in ("gradient", "s"):
        columns = [c for c in table if "/" not in c or c.endswith(f"/{unit}")]
        printed = table[columns].set_axis([c.removesuffix(f"/{unit}") for c in columns], axis=1)
        show(f"effective sample size per {unit}, over that of Stan's NUTS", printed.astype(object))
    record.finish(folder, vars(args))


if __name__ == "__main__":
    main()
