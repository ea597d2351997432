"""Gaussian targets: figure 1 of Titsias and Dellaportas (2019), the factor L that is learned.

    python -m workflows.gad.gaussians            # half a minute
    python -m workflows.gad.gaussians --quick

Panels 1 and 2: 2 dimensions, correlation 0.99, gadRWM at target acceptance rates 0.25 and 0.4; the
entropy weight beta over 20,000 iterations of warm-up, and contours of L L^T. Panels 3 and 4: 51
dimensions, gadMALAf, 200,000 iterations of warm-up, the target's covariance and L L^T as images.
Learning rates are those of the authors' programs, 5e-4 and 1e-3.
"""

import json
import time
import warnings
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

import stanadapt as sa
from stanadapt import results
from stanadapt.targets.stan import bundled
from workflows import conclude, record, terminal
from workflows.gad import figures
from workflows.gad.published import ENTROPY_WEIGHTS

NAME = "gad/gaussians"
DRAWS, SMALL_WARMUP, LARGE_WARMUP, QUICK_WARMUP = 1_000, 20_000, 200_000, 20_000
SMALL_RATE, LARGE_RATE = 5e-4, 1e-3
REPEATS, QUICK_REPEATS = 10, 2
CAPTION = (
    "Learning rates are those of the authors' programs: 5e-4 in 2 dimensions, 1e-3 in 51. The "
    "tables' 5e-5 moves an entry of L by about 1 in 20,000 iterations when 2 is needed. At an "
    "acceptance rate, L L^T is a multiple of the target's covariance; eigenvalues are compared "
    "after scaling to its trace."
)
LATE = 5_000  # last iterations of warm-up, over which the settled entropy weight is read
POINTS = 400  # of a trace that are kept
LARGE = "51-D gadMALAf"


class Learned(NamedTuple):
    """One run: L, shape (dim, dim), the covariance of the target, and the entropy weights."""

    truth: np.ndarray
    factor: np.ndarray
    entropy_weight: np.ndarray
    acceptance: float
    seconds: float

    @property
    def steps(self) -> np.ndarray:
        """L L^T, scaled to the trace of the target's covariance."""
        product = self.factor @ self.factor.T
        return product * np.trace(self.truth) / np.trace(product)


def learn(data: str, sampler: str, warmup: int, seed: int, **settings: Any) -> Learned:
    """Run one chain from x0 ~ N(0, I) on a Gaussian."""
    program, path = bundled.find("gaussian", data)
    truth = np.array(json.loads(Path(path).read_text(encoding="utf-8"))["Sigma"])
    start = np.random.default_rng(seed).standard_normal((1, len(truth)))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # L is wanted, not the few draws
        fit = sa.sample(
            sa.Target(program, path), sampler, chains=1, iter_warmup=warmup, iter_sampling=DRAWS,
            seed=seed, inits=start, save_warmup=True, show_progress=False, standardize=False,
            save_factor=True, **settings,
        )  # fmt: skip
    return Learned(
        truth,
        results.dataset(fit, "proposal_factor")["factor"].values[0],
        results.dataset(fit, "warmup_sample_stats")["entropy_weight"].values[0],
        float(results.dataset(fit, "sample_stats")["accepted"].mean()),
        record.seconds_of(fit),
    )


def similarity(one: np.ndarray, other: np.ndarray) -> float:
    """Correlation of the entries of two matrices."""
    return float(np.corrcoef(one.ravel(), other.ravel())[0, 1])


def small_name(target: float) -> str:
    """Return the name of a run in 2 dimensions."""
    return f"2-D gadRWM at {target}"


