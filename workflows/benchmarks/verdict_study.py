"""Verdicts against the truth: how often is a wrong fit called fine, and a right one not?

    python -m workflows.benchmarks.verdict_study                          # 30 seeds of each program
    python -m workflows.benchmarks.verdict_study --samplers auto,nuts --seeds 10
    python -m workflows.benchmarks.verdict_study --quick                  # does it run?

The posteriors of `known_posteriors` and of `gaussian_blocks` are sampled with each seed; fits of
Stan's NUTS are judged by `diagnose`, as any fit of other software. For every scalar parameter, the
shares of draws below the true 5, 50 and 95 % points are compared with 5, 50 and 95 %. A fit is
wrong if a share differs by more than that of a normal distribution shifted by a quarter of its
standard deviation: this does not depend on units, and holds for tails without moments. It counts
as wrong only if the difference also exceeds four Monte Carlo errors of as many independent draws
as its smallest effective sample size: a short fit that is honest about its length is not wrong.

A false alarm is a right fit that is not "fine"; a miss is a wrong fit that is. The last table has,
for each code among the reasons of verdicts other than "fine", the numbers of right and of wrong
fits with it, and with no other. The table of tails has the fits of posteriors with a Gaussian
block, given scales or other hubs. A fit lacks a tail if, of any hub, the share of draws below the
true 1 or 5 % point is too small by more than four of these errors: how many are called fine, and
how many have `tail_missing`, as some of the others do.
"""

import numpy as np
import pandas as pd
from scipy.stats import norm

import stanadapt as sa
from stanadapt import results
from stanadapt.diagnostics.mixing import measure_mixing
from stanadapt.diagnostics.screening import worst_columns
from stanadapt.samplers.whitened.missing_tails import find_tails
from workflows import record, terminal
from workflows.benchmarks.against_nuts import NUTS, fit_and_time
from workflows.benchmarks.gaussian_blocks import BLOCKS
from workflows.benchmarks.known_posteriors import KNOWN
from workflows.benchmarks.samplers import show

POSTERIORS = KNOWN | BLOCKS
SHARES, SHIFT, ERRORS = np.array([0.05, 0.5, 0.95]), 0.25, 4.0
SMALL = np.array([0.01, 0.05])  # shares of the tails of hubs
TRUE_DRAWS = 200_000
# bounds of the shares of draws below the true points
LOWEST, HIGHEST = (norm.cdf(norm.ppf(SHARES) + shift) for shift in (-SHIFT, SHIFT))


def points_of(known, seed=0, count=TRUE_DRAWS):
    """True 5, 50 and 95 % points of each scalar parameter, as named in results, and 1 and 5 %."""
    points, small = {}, {}
    count = count if known.kind != "blocks" else count // 4  # these are dear
    for name, draws in known.draw(np.random.default_rng(seed), count).items():
        for at in np.ndindex(draws.shape[1:]):
            values = draws[:, *at]
            full = f"{name}[{','.join(str(i + 1) for i in at)}]" if at else name
            if np.ptp(values) > 0.0:  # an element of a matrix may be constant
                points[full], small[full] = (np.quantile(values, s) for s in (SHARES, SMALL))
    return points, small


def worst_error(columns, points, ess):
    """Return the column with the largest error, and the error: above 1 it is wrong.

    The error of a share is in units of the difference that is allowed; an error within its Monte
    Carlo error counts as 0.
    """
    errors = {}
    for name, at in points.items():
        shares = (columns[name].ravel()[:, None] < at).mean(axis=0)
        allowed = np.where(shares > SHARES, HIGHEST - SHARES, SHARES - LOWEST)
        by_chance = ERRORS * np.sqrt(SHARES * (1.0 - SHARES) / max(ess, 1.0))
        off = np.abs(shares - SHARES)
        errors[name] = float(np.max(np.where(off > by_chance, off / allowed, 0.0)))
    worst = max(errors, key=errors.get)
    return worst, errors[worst]


def tails_of(target, fit, columns, points, ess):
    """Return the smallest ramp of the hubs of a Gaussian block, and how much of a tail is missing.

    The latter is the most negative difference of a share below a true 1 or 5 % point, in Monte
    Carlo errors; both are nan without a block.
    """
    found = find_tails(target, fit)
    if found is None or not found.tails:
        return {"ramp": np.nan, "tail": np.nan}
    names = {target.coordinate_names[tail.coordinate] for tail in found.tails}
    off = [
        ((columns[name].ravel()[:, None] < points[name]).mean(axis=0) - SMALL)
        / np.sqrt(SMALL * (1.0 - SMALL) / max(ess, 1.0))
        for name in names & set(points)
    ]
    return {"ramp": min(tail.z for tail in found.tails), "tail": float(np.min(off))}


def share_of(fit, statistic, condition):
    """Return the share of draws for which a sample statistic fulfills a condition; 0 without it."""
    stats = results.dataset(fit, "sample_stats")
    return float(condition(stats[statistic].values).mean()) if statistic in stats else 0.0


