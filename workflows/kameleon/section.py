"""Sejdinovic et al. (2014), Kernel Adaptive Metropolis-Hastings, on the page of reproductions."""

import re
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pandas as pd

from workflows.kameleon import discrepancy, glass_curves, glass_slice
from workflows.kameleon.published import DRAFT
from workflows.kameleon.tables import summary, verdicts
from workflows.pictures import plt, saved
from workflows.reproduction import markdown
from workflows.reproduction.agreement import (
    DIFFERS,
    NOT_JUDGED,
    Comparison,
    Published,
    compare_with_spread,
)
from workflows.reproduction.recorded import Run, joined, runs
from workflows.reproduction.section import Drawing, Section, TableOfResults, items

TITLE = "Kernel Adaptive Metropolis-Hastings (Sejdinovic et al., 2014)"
INTRODUCTION = (
    "Five methods on curved targets in 8 dimensions, all from 0 with equal numbers of densities; a "
    "repeat is one chain. The paper shows bars; the numbers in italics are the table of its draft "
    "of 2013, means and, in brackets, standard deviations over 100 chains. The norm of the mean of "
    "the draws is 0 for the target, and the class of a row is that of the norm. "
    "'Inside' is the share of draws in the regions of probability 0.1, 0.5 and 0.9. KAMH-LS has "
    "the paper's settings of 2014, with a wider kernel and a larger gamma than the draft; 'ours' "
    "is `kameleon` with its defaults, not standardized. 'Allowed' is the distance from the draft's "
    "norm that agrees, as a share of it: with the ten chains on the flower it is wide."
)
TARGETS = {
    "moderate": "Banana B(0.03, 100), 40,000 iterations",
    "strong": "Banana B(0.1, 100), 80,000 iterations",
    "flower": "Flower F(10, 6, 6, 1), 120,000 iterations",
}
KERNEL = "KAMH-LS"
RIVALS = ("SM", "AM-FS", "AM-LS")
MEASURES = {"norm": "norm of the mean", "deviation": "deviation of the shares"}
LEVELS = (0.1, 0.5, 0.9)
# standard errors from which a difference counts
CLEAR = 2.0
# times the median norm, from which a chain went far off
FAR = 4.0
# half width of the bars' errors, as in the paper: 80 %
BAND = 1.28
# why a row differs; tests demand a sentence for each such row, and none for others
LEANS = (
    "the draft's AM keeps adapting, so that its draws lean toward the center, as its shares inside "
    "show; ours stops after warm-up."
)
REASONS: dict[tuple[str, str], str] = {("strong", method): LEANS for method in ("AM-FS", "AM-LS")}
NO_REASON = "no reason is known yet."


class Difference(NamedTuple):
    """KAMH-LS minus another method, and its standard error; NaN if not known."""

    value: float
    error: float

    @property
    def verdict(self) -> str:
        """Return "less", "more" or "no difference", beyond `CLEAR` errors."""
        if not np.isfinite(self.error):
            return "–"
        if abs(self.value) <= CLEAR * self.error:
            return "no difference"
        return "less" if self.value < 0 else "more"


def section() -> Section:
    """Return tables, figures and items."""
    found = runs("kameleon")
    rows = joined(found, "synthetic_chains")
    notes = [note for run in found for note in run.made["settings"].get("notes", ())]
    tables = [_table(rows, name, notes) for name in TARGETS] if len(rows) else []
    if len(rows):
        tables.append(_claims(rows))
    figures = _figures(rows)
    for run in found:
        if (run.folder / "glass_slice.csv").is_file():
            tables.append(_sharpness(run.table("glass_slice")))
            figures.append(_slice(run))
        if (run.folder / "glass_gibbs.csv").is_file():
            tables.append(_gibbs(run.table("glass_gibbs")))
        if (run.folder / "glass_curves.csv").is_file():
            tables.append(_approach(run))
            figures.append(_curves(run))
    counted = items(Path(__file__).with_name("items.csv"))
    return Section(TITLE, INTRODUCTION, tables, figures, counted, found)


def norm_of(rows: pd.DataFrame, target: str, method: str) -> Comparison:
    """Compare norms of means with the draft's."""
    lines = rows[(rows["target"] == target) & (rows["method"] == method)]
    known = DRAFT[target].get(method)
    published = (
        Published(known[0].norm, known[0].norm_sd, known[0].chains)
        if known
        else Published(np.nan, np.nan, 1)
    )
    return compare_with_spread(lines["norm"], published)


