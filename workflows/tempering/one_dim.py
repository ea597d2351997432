"""Two Gaussians on a line: figures 1 and 2 of Nemeth et al. (2019), and why weights are needed.

    python -m workflows.tempering.one_dim --quick    # does it run?
    python -m workflows.tempering.one_dim            # a minute

Figure 1: the density of two pseudo-samples with a Gaussian of variance 2 as the instrumental
distribution. It joins the modes, but its marginal is not the target: weights correct for that.
Integrals over it are computed by quadrature. Figure 2: the same with sampled inverse temperatures,
uniform on (0, 1), by NUTS; in one dimension this is proper without a reference distribution.
"""

import argparse
import time
import warnings
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from scipy import stats

import stanadapt as sa
from stanadapt.samplers.tempering import Extended, ReferenceDistribution, weighted_summary
from stanadapt.targets.stan import bundled
from workflows import record
from workflows.conclude import Results, conclude, text_table
from workflows.tempering import one_dim_figures, study
from workflows.tempering.published import ONE_DIM, ONE_DIM_POOLED
from workflows.tempering.runs import STAN, Chain, Method, collected_warnings, pseudo, recipe

NAME = "tempering/one_dim"
VARIANCE = 2.0  # of the instrumental distribution of figure 1
HALF_WIDTH = 8.0  # of the grid
POINTS, QUICK_POINTS = 320, 80  # along each axis
FUNCTIONS = {
    "E x": lambda x: x,
    "E x^2": lambda x: x**2,
    "P(x > 0)": lambda x: np.asarray(x > 0, dtype=float),
}
METHODS = {
    "Stan's NUTS": Method(STAN),
    "our NUTS": Method("nuts"),
    "paper's recipe, N = 2": recipe(2, between=(0.0, 1.0)),
    "parallel_tempering": Method("parallel_tempering"),
    **{f"pseudo_extended, N = {count}": pseudo(count) for count in (2, 5)},
}
QUICK_METHODS = ("our NUTS", "pseudo_extended, N = 2")
CAPTION = (
    "'weighted': the mean over iterations of each iteration's weighted mean, which is unbiased. "
    "'unweighted': all pseudo-samples have equal weight. 'pooled': one ratio of sums over all "
    "iterations, which is biased. In brackets: the Monte Carlo standard error, or, in the last "
    "table, the standard deviation over repeats. 'notes': the pooled ratio by an independent "
    "quadrature. " + study.EQUAL.strip()
)


class WeightedSamples(NamedTuple):
    """Pseudo-samples with everything that the three kinds of means need.

    x, weight
        Shape (row, pseudo); weights sum to one over the last axis.
    log_ratio
        log W, of the same shape: the log of the weights before normalization.
    mass
        Mass of each row, shape (row,).
    """

    x: np.ndarray
    weight: np.ndarray
    log_ratio: np.ndarray
    mass: np.ndarray

    def means(self) -> dict[str, dict[str, float]]:
        """Means by their kind, then by function."""
        mass = (self.mass / self.mass.sum())[:, np.newaxis]
        pooled = mass * np.exp(self.log_ratio - self.log_ratio.max())
        shares = {
            "weighted": mass * self.weight,
            "unweighted": mass / self.x.shape[1] * np.ones_like(self.x),
            "pooled": pooled / pooled.sum(),
        }
        return {
            kind: {name: float(np.sum(share * f(self.x))) for name, f in FUNCTIONS.items()}
            for kind, share in shares.items()
        }


def values(target: sa.Target, x: np.ndarray) -> np.ndarray:
    """Log density of the target at each number."""
    return np.array([target.value(np.array([number])) for number in x.flat]).reshape(x.shape)


def on_grid(target: sa.Target, points: int) -> tuple[np.ndarray, np.ndarray, WeightedSamples]:
    """The extended density of figure 1 on a grid; returns the axis, the density and the samples."""
    sd = float(np.sqrt(VARIANCE))
    reference = ReferenceDistribution(np.zeros(1), sd)
    extended = Extended(
        target, 2, temperature="fixed", fixed_at=0.0, reference_distribution=reference
    )
    step = 2.0 * HALF_WIDTH / points
    axis = -HALF_WIDTH + step * (np.arange(points) + 0.5)
    positions = np.stack(np.meshgrid(axis, axis, indexing="ij"), axis=-1).reshape(-1, 2)
    density = np.exp([extended.value(position) for position in positions])
    _, _, weight = extended.split_positions(positions[np.newaxis])
    ratio = dict(zip(axis, values(target, axis) - stats.norm.logpdf(axis, 0.0, sd), strict=True))
    log_ratio = np.array([[ratio[x] for x in row] for row in positions])
    samples = WeightedSamples(positions, weight[0], log_ratio, density * step**2)
    return axis, density.reshape(points, points), samples


