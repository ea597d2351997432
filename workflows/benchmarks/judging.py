"""The cost of judging a fit, compared with that of sampling, and its memory.

    python -m workflows.benchmarks.judging
    python -m workflows.benchmarks.judging --quick    # once each, a tenth of the draws

First, runs of `gad_mala` on a hundred standard normal parameters: microseconds of the processor per
iteration after warm-up, of the verdict, and of everything else that a run does.
Then the verdict on autocorrelated draws of up to ten thousand parameters that are all fine, or of
which one mixes slowly: microseconds per iteration and hundred parameters, and the peak of memory
while judging, relative to the draws. Medians over `--repeats`; processor time of all threads, which
depends less on other processes than time by the clock.
"""

import time
import tracemalloc

import numpy as np
import pandas as pd
from scipy.signal import lfilter

import stanadapt as sa
from stanadapt import results
from stanadapt.diagnostics import mixing
from stanadapt.diagnostics.verdict import verdict
from workflows import terminal
from workflows.benchmarks.samplers import NORMALS, report

RUNS = [(1, 51_000), (4, 12_750)]
SHAPES = [(1, 51_000, 100), (4, 12_750, 100), (4, 1_000, 1_000), (4, 1_000, 10_000)]
MEMORY = 0.5  # lag-one autocorrelation of good draws; of those that are too few, SLOW
SLOW = 0.998


def judging(fit):
    """Return the processor seconds of a verdict, none of it from the cache, and the verdict."""
    mixing.mixing.known.clear()
    began = time.process_time()
    judgment = verdict(fit)
    return time.process_time() - began, judgment.verdict


def of_runs(repeats, share):
    """One row per run: sampling, the verdict, and the rest of the call."""
    target, rows = sa.Target(NORMALS, show_progress=False), []
    for chains, draws in RUNS:
        plan = {"chains": chains, "iter_warmup": 500, "seed": 1, "show_progress": False}
        sa.sample(target, "gad_mala", iter_sampling=100, **plan)  # compiles
        times = []
        for _ in range(repeats):
            mixing.mixing.known.clear()
            began = time.process_time()
            fit = sa.sample(target, "gad_mala", iter_sampling=draws // share, **plan)
            total = time.process_time() - began
            phases = ("warmup_processor_seconds", "sampling_processor_seconds")
            warmup, sampling = (float(np.sum(results.attribute(fit, name))) for name in phases)
            judged, _ = judging(fit)
            times.append([sampling, judged, total - warmup - sampling - judged])
        cost = np.median(times, axis=0) * 1e6 * share / (chains * draws)
        rows.append({
            "chains": chains, "draws": draws // share, "sampling us": cost[0],
            "verdict us": cost[1], "rest us": cost[2],
        })  # fmt: skip
    return pd.DataFrame(rows)


def autocorrelated(shape, memory, rng):
    """Skewed chains, shape (chain, draw, column)."""
    noise = rng.standard_normal((shape[0], shape[1] + 500, shape[2]))
    return np.exp(0.3 * lfilter([1.0], [1.0, -memory], noise, axis=1)[:, 500:])


def of_draws(repeats, share):
    """One row per shape, without and with a column that mixes slowly."""
    rows, rng = [], np.random.default_rng(1)
    for chains, draws, columns in SHAPES:
        draws, columns = (draws // share, columns) if draws > 1_000 else (draws, columns // share)
        x = autocorrelated((chains, draws, columns), MEMORY, rng)
        for kind in ("fine", "one slow"):
            if kind == "one slow":
                x[..., 70] = autocorrelated((chains, draws, 1), SLOW, rng)[..., 0]
            fit = results.build({"posterior": {"x": x}}, {})
            taken = [judging(fit) for _ in range(repeats)]
            mixing.mixing.known.clear()
            tracemalloc.start()
            verdict(fit)
            peak = tracemalloc.get_traced_memory()[1]
            tracemalloc.stop()
            seconds = np.median([each for each, _ in taken])
            rows.append({
                "chains": chains, "draws": draws, "parameters": columns, "columns": kind,
                "verdict": taken[0][1], "us per 100 parameters": seconds * 1e8 / x.size,
                "memory / draws": peak / x.nbytes,
            })  # fmt: skip
    return pd.DataFrame(rows)


def main():
    """Measure and report."""
    parser = terminal.parser(__doc__)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--quick", action="store_true", help="once each, a tenth of the draws")
    args = parser.parse_args()
    repeats, share = (1, 10) if args.quick else (args.repeats, 1)
    tables = {"runs": of_runs(repeats, share), "verdicts": of_draws(repeats, share)}
    report("benchmarks/judging", tables, args)


if __name__ == "__main__":
    main()