def numbers(small: dict[float, list[Learned]], large: list[Learned]) -> pd.DataFrame:
    """Return all measured numbers, one per row, with the published or exact number."""
    rows = []
    for target, runs in small.items():
        name = small_name(target)
        for repeat, run in enumerate(runs):
            late, correlation = run.entropy_weight[-LATE:], run.steps[0, 1]
            correlation /= np.sqrt(run.steps[0, 0] * run.steps[1, 1])
            rows += [
                (name, repeat, "acceptance rate", run.acceptance, target, "target"),
                (name, repeat, "entropy weight, last", late[-1], ENTROPY_WEIGHTS[target], "paper"),
                (name, repeat, f"entropy weight, median of last {LATE:,}", np.median(late),
                 ENTROPY_WEIGHTS[target], "the paper's last"),
                (name, repeat, "correlation in L L^T", correlation, 0.99, "if L is learned"),
            ]  # fmt: skip
    for repeat, run in enumerate(large):
        exact, ours = np.linalg.eigvalsh(run.truth), np.linalg.eigvalsh(run.steps)
        rows += [
            (LARGE, repeat, "acceptance rate", run.acceptance, 0.55, "target"),
            (LARGE, repeat, "similarity of L L^T to the target",
             similarity(run.steps, run.truth), 1.0, "if L is learned"),
            (LARGE, repeat, "smallest eigenvalue of L L^T, scaled", ours[0], exact[0], "exact"),
            (LARGE, repeat, "largest eigenvalue of L L^T, scaled", ours[-1], exact[-1], "exact"),
        ]  # fmt: skip
    columns = ["run", "repeat", "quantity", "ours", "expected", "expected_is"]
    return pd.DataFrame(rows, columns=columns)


def show(table: pd.DataFrame) -> None:
    """Print the means over repeats."""
    rows = []
    for (run, quantity), lines in table.groupby(["run", "quantity"], sort=False):
        ours, first = lines["ours"], lines.iloc[0]
        spread = f"{ours.std():.2g}" if len(ours) > 1 else ""
        expected, kind = f"{first['expected']:.4g}", first["expected_is"]
        rows.append((run, quantity, f"{ours.mean():.4g}", spread, expected, kind))
    columns = ["run", "quantity", "ours", "sd", "expected", "which is"]
    conclude.show(None, pd.DataFrame(rows, columns=columns), ("run", "quantity"), 120)


def write(
    folder: Path, table: pd.DataFrame, small: dict[float, list[Learned]], large: list[Learned]
) -> list[Path]:
    """Write the numbers, and L and thinned entropy weights of the first repeat, as CSV."""
    first = {small_name(target): runs[0] for target, runs in small.items()} | {LARGE: large[0]}
    entries, weights = [], []
    for name, run in first.items():
        i, j = np.tril_indices(len(run.factor))
        named = {"run": name}
        entries.append(pd.DataFrame({**named, "row": i, "column": j, "L": run.factor[i, j]}))
        each = np.unique(np.linspace(0, len(run.entropy_weight) - 1, POINTS).astype(int))
        weights.append(
            pd.DataFrame({**named, "iteration": each + 1, "beta": run.entropy_weight[each]})
        )
    tables = {
        "gaussians_numbers": table,
        "gaussians_factors": pd.concat(entries),
        "gaussians_weights": pd.concat(weights),
    }
    paths = []
    for name, content in tables.items():
        paths.append(folder / f"{name}.csv")
        content.to_csv(paths[-1], index=False, float_format="%.5g")
    return paths


def main() -> None:
    """Run both experiments, draw, print, write."""
    quick = f"51 dimensions after {QUICK_WARMUP:,} iterations"
    parser = terminal.usual_parser(__doc__, NAME, quick)
    parser.add_argument("--repeats", type=terminal.positive, help=f"default: {REPEATS}")
    options = parser.parse_args()
    began, folder = time.perf_counter(), record.folder(NAME, options.out)
    repeats = options.repeats or (QUICK_REPEATS if options.quick else REPEATS)
    warmup = QUICK_WARMUP if options.quick else LARGE_WARMUP
    seeds = [options.seed + 1000 * repeat for repeat in range(repeats)]
    small = {
        target: [
            learn("two_dim", "gad_rwm", SMALL_WARMUP, seed,
                  target_accept=target, learning_rate=SMALL_RATE)
            for seed in seeds
        ]
        for target in ENTROPY_WEIGHTS
    }  # fmt: skip
    large = [
        learn("fifty_one_dim", "gad_mala", warmup, seed, learning_rate=LARGE_RATE) for seed in seeds
    ]
    table = numbers(small, large)
    show(table)
    settings = {
        **vars(options), "repeats": repeats, "caption": CAPTION, "draws": DRAWS,
        "small": {"iter_warmup": SMALL_WARMUP, "learning_rate": SMALL_RATE},
        "large": {"iter_warmup": warmup, "learning_rate": LARGE_RATE},
    }  # fmt: skip
    paths = [*write(folder, table, small, large), *figures.draw_figure_1(folder, folder)]
    conclude.finish(folder / "gaussians.json", settings, paths, began)


if __name__ == "__main__":
    main()