def row_of(name, target, points, small, sampler, seed, lengths):
    """Fit one program: the verdict, what it was based on, and the error."""
    fit, seconds = fit_and_time(target, sampler, seed, "auto", lengths)
    judged, codes = results.attribute(fit, "verdict"), results.from_json(fit, "verdict_codes", [])
    if sampler == NUTS:
        diagnosis = sa.diagnose(fit, target)
        judged, codes = diagnosis.verdict, [reason.code for reason in diagnosis.reasons]
    columns = results.columns(fit, wanted=results.parameters(fit))
    mixed = measure_mixing({n: columns[n] for n in worst_columns(columns)})
    ess = min(min(m.ess_bulk, m.ess_tail) for m in mixed.values())
    ess = ess if np.isfinite(ess) else 0.0
    column, error = worst_error(columns, points, ess)
    return {
        "program": name, "kind": POSTERIORS[name].kind, "sampler": sampler, "seed": seed,
        "verdict": judged, "codes": " ".join(codes),
        **tails_of(target, fit, columns, small, ess),
        "wrong": error > 1.0, "error": error, "column": column, "ess": ess,
        "r_hat": max(m.r_hat for m in mixed.values()),
        "diverging": share_of(fit, "diverging", lambda x: x),
        "rejected": share_of(fit, "acceptance_rate", lambda x: x < 0.01),
        "gradients": int(results.attribute(fit, "n_gradients", 0)), "seconds": seconds,
        "trajectory": results.attribute(fit, "trajectory", ""),
        "straightening": results.attribute(fit, "straightening", ""),
    }  # fmt: skip


def by_program(rows):
    """One row per sampler and program: how many fits are fine, right, false alarms and misses."""
    table = []
    for (sampler, program), part in rows.groupby(["sampler", "program"], sort=False):
        fine, wrong = part["verdict"] == "fine", part["wrong"]
        table.append({
            "sampler": sampler, "kind": part["kind"].iloc[0], "program": program,
            "fits": len(part), "fine": int(fine.sum()), "wrong": int(wrong.sum()),
            "false alarms": int((~fine & ~wrong).sum()), "misses": int((fine & wrong).sum()),
            "gradients": part["gradients"].median(), "largest error": part["error"].max(),
        })  # fmt: skip
    return pd.DataFrame(table)


def by_code(rows):
    """One row per sampler and code: right and wrong fits with it, and those with no other."""
    table = []
    for sampler, part in rows.groupby("sampler", sort=False):
        codes = part["codes"].fillna("").str.split()
        for code in sorted(set(codes.sum())):
            has = codes.map(lambda found, code=code: code in found) & (part["verdict"] != "fine")
            alone = has & (codes.map(len) == 1)
            table.append({
                "sampler": sampler, "code": code,
                "right": int((has & ~part["wrong"]).sum()),
                "wrong": int((has & part["wrong"]).sum()),
                "right, alone": int((alone & ~part["wrong"]).sum()),
                "wrong, alone": int((alone & part["wrong"]).sum()),
            })  # fmt: skip
    return pd.DataFrame(table)


def by_tails(rows):
    """One row per sampler: fits with a Gaussian block, those that lack a tail, and the others."""
    table = []
    for sampler, part in rows.dropna(subset="tail").groupby("sampler", sort=False):
        flagged = part["codes"].fillna("").str.contains("tail_missing")
        lacks, fine = part["tail"] < -ERRORS, part["verdict"] == "fine"
        right = ~lacks & ~part["wrong"]
        alone = right & flagged & (part["codes"].fillna("").str.split().map(len) == 1)
        table.append({
            "sampler": sampler, "fits": len(part), "lack a tail": int(lacks.sum()),
            "of these fine": int((lacks & fine).sum()),
            "of these tail_missing": int((lacks & flagged).sum()), "right": int(right.sum()),
            "right and tail_missing": int((right & flagged).sum()),
            "right and nothing else": int(alone.sum()),
        })  # fmt: skip
    return pd.DataFrame(table)


def rates(rows):
    """Return, per sampler, false alarms among right fits and misses among wrong ones."""
    table = []
    for sampler, part in rows.groupby("sampler", sort=False):
        fine, wrong = part["verdict"] == "fine", part["wrong"]
        table.append({
            "sampler": sampler, "fits": len(part), "right": int((~wrong).sum()),
            "false alarms": f"{(~fine & ~wrong).sum() / max((~wrong).sum(), 1):.1%}",
            "wrong": int(wrong.sum()),
            "misses": f"{(fine & wrong).sum() / max(wrong.sum(), 1):.1%}",
            "wrong among fine": f"{(fine & wrong).sum() / max(fine.sum(), 1):.2%}",
        })  # fmt: skip
    return pd.DataFrame(table)


def main():
    """Fit, print and write."""
    parser = terminal.usual_parser(__doc__, "benchmarks/verdict_study", "two programs, one seed")
    parser.add_argument("--samplers", default="auto", help="ours, or Stan's NUTS, by commas")
    parser.add_argument("--seeds", type=terminal.positive, default=30, help="fits of each program")
    parser.add_argument("--programs", default=",".join(POSTERIORS), help="names, by commas")
    args = parser.parse_args()
    names = ["four", "box"] if args.quick else args.programs.split(",")
    seeds = 1 if args.quick else args.seeds
    lengths = {"iter_warmup": 300, "iter_sampling": 300} if args.quick else {}
    folder, rows = record.folder("benchmarks/verdict_study", args.out), []
    for name in terminal.each(names):
        known = POSTERIORS[name]
        target = sa.Target(known.program, known.data, show_progress=False)
        points, small = points_of(known)
        for sampler in args.samplers.split(","):
            for seed in range(args.seed, args.seed + seeds):
                rows.append(row_of(name, target, points, small, sampler, seed, lengths))
        pd.DataFrame(rows).to_csv(folder / "fits.csv", index=False)
    rows = pd.DataFrame(rows)
    for title, file, table in (
        ("false alarms and misses", "rates", rates(rows)),
        ("by program", "programs", by_program(rows)),
        ("by code", "codes", by_code(rows)),
        ("tails of hubs of a Gaussian block", "tails", by_tails(rows)),
    ):
        table.to_csv(folder / f"{file}.csv", index=False)
        show(title, table)
    record.finish(folder, {**vars(args), "out": str(folder), "true_draws": TRUE_DRAWS})


if __name__ == "__main__":
    main()
