"""The figures of Titsias and Dellaportas (2019) from the CSV files that the workflows write.

Each function reads the files in one folder, writes its figures to another, and returns their paths,
so that a workflow and the page of reproductions draw alike.
"""

from pathlib import Path

import numpy as np
import pandas as pd

from workflows.gad.published import ENTROPY_WEIGHTS
from workflows.pictures import plt, saved

TARGET, LEARNED = "tab:green", "tab:blue"
# columns of a grid of traces; side of a digit
COLUMNS, SIDE = 3, 28
NARROWEST, WIDEST = 0.01, 1.0  # standard deviations of Neal's Gaussian
# the shape of L before anything is learned, and when all is
COLORS = {
    "gadRWM": "tab:orange", "gadMALAf": "tab:blue", "AM, fixed scale": "0.3",
    "AM, tuned scale": "0.6",
}  # fmt: skip


def _factor(table: pd.DataFrame, run: str) -> np.ndarray:
    lines = table[table["run"] == run]
    size = int(lines["row"].max()) + 1
    factor = np.zeros((size, size))
    factor[lines["row"], lines["column"]] = lines["L"]
    return factor


def draw_figure_1(source: Path, folder: Path) -> list[Path]:
    """Draw contours of L L^T in 2 dimensions, covariances in 51, and the entropy weights."""
    from workflows.data.make_data import fifty_one_dim, two_dim

    factors = pd.read_csv(source / "gaussians_factors.csv")
    weights = pd.read_csv(source / "gaussians_weights.csv")
    small = [run for run in factors["run"].unique() if run.startswith("2-D")]
    (large,) = [run for run in factors["run"].unique() if run.startswith("51-D")]
    figure, axes = plt.subplots(1, 4, figsize=(15, 3.9), layout="constrained")
    for axis, run in zip(axes, small, strict=False):
        for covariance, color, label in (
            (np.array(two_dim()["Sigma"]), TARGET, "target"),
            (_factor(factors, run) @ _factor(factors, run).T, LEARNED, "L L$^T$"),
        ):
            for level in (1, 2):
                points = level * np.linalg.cholesky(covariance) @ _circle()
                axis.plot(*points, color=color, label=label if level == 1 else None)
        axis.set(title=run, xlabel="$x_1$", ylabel="$x_2$", aspect="equal")
        axis.legend(fontsize=8, frameon=False)
    factor = _factor(factors, large)
    covariance = np.array(fifty_one_dim()["Sigma"])
    for axis, matrix, title in (
        (axes[2], covariance, "51-D: covariance of the target"),
        (axes[3], factor @ factor.T, "51-D gadMALAf: L L$^T$"),
    ):
        figure.colorbar(axis.imshow(matrix, cmap="viridis"), ax=axis, shrink=0.8)
        axis.set(title=title)
    path = saved(figure, folder / "figure_1.png")
    figure, axis = plt.subplots(figsize=(7.5, 3.6), layout="constrained")
    for target, published in ENTROPY_WEIGHTS.items():
        lines = weights[weights["run"] == f"2-D gadRWM at {target}"]
        (drawn,) = axis.plot(lines["iteration"], lines["beta"], lw=0.8, label=f"target {target}")
        axis.axhline(published, color=drawn.get_color(), ls="--", label=f"paper: {published}")
    axis.set(xlabel="iteration of warm-up", ylabel="entropy weight $\\beta$", yscale="log")
    axis.legend(fontsize=8, frameon=False, ncols=2)
    return [path, saved(figure, folder / "figure_1_weights.png")]


def _circle() -> np.ndarray:
    angle = np.linspace(0, 2 * np.pi, 300)
    return np.array([np.cos(angle), np.sin(angle)])


