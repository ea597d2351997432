"""The cost of an iteration of each sampler, and effective sample sizes per second.

    python -m workflows.benchmarks.samplers
    python -m workflows.benchmarks.samplers --quick

Microseconds per iteration of each sampler, split into the density (its gradient, or its value for
samplers that need no gradient, timed alone at the chain's positions) and the rest; for tempering
samplers, microseconds per gradient, timed at the points of the chain, and the rest; the same for
the default sampler with a diagonal and a dense metric of a hundred parameters; the cost of
adaptation of the gad samplers beyond a move, for a hundred standard normal parameters; then how two
chains share two cores, and how two threads share one chain; then the smallest effective sample size
per second of gadMALA and of NUTS, for every bundled data set of the paper.
Numbers are medians over `--repeats`. Needs an idle machine.
"""

import time
from types import MappingProxyType

import numpy as np
import pandas as pd
from numba import njit
from rich.console import Console
from rich.table import Table

import stanadapt as sa
from stanadapt.engine.chain import Chain, ChainDesign, advance_together, run
from stanadapt.engine.density import value, value_and_gradient
from stanadapt.engine.plan import make_plan
from stanadapt.engine.registry import resolve
from stanadapt.targets.stan.bundled import find
from workflows import record, terminal
from workflows.benchmarks import clocked_density

CASES = [
    ("neal", "neal", "gad_mala", {}),
    ("neal", "neal", "gad_mala", {"diagonal": True}),
    ("neal", "neal", "gad_rwm", {}),
    ("neal", "neal", "mala", {}),
    ("neal", "neal", "rwm", {}),
    ("neal", "neal", "am", {}),
    ("banana", "strong", "kameleon", {}),
    ("banana", "strong", "kameleon", {"kernel": "matern52"}),
]
NORMALS = "parameters { vector[100] x; } model { x ~ std_normal(); }"
# a stationary autoregression: a dense precision, which no few directions explain
CHAINED = """
parameters { vector[100] x; }
model { x[1] ~ normal(0, 2.294); x[2:] ~ normal(0.9 * x[:99], 1); }
"""
DATA = [("neal", "neal")] + [("logistic", d) for d in ("ripley", "pima", "german", "caravan")]


@njit
def _gradients(density, positions, out):
    total = 0.0
    for i in range(positions.shape[0]):
        total += value_and_gradient(density, positions[i], out)
    return total


@njit
def _values(density, positions, out):
    total = 0.0
    for i in range(positions.shape[0]):
        total += value(density, positions[i])
    return total


def make_chains(
    target, sampler, choices, n, iterations, densities=None, threads=1, standardized=False
):
    """Chains as `sample` makes them, keeping unconstrained draws; on other densities if given.

    If `standardized`, the target is taken for one that is, and settings have the defaults for it.
    """
    definition, *both = resolve(sampler, choices, moved=target.dim)
    settings = both[standardized]
    plan = make_plan(
        chains=n, parallel_chains=n, iter_warmup=iterations, iter_sampling=iterations, thin=1,
        seed=1, save_warmup=False, show_progress=False,
    )  # fmt: skip
    columns = len(target.column_names)
    design = ChainDesign(definition, settings, plan, columns, keep_unconstrained=True)
    return [
        Chain(
            design, densities[i] if densities else target.density(i),
            rng.standard_normal(target.dim), rng, lambda _, i=i: target.constrainer(1, i),
            workers=[target.density(number) for number in range(n + i, n * threads, n)],
        )
        for i, rng in enumerate(map(np.random.default_rng, plan.seeds()))
    ]  # fmt: skip


def cost(target, sampler, choices, iterations):
    """Microseconds per iteration: adapting, afterwards, constraining, and the density alone."""
    (chain,) = make_chains(target, sampler, choices, 1, iterations)
    chain.compile()
    run([chain], 1)
    positions, out = chain.sampling.unconstrained, np.empty(target.dim)
    density = target.density()
    evaluate = _gradients if chain.sampler.uses_gradient else _values
    evaluate(density, positions[:2], out)
    began = time.perf_counter()
    evaluate(density, positions, out)
    scale = 1e6 / iterations
    return {
        "adapting": chain.warmup_seconds * scale,
        "afterwards": (chain.sampling_seconds - chain.constrain_seconds) * scale,
        "constrain": chain.constrain_seconds * scale,
        "density": (time.perf_counter() - began) * scale,
    }


