"""Posterior of Glass: a slice through it, and how sharp it is once latent values are given.

    python -m workflows.kameleon.glass_slice --quick    # does it run?
    python -m workflows.kameleon.glass_slice            # one to three minutes

A figure of Sejdinovic et al. (2014) shows a slice of the posterior of theta, two coordinates of
which are varied here while the others are at their posterior means; the likelihood is Laplace's
approximation (the estimate with noise 0). Their claim: Gibbs steps, which alternate between theta
and the latent values f, are slow, since theta given f is much narrower than theta. Measured is the
standard deviation of each theta given f and the other coordinates, f drawn by Laplace's
approximation, over the standard deviation of theta in the posterior.
"""

import json
import time
from pathlib import Path

import numpy as np
import pandas as pd
from scipy import linalg, special

from stanadapt.targets.stan import bundled
from workflows import record, terminal
from workflows.conclude import Results, conclude, text_table
from workflows.kameleon.glass import EARLIER, FEATURES
from workflows.kameleon.glass_noise import bound
from workflows.pictures import plt, saved

NAME = "kameleon/glass_slice"
SHOWN = (1, 6)  # coordinates 2 and 7, as in the paper's figure
GRID, QUICK_GRID = 25, 4
WIDTH = 3.0  # of the slice on each side of the mean, in posterior standard deviations
PAIRS, QUICK_PAIRS = 12, 1  # of theta and f
# points across a conditional density, of the whole range of theta and then of its narrow peak
POINTS, RANGE = 41, 4.0
RIDGE, PRIOR_VARIANCE, NEWTON = 1e-3, 5.0, 10
CAPTION = (
    "Slice: log density, Laplace's approximation, relative to the largest on the grid. Width: "
    "standard deviation of a coordinate of theta given f and the other coordinates, over its "
    "posterior standard deviation by the earlier means and sds of workflows.kameleon.glass; the "
    "median over draws of theta (normal, with those means and sds) and of f given theta and y. "
    "Convention 2 of theta, that of the paper's text."
)


def slice_of(convention: int, points: int) -> pd.DataFrame:
    """Return the log density on a grid of two coordinates, relative to its maximum."""
    target = bound(convention, 1)
    mean, sd = EARLIER[convention]
    axes = [np.linspace(mean[d] - WIDTH * sd[d], mean[d] + WIDTH * sd[d], points) for d in SHOWN]
    position, rows = np.concatenate([mean, np.zeros(target.noise_size)]), []
    for first in axes[0]:
        for second in axes[1]:
            position[list(SHOWN)] = first, second
            rows.append((convention, first, second, target.value(position)))
    table = pd.DataFrame(rows, columns=["convention", "theta2", "theta7", "log_density"])
    table["log_density"] -= table["log_density"].max()
    return table.round(4)