def draw_figure_2(traces: pd.DataFrame, factors: pd.DataFrame, folder: Path) -> list[Path]:
    """Draw Neal's Gaussian: traces of the last coordinate, and the diagonal of L next to the truth.

    Each L is scaled to the mean of the truth: schemes differ in the size of their steps.
    """
    methods = list(factors["method"].unique())
    figure, axes = plt.subplots(
        2, len(methods), figsize=(2.9 * len(methods), 5), layout="constrained", sharey="row",
        squeeze=False,
    )  # fmt: skip
    for (upper, lower), method in zip(axes.T, methods, strict=True):
        lines = traces[traces["method"] == method]
        upper.plot(lines["iteration"], lines["last"], "k.", ms=1.5)
        upper.set(title=method, xlabel="iteration")
        entries = factors[factors["method"] == method].sort_values("coordinate")
        truth = np.linspace(NARROWEST, WIDEST, len(entries))
        scaled = entries["L"].abs() * truth.mean() / entries["L"].abs().mean()
        lower.plot(entries["coordinate"], scaled, "k", lw=1.5, label="diagonal of L, scaled")
        lower.plot(entries["coordinate"], truth, color="tab:red", lw=1, label="truth")
        lower.set(xlabel="coordinate", ylim=(0, 1.6 * WIDEST))
    axes[0, 0].set_ylabel("$x_{100}$")
    axes[1, 0].legend(fontsize=7, frameon=False)
    return [saved(figure, folder / "figure_2.png")]


def draw_log_densities(traces: pd.DataFrame, title: str, path: Path, tail: float = 0.9) -> Path:
    """Draw the log density along all iterations, a panel per method, on one scale.

    The scale is that of the last iterations of all methods, and holds a share `tail` of them.
    """
    methods = list(traces["method"].unique())
    rows = -(-len(methods) // COLUMNS)
    figure, axes = plt.subplots(
        rows, COLUMNS, figsize=(11, 2.1 * rows), layout="constrained", sharey=True, squeeze=False
    )
    settled = traces[traces["iteration"] > traces["iteration"].max() / 2]
    settled = settled if len(settled) else traces
    low, high = settled["lp"].quantile([(1 - tail) / 2, 1.0])
    margin = 0.4 * (high - low) or 1.0
    for axis, method in zip(axes.ravel(), methods, strict=False):
        lines = traces[traces["method"] == method]
        axis.plot(lines["iteration"], lines["lp"], "k.", ms=1.5)
        axis.set_title(method, fontsize=9)
        axis.set_ylim(low - 2 * margin, high + 0.3 * margin)
    for axis in axes.ravel()[len(methods) :]:
        axis.set_axis_off()
    for axis in axes[:, 0]:
        axis.set_ylabel("log density", fontsize=8)
    figure.suptitle(title)
    return saved(figure, path)


def draw_figure_7(factors: pd.DataFrame, path: Path) -> Path:
    """Draw the diagonal of L as an image of the pixels; the last coordinate is the intercept."""
    methods = list(factors["method"].unique())
    figure, axes = plt.subplots(
        1, len(methods), figsize=(3.6 * len(methods), 3.2), layout="constrained", squeeze=False
    )
    for axis, method in zip(axes[0], methods, strict=True):
        lines = factors[factors["method"] == method].sort_values("coordinate")
        pixels = lines["L"].to_numpy()[: SIDE * SIDE].reshape(SIDE, SIDE)
        figure.colorbar(axis.imshow(pixels, cmap="gray"), ax=axis, shrink=0.85)
        axis.set_title(method, fontsize=9)
        axis.set_axis_off()
    return saved(figure, path)


def draw_rejections(source: Path, folder: Path) -> list[Path]:
    """Draw the shape of L, and the proposals accepted so far, against the iteration."""
    table = pd.read_csv(source / "rejections.csv")
    figure, (left, right) = plt.subplots(1, 2, figsize=(10.5, 3.8), layout="constrained")
    for method, lines in table.groupby("method", sort=False):
        style = {"color": COLORS.get(method), "label": method, "marker": ".", "ms": 4, "lw": 1}
        left.plot(lines["iterations"], lines["shape"], **style)
        right.plot(lines["iterations"], lines["accepted"], **style)
    left.axhline(NARROWEST / WIDEST, color="tab:red", ls="--", lw=1, label="learned")
    left.set(xlabel="iteration of warm-up", ylabel="L[1,1] / L[100,100]", yscale="log")
    right.set(xlabel="iteration of warm-up", ylabel="proposals accepted so far")
    right.set_yscale("symlog", linthresh=1)
    left.legend(fontsize=8, frameon=False)
    return [saved(figure, folder / "rejections.png")]
