"""Expectations with control variates: what is gained over seeds, and are the errors honest?

    python -m workflows.benchmarks.precision                          # 30 seeds of all programs
    python -m workflows.benchmarks.precision --programs logistic/pima,rats --sampler nuts
    python -m workflows.benchmarks.precision --resume                 # continue with fits there are
    python -m workflows.benchmarks.precision --publish                # write their tables to docs
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

import time

import pandas as pd

import stanadapt as sa
from stanadapt import results
from stanadapt.targets.stan import bundled
from workflows import record, terminal
from workflows.benchmarks import peers, precision_picture, precision_programs, precision_tables
from workflows.benchmarks.precision_tables import LONG, of_fit, quantities
from workflows.benchmarks.samplers import show

PROGRAMS = (
    "linear", "logistic/pima", "logistic/german", "student_t", "negative_binomial",
    "weibull", "ordered_logistic", "gaussian_process", "garch", "autoregressive", "galaxies",
    "lotka_volterra", "item_response",
    "eight_schools_noncentered", "eight_schools_centered", "varying_intercepts", "varying_slopes",
    *precision_programs.PROGRAMS,
)  # fmt: skip


def draw(target, sampler, seed, until=None):
    """Return a fit of ours, of Stan's NUTS ("stan_nuts") or of a peer."""
    if sampler in peers.PEERS:
        lengths = {"chains": 4, "iter_warmup": 1000, "iter_sampling": 1000}
        return peers.peer_fit(target, sampler, seed=seed, **lengths)
    if sampler == "stan_nuts":
        return sa.stan_nuts(target, seed=seed, show_progress=False)
    return sa.sample(target, sampler, seed=seed, until_mcse=until, show_progress=False)


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
    parser.add_argument("--resume", action="store_true", help="continue with its fits")
    parser.add_argument("--publish", action="store_true", help="only write the page of the fits")
    parser.add_argument("--picture", action="store_true", help="only errors against gradients")
    parser.add_argument("--cost", action="store_true", help="only processor time")
    parser.add_argument("--seeds", type=terminal.positive, default=30)
    parser.add_argument("--quick", action="store_true", help="two seeds of one program")
    args = parser.parse_args()
    if args.quick:
        args.programs, args.seeds, args.long = "logistic/pima", 2, 1000
    folder = record.folder("benchmarks/precision")
    kept = folder / "fits.csv"
    if args.publish:
        precision_tables.publish(pd.read_csv(kept))
        return
    if args.picture:
        chosen = args.programs if args.programs != given else None
        precision_picture.make(folder, draw, chosen, args.seeds)
    elif args.cost:
        show("processor seconds of expectations", cost())
    else:
        if not args.resume:
            kept.unlink(missing_ok=True)
        measure(kept, args.programs.split(","), args)
        table, counts = precision_tables.of_fits(pd.read_csv(kept))
        table.to_csv(folder / "precision.csv", index=False)
        show(f"expectations of fits by {args.sampler}", precision_tables.as_text(table))
        show("differences from a long run of nuts, in standard errors", counts)
        print(f"tables: {folder}")
    record.write_settings(folder / "settings.json", vars(args))


def measure(kept, programs, args):
    """Add the estimates of fits to a file, but of those that it has."""
    had = pd.read_csv(kept)[["program", "seed"]] if kept.exists() else pd.DataFrame()
    done = set(had.itertuples(index=False, name=None))
    with terminal.progress_bar() as bar:
        task = bar.add_task("", total=(args.seeds + (args.long > 0)) * len(programs))
        for name in programs:
            bar.update(task, description=name)
            own = name in precision_programs.PROGRAMS
            found = precision_programs.find(name) if own else bundled.find(*name.split("/"))
            target = sa.Target(*found, backend=args.backend, show_progress=False)
            for seed in [*range(1, args.seeds + 1), *([LONG] if args.long else [])]:
                bar.advance(task)
                if (name, seed) in done:
                    continue
                if seed == LONG:
                    options = {"iter_sampling": args.long, "seed": 2**31, "show_progress": False}
                    fit = sa.sample(target, "nuts", **options)
                else:
                    fit = draw(target, args.sampler, seed, args.until)
                try:
                    rows = of_fit(fit, target, quantities(fit))
                    judged = results.attribute(fit, "verdict")
                    if seed == LONG and judged == "suspect":  # as in a funnel
                        rows = pd.DataFrame({"refused": [judged]})
                except sa.StanadaptError as error:  # a fit that cannot be used
                    rows = pd.DataFrame({"refused": [error.code]})
                rows = rows.assign(program=name, seed=seed)
                rows = rows.reindex(columns=precision_tables.COLUMNS)
                rows.to_csv(kept, mode="a", header=not kept.exists(), index=False)


if __name__ == "__main__":
    main()