def _table(rows: pd.DataFrame, target: str, notes: list[str]) -> TableOfResults:
    cells, classes, sentences = [], [], []
    for method in rows["method"].unique():
        lines = rows[(rows["target"] == target) & (rows["method"] == method)]
        one, known = norm_of(rows, target, method), DRAFT[target].get(method)
        classes.append(one.verdict)
        inside = " ".join(f"{lines[f'inside_{level}'].mean():.3f}" for level in LEVELS)
        cells.append([
            method, str(len(lines)),
            _two(_spread(lines["acceptance"], 3), known and
                 f"{known[0].acceptance:.3f} ({known[0].acceptance_sd:.3f})"),
            _two(f"{one.mean:.2f} ({one.sd:.2f})", known and
                 f"{known[0].norm:.2f} ({known[0].norm_sd:.2f})",
                 one.verdict not in ("agrees", NOT_JUDGED)),
            _two(inside, known and " ".join(f"{value:.3f}" for value in known[0].inside)),
            _spread(lines["deviation"], 4), f"{lines['microseconds'].mean():.1f}",
            markdown.share(one.tolerance), one.verdict,
        ])  # fmt: skip
        if one.verdict == DIFFERS:
            sentences.append(f"- {method}: {REASONS.get((target, method), NO_REASON)}")
    header = (
        "method", "chains", "acceptance", "norm of the mean", "inside", "deviation",
        "µs / iteration", "allowed", "row",
    )  # fmt: skip
    sentences += [f"- {verdict}" for verdict in _own_limits(rows, target, notes)]
    below = ["\n".join(sentences)]
    return TableOfResults.of(TARGETS[target], header, cells, below=below, classes=classes)


def _own_limits(rows: pd.DataFrame, target: str, notes: list[str]) -> list[str]:
    """Say where our own limits of this study do not hold, and which chains went far off.

    The notes are those of the runs, with the reasons of verdicts.
    """
    found = [text for text in verdicts(summary(rows[rows["target"] == target])) if "NOT" in text]
    for method, lines in rows[rows["target"] == target].groupby("method", sort=False):
        far = lines[lines["norm"] > FAR * lines["norm"].median()]
        if method in (KERNEL, "ours") and len(far):
            found.append(
                f"{method}: {len(far)} of {len(lines)} chains went far off, with norms "
                f"{', '.join(f'{norm:.1f}' for norm in far['norm'])} where the median is "
                f"{lines['norm'].median():.2f}."
            )
            said = re.compile(rf"{target} {method}: (R-hat of .*?)(?: Lengthen| Run longer|$)")
            found += [f"{method}, verdict on a run: {s[1]}" for s in map(said.match, notes) if s]
    return found


def _two(ours: str, theirs: str | None, marked: bool = False) -> str:
    return markdown.lines(ours, f"*{theirs}*{' ≠' if marked else ''}") if theirs else ours


def _spread(values: pd.Series, digits: int) -> str:
    return f"{values.mean():.{digits}f} ({values.std():.{digits}f})"


def difference(rows: pd.DataFrame, target: str, other: str, measure: str) -> Difference:
    """Return KAMH-LS minus another method, with the joint standard error of both means."""
    parts = [
        rows.loc[(rows["target"] == target) & (rows["method"] == method), measure]
        for method in (KERNEL, other)
    ]
    errors = [part.std() / np.sqrt(len(part)) for part in parts]
    return Difference(float(parts[0].mean() - parts[1].mean()), float(np.hypot(*errors)))


def published_difference(target: str, other: str) -> Difference:
    """Return the same of the norms in the draft."""
    ours, theirs = DRAFT[target][KERNEL][0], DRAFT[target][other][0]
    errors = [row.norm_sd / np.sqrt(row.chains) for row in (ours, theirs)]
    return Difference(ours.norm - theirs.norm, float(np.hypot(*errors)))


