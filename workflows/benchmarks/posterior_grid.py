"""The published grid of 17 posteriors of posteriordb, with three seeds each, and its gates.

    python -m workflows.benchmarks.posterior_grid --posteriordb CLONE
    python -m workflows.benchmarks.posterior_grid --posteriordb CLONE --samplers auto,nutpie,nuts
    python -m workflows.benchmarks.posterior_grid --posteriordb CLONE --posteriors arK-arK --seeds 1

A cell, one posterior with one seed, passes if no draw diverges, R-hat is at most 1.01, and bulk and
tail effective sample size are at least 400, for every variable that the database lists for the
posterior. Published are the numbers of seeds that pass, out of three: oWALNUTS 42 of 51, CmdStan
2.39 36, nutpie 0.16.8 28 (see the source). Samplers are ours, "Stan's NUTS", and the peers of
`peers.py`. All have four chains, 1,000 iterations of warm-up (the default sampler may take fewer)
and 1,000 draws. We start chains from our own random positions, and our seeds are 1, 2, ...: the
published ones are those of other generators.

A cell that fails is printed with the gates that it misses. A program that the database lacks, or
that cannot be sampled, fails with the message as reason.

References
----------
posteriordb_bench_v5 in the repository dhruv575/oWALNUTS (2026).
"""

import pandas as pd

from stanadapt.errors import StanadaptError
from stanadapt.targets.posteriordb import posteriordb
from workflows import record, terminal
from workflows.benchmarks import peers
from workflows.benchmarks.against_nuts import NUTS, measured
from workflows.benchmarks.against_peers import FIRST, FULL, SHORT, divergences, run
from workflows.benchmarks.samplers import show

# seeds that passed, of three: oWALNUTS, CmdStan, nutpie; a crash passes none
PUBLISHED = {
    "eight_schools-eight_schools_noncentered": (3, 3, 0),
    "eight_schools-eight_schools_centered": (0, 0, 0),
    "diamonds-diamonds": (3, 3, 0),
    "earnings-logearn_interaction": (3, 3, 3),
    "mesquite-logmesquite_logvash": (3, 3, 3),
    "kidiq-kidscore_momhsiq": (3, 3, 3),
    "sblrc-blr": (3, 2, 3),
    "nes2000-nes": (3, 3, 3),
    "arK-arK": (3, 3, 3),
    "arma-arma11": (3, 1, 1),
    "garch-garch11": (3, 3, 3),
    "gp_pois_regr-gp_pois_regr": (3, 0, 0),
    "hmm_example-hmm_example": (3, 3, 3),
    "bball_drive_event_0-hmm_drive_0": (2, 2, 3),
    "one_comp_mm_elim_abs-one_comp_mm_elim_abs": (1, 1, 0),
    "hudson_lynx_hare-lotka_volterra": (3, 3, 0),
    "mcycle_gp-accel_gp": (0, 0, 0),
}
COLUMNS = ("oWALNUTS", "CmdStan 2.39", "nutpie 0.16.8")


def gates(measures, diverged):
    """Return the gates that a fit misses; none if it passes."""
    missed = []
    if diverged > 0:
        missed.append(f"{diverged:.0f} divergences")
    if not measures["r_hat"] <= 1.01:
        missed.append(f"R-hat {measures['r_hat']:.3f}")
    for name in ("bulk", "tail"):
        if not measures[name] >= 400:
            missed.append(f"{name} {measures[name]:.0f}")
    return missed


def cell(target, variables, sampler, seed, lengths, run=run):
    """Run one sampler with one seed; return its result, and the gates that it misses."""
    row = {"posterior": target.name, "sampler": sampler, "seed": seed}
    try:
        fit, seconds = run(target, sampler, seed, "auto", lengths)
    except Exception as error:  # also of a foreign package: the other cells continue
        lines = str(error).splitlines() or [type(error).__name__]
        return {**row, "passed": False, "missed": lines[0]}
    present = [name for name in variables if name in fit.posterior.data_vars]
    measures = measured(fit, present)
    missed = [f"no draws of {name}" for name in variables if name not in present]
    missed += gates(measures, divergences(fit))
    calls = fit.attrs.get("n_gradients", 0) + fit.attrs.get("n_density", 0)
    return {
        **row, **measures, "divergences": divergences(fit), "calls": calls, "seconds": seconds,
        "bulk per 1,000": 1000 * measures["bulk"] / max(calls, 1),
        "passed": not missed, "missed": "; ".join(missed),
    }  # fmt: skip


