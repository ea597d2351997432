"""The cost of storing a run on disk: `sample` with and without `run=`, in turn.

    python -m workflows.benchmarks.checkpoints
    python -m workflows.benchmarks.checkpoints --quick    # once each, short runs

For the logistic regression on Caravan and for Neal's Gaussian: seconds by the clock and of the
processor (all threads), medians over the alternations, and the median of their ratios, in per cent
more. Seconds by the clock need an idle machine; processor time depends less on other processes.
The folder is on the disk of `--folder`, the system's temporary one by default.
"""

import tempfile
import time
from pathlib import Path
from statistics import median

import pandas as pd

import stanadapt as sa
from stanadapt.targets.stan.bundled import find
from workflows import terminal
from workflows.benchmarks.samplers import report

# iterations after warm-up that take some ten seconds
CASES = [("neal", "neal", "mala", 100_000), ("neal", "neal", "whitened_hmc", 40_000)]
LOGISTIC = [("mala", 500), ("whitened_hmc", 200)]


def seconds(target, sampler, draws, folder):
    """Return the seconds of a run by the clock and of the processor; kept, if a folder is given."""
    clock, processor = time.perf_counter(), time.process_time()
    sa.sample(
        target, sampler, chains=2, iter_warmup=1_000, iter_sampling=draws, seed=1, run=folder,
        show_progress=False,
    )  # fmt: skip
    return time.perf_counter() - clock, time.process_time() - processor


def cost(program, data, sampler, draws, alternations, parent):
    """One row: medians without and with a folder, and the median cost in per cent."""
    target = sa.Target(*find(program, data), show_progress=False)
    seconds(target, sampler, 10, None)  # compiles
    pairs = []
    for turn in range(alternations):
        with tempfile.TemporaryDirectory(dir=parent) as name:
            folders = [None, Path(name) / "run"]
            # neither is always the first
            order = folders if turn % 2 else folders[::-1]
            taken = {folder: seconds(target, sampler, draws, folder) for folder in order}
        pairs.append([taken[folder] for folder in folders])
    row = {"program": data, "sampler": sampler, "backend": target.backend, "draws": draws}
    for kind, unit in enumerate(("clock s", "processor s")):
        without, kept = ([pair[i][kind] for pair in pairs] for i in range(2))
        row |= {unit: median(without), f"{unit}, kept": median(kept)}
        ratios = [b / a for a, b in zip(without, kept, strict=True)]
        row[f"{unit}, cost %"] = 100 * (median(ratios) - 1)
    return row


def main():
    """Measure and report."""
    parser = terminal.parser(__doc__)
    parser.add_argument("--alternations", type=int, default=7)
    parser.add_argument("--folder", type=Path, help="parent of the run folders")
    parser.add_argument("--quick", action="store_true", help="once each, short runs")
    args = parser.parse_args()
    turns, share = (1, 50) if args.quick else (args.alternations, 1)
    large = terminal.large_data(args.quick)
    cases = [*CASES, *(("logistic", large, *case) for case in LOGISTIC)]
    rows = [cost(*case[:3], case[3] // share, turns, args.folder) for case in cases]
    report("benchmarks/checkpoints", {"cost of run=": pd.DataFrame(rows)}, args)


if __name__ == "__main__":
    main()