def costs(repeats, quick, large):
    """One row per case: medians over repeats; `large` are data of the logistic regression."""
    rows = []
    for program, data, sampler, choices in [*CASES, ("logistic", large, "gad_mala", {})]:
        target = sa.Target(*find(program, data))
        iterations = (1000 if data == large else 20_000) // (4 if quick else 1)
        table = pd.DataFrame([cost(target, sampler, choices, iterations) for _ in range(repeats)])
        row = table.median()
        name = " ".join([sampler, *(k if v is True else str(v) for k, v in choices.items())])
        for phase in ("adapting", "afterwards"):
            row[f"rest {phase}"] = row[phase] - row["density"]
        rows.append({"data": data, "sampler": name, "backend": target.backend, **row})
    return pd.DataFrame(rows)


def timed(density, positions):
    """Seconds per gradient in consecutive calls at positions, shape (n, dim)."""
    out = np.empty(positions.shape[1])
    _gradients(density, positions[:2], out)
    began = time.perf_counter()
    _gradients(density, positions, out)
    return (time.perf_counter() - began) / len(positions)


def split_cost(target, sampler, iterations, choices=MappingProxyType({})):
    """Seconds per gradient of a chain after warm-up: in the density, and in all the rest.

    The cost around each gradient, including the clock, is measured in a loop of gradients alone. It
    is subtracted from the rest; without the clock's share it is added to the density.
    """
    density, block = clocked_density.clocked(target.density())
    (chain,) = make_chains(target, sampler, choices, 1, iterations, [density])
    chain.compile()
    while chain.warming_up:
        advance_together([chain])
    clocked_density.seconds_inside(block)
    run([chain], 1)
    gradients = chain.calls["gradients"] - chain.warmup_calls[1]
    whole = (chain.sampling_seconds - chain.constrain_seconds) / gradients
    inside, positions = (
        clocked_density.seconds_inside(block) / gradients,
        chain.sampling.unconstrained,
    )
    loop = timed(density, positions)
    loop_inside = clocked_density.seconds_inside(block) / (len(positions) + 2)
    around = timed(target.density(), positions) - loop_inside
    return inside + around, whole - inside - (loop - loop_inside)


def tempering(repeats, quick):
    """Microseconds per gradient of tempering samplers, and of HMC: the density, and the rest."""
    rows, iterations = [], 2_000 if quick else 5_000
    target = sa.Target(*find("boltzmann", "system_10"))
    for sampler in ("hmc", "parallel_tempering", "pseudo_extended"):
        seconds = np.array([split_cost(target, sampler, iterations) for _ in range(3 * repeats)])
        density, rest = 1e6 * np.median(seconds, axis=0)
        share = np.median(seconds[:, 1] / seconds[:, 0])
        rows.append({"data": "boltzmann", "sampler": sampler, "density": density, "rest": rest,
                     "rest over density": share})  # fmt: skip
    return pd.DataFrame(rows)


def default(repeats, quick):
    """Microseconds per gradient of the default sampler after warm-up, by metric."""
    rows, iterations = [], 2_000 if quick else 20_000
    for metric, program in (("diagonal", NORMALS), ("dense", CHAINED)):
        target, settings = sa.Target(program), {"metric": metric} if metric == "diagonal" else {}
        seconds = np.array([
            split_cost(target, "whitened_hmc", iterations, settings) for _ in range(3 * repeats)
        ])  # fmt: skip
        density, rest = 1e6 * np.median(seconds, axis=0)
        rows.append({"metric": metric, "density": density, "rest": rest})
    return pd.DataFrame(rows)


def adaptation(repeats, quick):
    """Microseconds per iteration in warm-up and after it, of the same moves, and the difference."""
    rows, target = [], sa.Target(NORMALS)
    iterations = 5_000 if quick else 20_000
    for sampler in ("gad_mala", "gad_rwm", "gad_hmc"):
        for standardized in (True, False):
            seconds = []
            for _ in range(3 * repeats):
                (chain,) = make_chains(
                    target, sampler, {}, 1, iterations, standardized=standardized
                )  # fmt: skip
                chain.compile()
                run([chain], 1)
                after = chain.sampling_seconds - chain.constrain_seconds
                seconds.append((chain.warmup_seconds, after, chain.warmup_seconds - after))
            warmup, after, difference = 1e6 / iterations * np.median(seconds, axis=0)
            rows.append({
                "sampler": sampler, "defaults": "standardized" if standardized else "plain",
                "warm-up": warmup, "afterwards": after, "adaptation": difference,
            })  # fmt: skip
    return pd.DataFrame(rows)