def cells_of(database, name, samplers, seeds, lengths):
    """All cells of a posterior, and sentences about peers that were left out."""
    try:
        target = database.target(name, show_progress=False)
    except StanadaptError as error:
        failed = {"posterior": name, "passed": False, "missed": str(error).splitlines()[0]}
        rows = [{**failed, "sampler": s, "seed": k + 1} for s in samplers for k in range(seeds)]
        return rows, []
    reasons = {s: peers.why_left_out(s, target.backend) for s in samplers if s in peers.PEERS}
    variables, rows = database.posterior(name).dimensions or target.recorded_parameters, []
    for sampler in (s for s in samplers if not reasons.get(s)):
        cell(target, variables, sampler, 1, FIRST)  # compile before the clock starts
        rows += [
            {**cell(target, variables, sampler, seed, lengths), "posterior": name}
            for seed in range(1, seeds + 1)
        ]
    return rows, [reason for reason in reasons.values() if reason]


def grid(cells):
    """One row per posterior: seeds that pass, by sampler, with the published ones; and totals."""
    counts = cells.groupby(["posterior", "sampler"], sort=False)["passed"].agg(["sum", "size"])
    rows = []
    for name in cells["posterior"].unique():
        row = {"posterior": name}
        for sampler, part in counts.loc[name].iterrows():
            row[sampler] = f"{int(part['sum'])}/{int(part['size'])}"
        for title, passed in zip(COLUMNS, PUBLISHED.get(name, (None,) * 3), strict=True):
            row[title] = "" if passed is None else f"{passed}/3"
        rows.append(row)
    table = pd.DataFrame(rows).fillna("")
    total = {"posterior": "all"}
    for column in table.columns[1:]:
        pairs = [list(map(int, text.split("/"))) for text in table[column] if text]
        total[column] = f"{sum(p[0] for p in pairs)}/{sum(p[1] for p in pairs)}" if pairs else ""
    return pd.concat([table, pd.DataFrame([total])], ignore_index=True)


def main(words=None):
    """Run, print and write the grid."""
    parser = terminal.parser(__doc__)
    parser.add_argument("--posteriordb", required=True, help="path of a clone of posteriordb")
    parser.add_argument(
        "--posteriors", default="", help="names, separated by commas; default: the published 17"
    )
    known = ", ".join([NUTS, *peers.PEERS])
    parser.add_argument("--samplers", default="auto", help=f"ours, or some of {known}")
    parser.add_argument("--seeds", type=terminal.positive, default=3)
    parser.add_argument("--quick", action="store_true", help="short chains: does it run?")
    args = parser.parse_args(words)
    try:
        database = posteriordb(args.posteriordb)
    except StanadaptError as error:
        parser.error(str(error))
    names = list(filter(None, args.posteriors.split(","))) or list(PUBLISHED)
    folder, rows, left_out = record.folder("benchmarks/posterior_grid"), [], {}
    for name in terminal.each(names):
        lengths = SHORT if args.quick else FULL
        new, why = cells_of(database, name, args.samplers.split(","), args.seeds, lengths)
        rows, left_out = rows + new, left_out | dict.fromkeys(why)
        pd.DataFrame(rows).to_csv(folder / "cells.csv", index=False)
    cells = pd.DataFrame(rows)
    if len(cells):
        table = grid(cells)
        table.to_csv(folder / "grid.csv", index=False)
        show("seeds that pass every gate", table)
        for row in cells[~cells["passed"].astype(bool)].itertuples():
            print(f"{row.posterior}, {row.sampler}, seed {row.seed}: {row.missed}")
    for sentence in left_out:
        print(sentence)
    record.finish(folder, vars(args))


if __name__ == "__main__":
    main()