def sampled(target: sa.Target, args: argparse.Namespace) -> tuple[Any, WeightedSamples, list[str]]:
    """The run of figure 2: the fit, its pseudo-samples, and its warnings."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # it is proper: one parameter, Gaussian tails
        extended = Extended(target, 2, temperature="free", between=(0.0, 1.0))
    with collected_warnings() as messages:
        fit = sa.sample(
            extended, "nuts", chains=args.repeats, seed=args.seed, save="pseudo",
            iter_sampling=500 if args.quick else 10_000, show_progress=False,
        )  # fmt: skip
    group = fit["pseudo"]
    x = group["x"].values.reshape(-1, 2)
    temperature, weight = (group[name].values.reshape(-1, 2) for name in ("temperature", "weight"))
    log_ratio = (1.0 - temperature) * values(target, x)
    return fit, WeightedSamples(x, weight, log_ratio, np.ones(len(x))), messages


def means_table(samples: WeightedSamples, pooled: dict[str, float] | None) -> pd.DataFrame:
    """The truth, the three kinds of means, and the known pooled mean."""
    known = {"truth": ("exact", ONE_DIM)}
    known |= {kind: ("here", means) for kind, means in samples.means().items()}
    if pooled is not None:
        known["pooled ratio"] = ("notes", pooled)
    return pd.DataFrame(
        [
            {"method": kind, "from": source} | {k: f"{v:.4f}" for k, v in means.items()}
            for kind, (source, means) in known.items()
        ]
    )


def with_errors(text: pd.DataFrame, fit: Any) -> pd.DataFrame:
    """Add the Monte Carlo errors from `weighted_summary`, and the means of the draws."""
    functions = {name: lambda draws, f=f: f(draws["x"][..., 0]) for name, f in FUNCTIONS.items()}
    summary = weighted_summary(fit, functions).loc[list(FUNCTIONS)]
    text = text.copy()
    for name, line in summary.iterrows():
        text.loc[text["method"] == "weighted", name] = f"{line['mean']:.4f} ({line['mcse']:.4f})"
    draws = [f"{a:.4f} ({b:.4f})" for a, b in summary[["draws_mean", "draws_mcse"]].to_numpy()]
    text.loc[len(text)] = ["one per iteration, drawn by weight", "here", *draws]
    return text


def measured(chain: Chain) -> dict[str, float]:
    """The means of one repeat."""
    x = chain.vector()[:, 0]
    return {name: float(f(x).mean()) for name, f in FUNCTIONS.items()}


def methods_table(rows: pd.DataFrame) -> pd.DataFrame:
    """The truth, then all methods."""
    lines = [study.truth(ONE_DIM, 4)]
    for name, group in rows.groupby("method", sort=False):
        lines.append(
            {
                "method": name, "from": "here", "repeats": str(len(group)),
                **{key: study.spread(group[key], 4) for key in ONE_DIM},
                **study.shown_costs(group),
            }
        )  # fmt: skip
    return text_table(lines)


def figures(
    folder: Path, target: sa.Target, axis: np.ndarray, density: np.ndarray, free: WeightedSamples
) -> list[Path]:
    """Write what figures 1 and 2 show, and draw them."""

    def known(x: np.ndarray) -> np.ndarray:
        return np.exp(values(target, x))

    tables = {
        "joint": one_dim_figures.joint(axis, density),
        "marginals": one_dim_figures.marginals(axis, density, known),
        "histograms": one_dim_figures.histograms(free.x, free.weight, known),
    }
    paths = [folder / f"one_dim_{name}.csv" for name in tables]
    for path, table in zip(paths, tables.values(), strict=True):
        table.to_csv(path, index=False)
    return [
        *paths,
        one_dim_figures.draw_figure_1(
            folder / "figure_1.png", tables["joint"], tables["marginals"]
        ),
        one_dim_figures.draw_figure_2(folder / "figure_2.png", tables["histograms"]),
    ]


def main() -> None:
    """Compute both figures, run all methods, print, write."""
    began = time.perf_counter()
    args = study.options(__doc__, 200_000, 10, (1_000, 2))
    folder = record.folder(NAME, args.out)
    target = sa.Target(*bundled.find("mixture", "one_dim"))
    axis, density, grid = on_grid(target, QUICK_POINTS if args.quick else POINTS)
    fit, free, messages = sampled(target, args)
    every = study.chosen(args, METHODS, QUICK_METHODS)
    budget = study.budget_of(args, quick_warmup=400)
    chains, notes = study.run_all(target, every, budget, args.seed)
    rows = study.rows(chains, measured)
    sections = {
        "figure 1, by quadrature": means_table(grid, ONE_DIM_POOLED),
        "figure 2, temperatures sampled": with_errors(means_table(free, None), fit),
    }
    if chains:
        sections["all methods, equal numbers of gradients"] = methods_table(rows)
    drawn = figures(folder, target, axis, density, free)
    results = Results(sections, [rows], [*messages, *notes], drawn)
    conclude(NAME, args, results, CAPTION, began)


if __name__ == "__main__":
    main()