def _claims(rows: pd.DataFrame) -> TableOfResults:
    """The paper's claim, KAMH-LS against each other method, with standard errors."""
    cells = []
    for target in TARGETS:
        for measure, title in MEASURES.items():
            digits = 2 if measure == "norm" else 4
            for other in RIVALS:
                ours = difference(rows, target, other, measure)
                known = published_difference(target, other) if measure == "norm" else None
                cells.append([
                    target, title, other, f"{ours.value:+.{digits}f} ± {ours.error:.{digits}f}",
                    ours.verdict,
                    f"{known.value:+.2f} ± {known.error:.2f}" if known else "–",
                    known.verdict if known else "–",
                ])  # fmt: skip
    header = ("target", "measure", "against", "ours", "ours: KAMH-LS has", "draft",
              "draft: KAMH-LS has")  # fmt: skip
    note = (
        "KAMH-LS minus each of the others, ± one standard error, ours and of the draft; 'less' and "
        f"'more' are beyond {CLEAR:g} standard errors. The deviation is the mean distance of the "
        "shares inside nine regions from their probabilities. An iteration of KAMH-LS costs "
        f"{_cost(rows):.0f} times one of AM-LS on these cheap densities."
    )
    title = "Claim: KAMH-LS is better than adaptive and random-walk Metropolis on curved targets"
    return TableOfResults.of(title, header, cells, note)


def _sharpness(rows: pd.DataFrame) -> TableOfResults:
    cells = [
        [name, str(part["draw"].nunique()), f"{part['ratio'].median():.2f}",
         f"{part['ratio'].min():.2f} to {part['ratio'].max():.2f}"]
        for name, part in rows.groupby("feature", sort=False)
    ]  # fmt: skip
    header = ("feature", "draws", "median", "range")
    note = (
        "Standard deviation of a log squared length-scale given latent values and the other "
        "scales, over its standard deviation in the posterior of Glass. A Gibbs step can move so "
        f"far; over all features the median is {rows['ratio'].median():.2f}."
    )
    title = "Claim: Gibbs steps fail, since scales given latent functions are sharp"
    return TableOfResults.of(title, header, cells, note)


def _gibbs(rows: pd.DataFrame) -> TableOfResults:
    cells = [
        [
            line.method, str(line.chains), f"{line.draws:,}", f"{line.scale:.2f}",
            markdown.rate(line.accepted), markdown.number(line.ess_min_per_1000),
            markdown.number(line.ess_median_per_1000), f"{line.distance:.2f}",
        ]
        for line in rows.itertuples()
    ]  # fmt: skip
    header = (
        "method", "chains", "draws", "scale", "accepted", "effective draws per 1,000, smallest",
        "median", "distance of the mean, sd",
    )  # fmt: skip
    note = (
        "The same random walk in theta, tuned to the same acceptance rate, on Glass: theta and f "
        "in turn, or together with an unbiased estimate of the likelihood. Scale: of the walk, in "
        "posterior standard deviations. Distance: the largest one of a mean from our earlier one."
    )
    title = "Claim: Gibbs steps fail, measured"
    return TableOfResults.of(title, header, cells, note)


