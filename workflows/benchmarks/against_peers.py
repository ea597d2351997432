"""The default sampler against nutpie and Stan's NUTS, on one compiled density.

    python -m workflows.benchmarks.against_peers                 # three seeds of every program
    python -m workflows.benchmarks.against_peers --programs student_t,logistic/pima --seeds 1
    python -m workflows.benchmarks.against_peers --peers nutpie_low_rank --samplers auto,nuts
    python -m workflows.benchmarks.against_peers --quick         # does it run?

`peers.py` shows how the density is shared and how each peer's gradients are counted. A peer that is
not installed is left out, and a line below the tables says so. The measures are those of
`against_nuts.py`: the smallest bulk, square and tail effective sample size of the parameters, here
per 1,000 gradients, warm-up included. All samplers have 1,000 iterations of warm-up and 1,000 draws
in each of four chains; the default sampler may end its warm-up earlier.

The second headline is the number of gradients of a usable fit: R-hat below 1.01, bulk and tail
effective sample size above 400. It is the geometric mean over seeds, and "not" if the fit of any
seed is not usable.

The ratios are ours over the peer's, geometric means over seeds for each program; their geometric
mean and worst are over programs. The effective sample size of a fit that is not usable means
little, so the ratios are also given for the programs on which the peer is usable with every seed.
"""

import numpy as np
import pandas as pd

import stanadapt as sa
from stanadapt import results
from stanadapt.targets.stan.bundled import find
from workflows import record, terminal
from workflows.benchmarks import peers
from workflows.benchmarks.against_nuts import (
    LENGTHS,
    MEASURES,
    NUTS,
    case_parser,
    chosen_cases,
    fit_and_time,
    mean_of,
    measured,
    processor_seconds,
)
from workflows.benchmarks.samplers import show

FULL = {"iter_warmup": 1000, "iter_sampling": 1000}
SHORT = {"iter_warmup": 300, "iter_sampling": 300}
FIRST = {"iter_warmup": 20, "iter_sampling": 20}
FAILED = dict.fromkeys((*MEASURES, "r_hat", "gradients", "densities", "seconds"), np.nan)


def run(target, sampler, seed, engine, lengths):
    """Return a fit of ours, of Stan's NUTS or of a peer, and its processor seconds."""
    if sampler not in peers.PEERS:
        ours = lengths if lengths != FULL else {}  # the default may choose its own warm-up
        return fit_and_time(target, sampler, seed, engine, ours)
    before = sum(processor_seconds())
    fit = peers.peer_fit(target, sampler, seed=seed, chains=LENGTHS["chains"], **lengths)
    return fit, sum(processor_seconds()) - before


def row_of(target, sampler, seed, engine, lengths, names=None):
    """Return one row: cost and result of a run, or the reason for its failure."""
    try:
        fit, seconds = run(target, sampler, seed, engine, lengths)
    except Exception as error:  # of a foreign package: any; the other samplers continue
        lines = str(error).splitlines() or [type(error).__name__]
        return {**FAILED, "usable": False, "failure": lines[0]}
    return {
        **measured(fit, names),
        "gradients": int(results.attribute(fit, "n_gradients", 0)),
        "densities": int(results.attribute(fit, "n_density", 0)),
        "seconds": seconds,
        "divergences": divergences(fit),
        "engine": results.attribute(fit, "engine", ""),
        "failure": "",
    }


def divergences(fit):
    """Divergent draws after warm-up; nan if the sampler does not report them."""
    if "n_divergences" in fit.attrs:
        return results.attribute(fit, "n_divergences")
    if "sample_stats" not in results.group_names(fit):
        return np.nan
    statistics = results.dataset(fit, "sample_stats")
    return int(statistics["diverging"].sum()) if "diverging" in statistics else np.nan


def rows_of(case, samplers, seeds, engine, lengths):
    """One row per sampler and seed of a program, and sentences about peers that were left out."""
    target = sa.Target(*find(*case), backend=peers.compiled_backend(), show_progress=False)
    reasons = {s: peers.why_left_out(s, target.backend) for s in samplers if s in peers.PEERS}
    present = [s for s in samplers if not reasons.get(s)]
    for sampler in present:  # compile before the clock starts
        row_of(target, sampler, 1, engine, FIRST)
    rows = [
        {"program": case[0], "data": case[1], "sampler": sampler, "seed": seed}
        | row_of(target, sampler, seed, engine, lengths)
        for seed in range(1, seeds + 1)
        for sampler in present
    ]
    return rows, [reason for reason in reasons.values() if reason]


def per_thousand(runs):
    """Runs with their effective sample sizes per 1,000 evaluations, warm-up included."""
    calls = (runs["gradients"] + runs["densities"]).clip(lower=1)
    return runs.assign(calls=calls, **{name: 1000 * runs[name] / calls for name in MEASURES})