def sharing(repeats, quick, large):
    """Wall time of two chains in parallel, relative to one; medians over repeats."""
    rows = []
    for program, data in (("neal", "neal"), ("logistic", large)):
        target = sa.Target(*find(program, data))
        iterations = (2000 if data == large else 100_000) // (8 if quick else 1)
        seconds = {1: [], 2: []}
        for _ in range(repeats):
            for n in seconds:
                chains = make_chains(target, "gad_mala", {}, n, iterations)
                began = time.perf_counter()
                run(chains, n)
                seconds[n].append(time.perf_counter() - began)
        one, two = (float(np.median(seconds[n])) for n in (1, 2))
        rows.append({"data": data, "one chain s": one, "two chains s": two, "ratio": two / one})
    return pd.DataFrame(rows)


def threading(repeats, quick):
    """Wall time of one chain on two threads, relative to one thread; medians over repeats."""
    rows = []
    for program, data, iterations in (
        ("boltzmann", "system_10", 20_000),
        ("logistic", "german", 4_000),
    ):
        target = sa.Target(*find(program, data))
        for sampler in ("parallel_tempering", "pseudo_extended"):
            seconds = {1: [], 2: []}
            for _ in range(repeats):
                for threads in seconds:
                    (chain,) = make_chains(
                        target, sampler, {}, 1, iterations // (8 if quick else 1), None, threads
                    )
                    chain.compile()
                    run([chain], 1)
                    seconds[threads].append(chain.warmup_seconds + chain.sampling_seconds)
            one, two = (float(np.median(seconds[n])) for n in (1, 2))
            rows.append({"data": data, "sampler": sampler, "one thread s": one,
                         "two threads s": two, "ratio": two / one})  # fmt: skip
    return pd.DataFrame(rows)


def efficiencies(engine, quick):
    """Smallest bulk ESS per second, warm-up included, of gadMALA and NUTS on every data set."""
    rows = []
    for program, data in DATA[:-1] if quick else DATA:
        target = sa.Target(*find(program, data))
        lengths = {"iter_warmup": 2000, "iter_sampling": 2000} if quick else {}
        fit = sa.sample(target, "gad_mala", seed=1, show_progress=False, **lengths)
        nuts = sa.stan_nuts(target, backend=engine, seed=1, show_progress=False)
        table = sa.compare({"gad_mala": fit, "nuts": nuts})
        ours, theirs = table.loc["gad_mala"], table.loc["nuts"]
        rows.append({
            "data": data,
            "gadMALA ESS/s": ours["ess_per_second"],
            f"NUTS ESS/s ({theirs['sampler']})": theirs["ess_per_second"],
            "ratio": ours["ess_per_second"] / theirs["ess_per_second"],
            "gadMALA ESS/gradient": ours["ess_per_gradient"],
            "NUTS ESS/gradient": theirs["ess_per_gradient"],
            "z mean": ours["z_mean"],
        })  # fmt: skip
    return pd.DataFrame(rows)


def show(title, table):
    """Print a data frame."""
    printed = Table(title=title, box=None, header_style="bold", title_justify="left")
    for column in table:
        printed.add_column(str(column), justify="right")
    for row in table.itertuples(index=False):
        printed.add_row(*(x if isinstance(x, str) else "" if x != x else f"{x:.4g}" for x in row))
    Console(width=160).print(printed)


def report(name, tables, args):
    """Print tables by title, and write them together with settings and versions."""
    folder = record.folder(name)
    for title, table in tables.items():
        show(title, table)
        table.to_csv(folder / f"{title.replace(' ', '_')}.csv", index=False)
    record.finish(folder, vars(args))


def main():
    """Measure and report."""
    parser = terminal.parser(__doc__)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--engine", default="auto", help="of NUTS: auto, cmdstan or stanli")
    parser.add_argument("--quick", action="store_true", help="once each, shorter chains")
    args = parser.parse_args()
    repeats, large = 1 if args.quick else args.repeats, terminal.large_data(args.quick)
    tables = {
        "microseconds per iteration": costs(repeats, args.quick, large),
        "tempering microseconds per gradient": tempering(repeats, args.quick),
        "default microseconds per gradient": default(repeats, args.quick),
        "adaptation microseconds per iteration": adaptation(repeats, args.quick),
        "two chains on two cores": sharing(repeats, args.quick, large),
        "two threads of one chain": threading(repeats, args.quick),
        "smallest ESS per second": efficiencies(args.engine, args.quick),
    }
    report("benchmarks/samplers", tables, args)


if __name__ == "__main__":
    main()