def _approach(run: Run) -> TableOfResults:
    curves, methods = run.table("glass_curves"), run.table("glass_methods").set_index("method")
    cells = []
    for name, lines in curves.groupby("method", sort=False):
        own, ends = methods.loc[name], lines.iloc[[0, len(lines) // 2 - 1, -1]]
        cells.append([
            name, str(own["chains"]), own["warm-up + draws"], markdown.rate(own["acceptance"]),
            f"{own['largest R-hat']:.3f}", markdown.number(own["ESS min"]),
            *(f"{line.norm:.2f} ± {line.norm_error:.2f}" for line in ends.itertuples()),
            f"{lines['mmd_root'].iloc[-1]:.2f} ± {lines['mmd_root_error'].iloc[-1]:.2f}",
        ])  # fmt: skip
    header = (
        "method", "chains", "warm-up + draws", "accepted", "largest R-hat", "smallest bulk ESS",
        *(f"norm after {count:,}" for count in ends["iterations"]), "MMD at the end",
    )  # fmt: skip
    benchmark = methods.loc["benchmark"]
    note = (
        f"Distances to a run of Adaptive Metropolis of {benchmark['chains']} chains with "
        f"{benchmark['warm-up + draws']} iterations, whose smallest bulk ESS is "
        f"{markdown.number(benchmark['ESS min'])}: norm of the difference of means, and the "
        "signed root of the squared MMD with the kernel (1 + <x, y>)^3, of all iterations from "
        "the first on; means over chains ± one standard error. All chains start at 0, and use one "
        "importance sample per evaluation. The paper has curves and no numbers."
    )
    title = "Glass: approach to a long benchmark"
    return TableOfResults.of(title, header, cells, note)


def _curves(run: Run) -> Drawing:
    name, known = "kameleon_glass.png", run.table("glass_coordinates")
    settings = run.made["settings"]
    title = f"Glass, convention {settings['convention']}, M = {settings['samples']}"
    return Drawing(
        name, "Figure: approach to the benchmark on Glass",
        "As in the paper: distances of moments over iterations, burn-in included.",
        lambda folder: glass_curves.draw(
            run.table("glass_curves"), title, settings["warmup"],
            glass_curves.benchmark_error(known), folder / name,
        ),
    )  # fmt: skip


def _slice(run: Run) -> Drawing:
    name = "kameleon_slice.png"
    return Drawing(
        name, "Figure: slice of the posterior of Glass",
        "Two coordinates of theta, the others at their posterior means; Laplace's approximation. "
        "Convention 1 is that of the authors' code, 2 that of their text.",
        lambda folder: glass_slice.draw(folder / name, run.table("_grid")),
    )  # fmt: skip


def _cost(rows: pd.DataFrame) -> float:
    means = rows.groupby("method")["microseconds"].mean()
    return float(means[KERNEL] / means["AM-LS"])


def _figures(rows: pd.DataFrame) -> list[Drawing]:
    if rows.empty:
        return []
    return [
        Drawing(
            "kameleon_bars.png", "Figure: errors of all methods on curved targets",
            "Above the norm of the mean, below the deviation of the shares; bars are means over "
            "chains with bands of 80 %, as in the paper; diamonds are the draft's means.",
            lambda folder: draw_bars(folder / "kameleon_bars.png", rows),
        ),
        Drawing(
            "kameleon_coverage.png", "Figure: shares inside regions of known probability",
            "Share of draws inside minus the probability, the mean over chains; 0 is right. AM has "
            "too many draws in the center.",
            lambda folder: draw_coverage(folder / "kameleon_coverage.png", rows),
        ),
    ]  # fmt: skip


def draw_bars(path: Path, rows: pd.DataFrame) -> Path:
    """Draw bars of both measures, a column per target."""
    figure, axes = plt.subplots(
        len(MEASURES), len(TARGETS), figsize=(11, 5.6), layout="constrained", sharex=True
    )
    methods = list(rows["method"].unique())
    for row, (measure, title) in zip(axes, MEASURES.items(), strict=True):
        for panel, target in zip(row, TARGETS, strict=True):
            groups = [
                rows.loc[(rows["target"] == target) & (rows["method"] == method), measure]
                for method in methods
            ]
            means = [group.mean() for group in groups]
            bands = [BAND * group.std() / np.sqrt(len(group)) for group in groups]
            panel.bar(methods, means, yerr=bands, color="tab:blue", alpha=0.7, capsize=3)
            if measure == "norm":
                known = {m: DRAFT[target][m][0].norm for m in methods if m in DRAFT[target]}
                panel.plot(list(known), list(known.values()), "D", color="k", ms=5)
            panel.tick_params(axis="x", rotation=30)
        row[0].set_ylabel(title)
    for panel, target in zip(axes[0], TARGETS, strict=True):
        panel.set_title(target)
    return saved(figure, path)


def draw_coverage(path: Path, rows: pd.DataFrame) -> Path:
    """Draw the excess of shares inside regions against their probability."""
    figure, axes = plt.subplots(
        1, len(TARGETS), figsize=(11, 3.6), layout="constrained", sharey=True
    )
    levels = np.array(discrepancy.LEVELS)
    for panel, target in zip(axes, TARGETS, strict=True):
        for method, lines in rows[rows["target"] == target].groupby("method", sort=False):
            inside = np.array([lines[f"inside_{level}"].mean() for level in discrepancy.LEVELS])
            panel.plot(levels, inside - levels, "o-", ms=3, label=method)
        panel.axhline(0, color="k", lw=0.8)
        panel.set(title=target, xlabel="probability of the region")
    axes[0].set_ylabel("share inside - probability")
    axes[-1].legend(frameon=False, fontsize=8)
    return saved(figure, path)