class Classification:
    """Gaussian process classification in convention 2, by NumPy: K, f given theta, theta given f.

    inputs, labels
        Whitened features, shape (row, feature), and labels 0 or 1.
    """

    def __init__(self, inputs: np.ndarray, labels: np.ndarray) -> None:
        self.labels = labels
        # shape (feature, row x row)
        columns = inputs.T
        self.squares = ((columns[:, :, None] - columns[:, None]) ** 2).reshape(len(columns), -1)

    @classmethod
    def of_glass(cls) -> "Classification":
        """Read Glass; feature d becomes what features 1 to d - 1 leave of it."""
        content = json.loads(bundled.find("glass")[1].read_text(encoding="utf-8"))
        raw = np.array(content["X"], dtype=float)
        centered = raw - raw.mean(axis=0)
        lower = np.linalg.cholesky(centered.T @ centered / (len(raw) - 1))
        return cls(linalg.solve_triangular(lower, centered.T, lower=True).T, np.array(content["y"]))

    def covariance(self, theta: np.ndarray) -> np.ndarray:
        """Return K + ridge I."""
        rows = len(self.labels)
        kernel = np.exp(-0.5 * (np.exp(-theta) @ self.squares)).reshape(rows, rows)
        return kernel + RIDGE * np.eye(len(kernel))

    def latent(self, theta: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        """Draw f given theta and the labels, by Laplace's approximation."""
        return self.weighted_latent(theta, rng)[0]

    def weighted_latent(
        self, theta: np.ndarray, rng: np.random.Generator
    ) -> tuple[np.ndarray, float]:
        """Draw f by Laplace's approximation; f, and the log of its weight.

        The weight p(y, f | theta) / q(f) has the expectation p(y | theta): it is an unbiased
        estimate.
        """
        factor = np.linalg.cholesky(self.covariance(theta))
        v = np.zeros(len(factor))
        for _ in range(NEWTON):
            p = special.expit(factor @ v)
            precision = np.eye(len(v)) + factor.T @ ((p * (1 - p))[:, np.newaxis] * factor)
            v = v + np.linalg.solve(precision, factor.T @ (self.labels - p) - v)
        lower = np.linalg.cholesky(precision)
        z = rng.standard_normal(len(v))
        drawn = v + linalg.solve_triangular(lower, z, lower=True, trans="T")
        f = factor @ drawn
        log_ratio = 0.5 * (z @ z - drawn @ drawn) - np.log(np.diag(lower)).sum()
        return f, float(self.log_likelihood(f) + log_ratio)

    def log_likelihood(self, f: np.ndarray) -> float:
        """Return log p(y | f)."""
        return float(self.labels @ f - np.logaddexp(0.0, f).sum())

    def log_prior(self, theta: np.ndarray) -> float:
        """Return log p(theta) up to a constant."""
        return float(-0.5 * theta @ theta / PRIOR_VARIANCE)

    def log_conditional(self, theta: np.ndarray, f: np.ndarray) -> float:
        """Return log p(theta | f) up to a constant; the labels tell nothing more."""
        lower = np.linalg.cholesky(self.covariance(theta))
        scaled = linalg.solve_triangular(lower, f, lower=True)
        log_normal = -0.5 * scaled @ scaled - np.log(np.diag(lower)).sum()
        return float(log_normal) + self.log_prior(theta)

    def width(self, theta: np.ndarray, f: np.ndarray, d: int, sd: float) -> float:
        """Return the sd of coordinate d given f and the others, by sums over two grids."""
        center, spread = theta[d], RANGE * sd / 3
        for _ in range(2):
            values = center + 3 * spread * np.linspace(-1, 1, POINTS)
            logs = []
            for value in values:
                moved = theta.copy()
                moved[d] = value
                logs.append(self.log_conditional(moved, f))
            share = np.exp(np.array(logs) - max(logs))
            share /= share.sum()
            center = float(share @ values)
            # the first grid may be coarser than the peak
            step = values[1] - values[0]
            spread = max(float(np.sqrt(share @ (values - center) ** 2)), step)
        return float(np.sqrt(share @ (values - center) ** 2))


def widths(pairs: int, seed: int) -> pd.DataFrame:
    """Return the width of each coordinate given f over its posterior sd, one row per draw."""
    model, rng = Classification.of_glass(), np.random.default_rng(seed)
    (mean, sd), rows = EARLIER[2], []
    for draw in range(pairs):
        theta = mean + sd * rng.standard_normal(len(mean))
        f = model.latent(theta, rng)
        for d, name in enumerate(FEATURES):
            ratio = model.width(theta, f, d, sd[d]) / sd[d]
            rows.append({"draw": draw, "feature": name, "ratio": round(ratio, 4)})
    return pd.DataFrame(rows)


def draw(path: Path, table: pd.DataFrame) -> Path:
    """Draw the slice, a panel per convention."""
    conventions = table["convention"].unique()
    figure, axes = plt.subplots(
        1, len(conventions), figsize=(5 * len(conventions), 4), layout="constrained", squeeze=False
    )
    for panel, convention in zip(axes[0], conventions, strict=True):
        grid = table[table["convention"] == convention].pivot(
            index="theta7", columns="theta2", values="log_density"
        )
        filled = panel.contourf(grid.columns, grid.index, np.exp(grid), levels=12)
        figure.colorbar(filled, ax=panel, label="density / largest")
        panel.set(title=f"convention {convention}", xlabel="theta[2]", ylabel="theta[7]")
    return saved(figure, path)


def main() -> None:
    """Compute, print, write, draw."""
    began = time.perf_counter()
    args = terminal.usual_parser(__doc__, NAME, "tiny grid").parse_args()
    folder = record.folder(NAME, args.out)
    points, pairs = (QUICK_GRID, QUICK_PAIRS) if args.quick else (GRID, PAIRS)
    table = pd.concat([slice_of(convention, points) for convention in (1, 2)])
    file = folder / "glass_slice_grid.csv"
    table.to_csv(file, index=False)
    rows = widths(pairs, args.seed)
    lines = [
        {"feature": name, "width given f / sd": f"{part['ratio'].median():.2f}"}
        for name, part in rows.groupby("feature", sort=False)
    ]
    figure = draw(folder / "glass_slice.png", table)
    results = Results({"theta given f": text_table(lines)}, [rows], [], [file, figure])
    conclude(NAME, args, results, CAPTION, began)


if __name__ == "__main__":
    main()