def summary(runs):
    """One row per program and sampler, over seeds."""
    rows = []
    for (program, data, sampler), part in per_thousand(runs).groupby(
        ["program", "data", "sampler"], sort=False
    ):
        done = part[part["failure"] == ""]
        row = {"program": program, "data": data, "sampler": sampler}
        row |= {name: mean_of(done[name]) if len(done) else np.nan for name in MEASURES}
        row["seconds"] = done["seconds"].mean()
        row["divergences"] = done["divergences"].sum(min_count=1)
        row["usable"] = f"{int(part['usable'].sum())}/{len(part)}"
        usable = bool(part["usable"].all())
        row["gradients of a usable fit"] = mean_of(part["calls"]) if usable else "not"
        rows.append(row)
    return pd.DataFrame(rows)


def ratios(table, ours):
    """Ours over each other sampler, per program, from a `summary`."""
    rows = []
    for (program, data), part in table.groupby(["program", "data"], sort=False):
        by_sampler = part.set_index("sampler")
        for sampler in by_sampler.index:
            if sampler in ours:
                continue
            for name in (s for s in ours if s in by_sampler.index):
                mine, other = by_sampler.loc[name], by_sampler.loc[sampler]
                needed = [r["gradients of a usable fit"] for r in (other, mine)]
                both = "not" not in needed
                rows.append({
                    "program": program, "data": data, "sampler": name, "over": sampler,
                    **{m: mine[m] / other[m] for m in MEASURES},
                    "gradients saved": needed[0] / needed[1] if both else np.nan,
                    "usable": needed[1] != "not", "other usable": needed[0] != "not",
                })  # fmt: skip
    return pd.DataFrame(rows)


def headline(compared):
    """Geometric mean and worst ratio over programs, all and those on which the other is usable."""
    rows = []
    for (name, other), part in compared.groupby(["sampler", "over"], sort=False):
        chosen = {"all": part, "other usable": part[part["other usable"]]}
        for title, some in chosen.items():
            row = {"sampler": name, "over": other, "programs": title}
            row["count"] = int(some["bulk"].notna().sum())
            row |= {"usable": int(some["usable"].sum())}
            row["other's usable"] = int(some["other usable"].sum())
            for measure in (*MEASURES, "gradients saved"):
                known = some[measure].dropna()
                row[measure] = mean_of(known) if len(known) else np.nan
                row[f"worst {measure}"] = known.min() if len(known) else np.nan
            rows.append(row)
    return pd.DataFrame(rows)


def report(folder, runs, ours, left_out):
    """Print and write the tables of runs, and say which peers they lack."""
    table = summary(runs)
    compared = ratios(table, ours)
    table.to_csv(folder / "summary.csv", index=False)
    show("smallest effective sample size per 1,000 gradients", table.astype(object))
    if len(compared):
        total = headline(compared)
        compared.to_csv(folder / "ratios.csv", index=False)
        total.to_csv(folder / "headline.csv", index=False)
        printed = total.rename(columns=lambda c: c.replace("gradients saved", "gradients"))
        show(
            "ours over the other's: geometric mean and worst over programs", printed.astype(object)
        )
    for sentence in left_out:
        print(sentence)
    for failed in runs[runs["failure"] != ""].itertuples():
        print(f"{failed.program}/{failed.data}, {failed.sampler}, seed {failed.seed} failed: "
              f"{failed.failure}")  # fmt: skip


def main(words=None):
    """Measure, print and write."""
    parser = case_parser(__doc__, 3)
    parser.add_argument(
        "--peers", default=",".join(peers.PEERS), help=f"some of {', '.join(peers.PEERS)}"
    )
    args = parser.parse_args(words)
    listed = chosen_cases(parser, args)
    ours, others = args.samplers.split(","), list(filter(None, args.peers.split(",")))
    unknown = [name for name in others if name not in peers.PEERS]
    if unknown:
        parser.error(f"--peers: {', '.join(unknown)}: choose from {', '.join(peers.PEERS)}")
    seeds, lengths = (1, SHORT) if args.quick else (args.seeds, FULL)
    folder, rows, left_out = record.folder("benchmarks/against_peers"), [], {}
    for case in terminal.each(listed, "/".join):
        new, sentences = rows_of(case, [NUTS, *others, *ours], seeds, args.engine, lengths)
        rows, left_out = rows + new, left_out | dict.fromkeys(sentences)
        pd.DataFrame(rows).to_csv(folder / "runs.csv", index=False)
    report(folder, pd.DataFrame(rows), ours, left_out)
    packages = {p.package: peers.installed_version(p.package) for p in peers.PEERS.values()}
    settings = {**vars(args), "peer versions": packages, "left out": list(left_out)}
    record.finish(folder, settings)


if __name__ == "__main__":
    main()
