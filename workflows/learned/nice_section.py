"""Song, Zhao and Ermon (2017), A-NICE-MC, on the page of reproductions."""

from pathlib import Path

import numpy as np
import pandas as pd

from workflows.learned import reinforce
from workflows.learned.published import PAPER_SIZES, PLANE, REGRESSIONS
from workflows.pictures import legend_outside, plt, saved
from workflows.reproduction import markdown
from workflows.reproduction.agreement import NOT_JUDGED
from workflows.reproduction.recorded import Run, joined, runs
from workflows.reproduction.section import Drawing, Section, TableOfResults, items

TITLE = "A-NICE-MC (Song, Zhao and Ermon, 2017)"
INTRODUCTION = (
    "Targets in the plane and Bayesian logistic regressions, four chains of 5,000 draws. Effective "
    "draws are by the paper's definition, around known moments (of regressions those of "
    "`whitened_hmc`), per 1,000 draws of a chain, of the coordinate with fewest; the published "
    'numbers are in italics. "nice as published" has no local moves. One network is trained '
    "for each target, so that there is no spread over repeats, and rows are not judged: the ratio "
    "of ours to the published number says how they compare. Published HMC has unit mass and a "
    "fixed step that was chosen for each data set; the paper does not say how its numbers vary. "
    "Seconds are those of different machines, ours busy; training is in none of these columns but "
    "the last one of the regressions."
)
DATA = {
    "german": "Table 2, German credit, 25 dimensions", "heart": "Table 2, Heart, 14 dimensions",
    "australian": "Table 2, Australian credit, 15 dimensions",
}  # fmt: skip
PUBLISHED = {"nice as published": "A-NICE-MC", "HMC as published": "HMC"}
SIZES = ("width", "critic_width", "from_noise", "rehearsal_chains", "rehearsal_draws", "iterations")


def section() -> Section:
    """Return tables, figures and items."""
    found = runs("nice")
    rows = joined(found, "nice_logistic")
    present = [name for name in DATA if len(rows) and name in set(rows["data"])]
    tables = []
    plane = joined(found, "nice_2d")
    if len(plane):
        tables.append(_plane(plane))
    tables += [_table(rows[rows["data"] == name], name) for name in present]
    if present:
        regressions = [run for run in found if run.table("nice_logistic") is not None]
        tables += [_claim(rows), _sizes(regressions)]
    drawings = []
    if present:
        name = "nice_effective_draws.png"
        drawings.append(
            Drawing(
                name, "Effective draws per call and per second",
                "By the paper's definition. A call is a density, or a gradient; both axes without "
                "that of training, as in the paper. Dotted lines are published numbers per second.",
                lambda folder: draw(folder / name, rows, present),
            )
        )  # fmt: skip
    rehearsals = joined(found, "nice_rehearsals")
    if len(rehearsals):
        name_of_training = "nice_training.png"
        drawings.append(
            Drawing(
                name_of_training, "Acceptance and effective draws during training",
                "Of the runs of 8 x 2,000 draws, with local moves, that provide the draws to learn "
                "from. Bulk ESS of the coefficient with fewest; dotted: the published number, of "
                "up to 100,000 steps, which counts correlations above 0.05 only.",
                lambda folder: draw_training(folder / name_of_training, rehearsals),
            )
        )  # fmt: skip
    trained = [run for run in found if run.name.endswith("/reinforce")]
    if trained:
        tables.append(_crossings(trained[0].table("reinforce")))
        name_of_curves = "nice_reinforce.png"
        drawings.append(
            Drawing(
                name_of_curves, "Normal proposals, trained by REINFORCE",
                "Left: the mean reward of five networks during training. Right: moves from one "
                "mode to the other.",
                lambda folder: reinforce.draw(
                    folder / name_of_curves, trained[0].table("reinforce"),
                    trained[0].table("_curves"),
                ),
            )
        )  # fmt: skip
    counted = items(Path(__file__).with_name("nice_items.csv"))
    return Section(TITLE, INTRODUCTION, tables, drawings, counted, found)


def _crossings(rows: pd.DataFrame) -> TableOfResults:
    """The claim that normal proposals of a network fail, on two modes."""
    cells = [list(line.values()) for line in reinforce.summary(rows)]
    header = (
        "method", "accepted", "mean squared jump", "crossings per 1,000",
        "effective draws per 1,000",
    )  # fmt: skip
    title = "Two modes: normal proposals of a network, trained by REINFORCE"
    return TableOfResults.of(title, header, cells)


def ratio(line: pd.Series, data: str) -> float:
    """Return our effective draws over the published ones; NaN if there are none."""
    name = PUBLISHED.get(line["method"])
    known = REGRESSIONS.get(data, {}).get(name) if name else None
    return float(line["paper_ess_per_1000"] / known[0]) if known else np.nan


def _plane(rows: pd.DataFrame) -> TableOfResults:
    """Table 1: four targets in the plane."""
    cells = []
    for _, line in rows.iterrows():
        name = PUBLISHED.get(line["method"], "")
        ess, per_second = PLANE[line["target"]].get(name, (np.nan, np.nan))
        cells.append([
            line["target"], markdown.lines(line["method"], f"*{name}*") if name else line["method"],
            _two(line["ess_per_1000"], ess),
            markdown.number(line["ess_per_1000"] / ess), _two(line["ess_per_second"], per_second),
            str(line["regions"]), f"{line['share_error']:.1f}",
        ])  # fmt: skip
    header = (
        "target", "method", "effective draws per 1,000", "ours / paper",
        "effective draws per second", "regions", "error of shares",
    )  # fmt: skip
    note = (
        "Networks of 2,000 steps of training, where the paper has up to 100,000; theirs are means "
        "of five runs. Regions: modes, or rings, that each of four chains visited. Error of "
        "shares: the largest difference from the exact one, in standard errors. With several modes "
        "the published HMC leaves none, and has one effective draw around exact moments: of 5,000 "
        "draws here, of 1,000 in the paper."
    )
    title = "Table 1, targets in the plane"
    return TableOfResults.of(title, header, cells, note, classes=[NOT_JUDGED] * len(cells))


def _table(rows: pd.DataFrame, data: str) -> TableOfResults:
    cells = []
    for _, line in rows.iterrows():
        name = PUBLISHED.get(line["method"], "")
        ess, per_second = REGRESSIONS[data].get(name, (np.nan, np.nan))
        scale = line["paper_ess_per_1000"] / line["ess_per_1000"]
        cells.append([
            markdown.lines(line["method"], f"*{name}*") if name else line["method"],
            _two(line["paper_ess_per_1000"], ess), markdown.number(ratio(line, data)),
            markdown.number(line["ess_per_1000"]), f"{line['r_hat']:.3f}",
            markdown.rate(line["acceptance"]), _two(scale * line["ess_per_second"], per_second),
            markdown.number(line["learning_seconds"]),
        ])  # fmt: skip
    header = (
        "method", "effective draws per 1,000", "ours / paper", "bulk ESS per 1,000", "R-hat",
        "accepted", "effective draws per second", "seconds of learning",
    )  # fmt: skip
    return TableOfResults.of(DATA[data], header, cells, classes=[NOT_JUDGED] * len(cells))


def _claim(rows: pd.DataFrame) -> TableOfResults:
    """The claim that A-NICE-MC has more effective draws per second than HMC, on all data."""
    scale, cells = rows["paper_ess_per_1000"] / rows["ess_per_1000"], []
    rates = rows[["ess_per_second", "ess_per_second_all"]].mul(scale, axis=0)
    for data, part in rates.groupby(rows["data"], sort=False):
        by_method = part.set_index(rows.loc[part.index, "method"])
        for rival in ("HMC as published", "hmc, tuned"):
            ratios = by_method.loc["nice as published"] / by_method.loc[rival]
            shown = [[markdown.number(ratio), "yes" if ratio > 1 else "no"] for ratio in ratios]
            cells.append([data, rival, *shown[0], *shown[1]])
    header = ("data", "against", "ratio", "holds", "with training", "holds")
    note = (
        "Effective draws per second of 'nice as published' over those of HMC, by the paper's "
        "definition; then with the seconds of warm-up and training."
    )
    title = "Claim: more effective draws per second than HMC"
    return TableOfResults.of(title, header, cells, note)


def draw_training(path: Path, rehearsals: pd.DataFrame) -> Path:
    """Draw acceptance rates and effective draws against steps of training."""
    figure, (left, right) = plt.subplots(1, 2, figsize=(9, 3.6), layout="constrained")
    for number, (data, rows) in enumerate(rehearsals.groupby("data", sort=False)):
        color = f"C{number}"
        left.plot(rows["step"], rows["acceptance"], "-", color=color, label=data)
        right.plot(rows["step"], 1000.0 * rows["ess_per_draw"], "-", color=color, label=data)
        known = REGRESSIONS.get(data, {}).get("A-NICE-MC")
        if known:
            right.axhline(known[0], ls=":", color=color, lw=1)
    left.set(xlabel="steps of training", ylabel="accepted moves of the network", ylim=(0, 1))
    right.set(xlabel="steps of training", ylabel="effective draws per 1,000", ylim=(0, None))
    right.legend(frameon=False)
    return saved(figure, path)


def _two(ours: float, theirs: float) -> str:
    shown = markdown.number(ours)
    return markdown.lines(shown, f"*{markdown.number(theirs)}*") if theirs == theirs else shown


def _sizes(found: list[Run]) -> TableOfResults:
    """What was trained, next to the sizes of the paper."""
    paper = {
        "width": PAPER_SIZES["width"], "critic_width": PAPER_SIZES["critic_width"],
        "from_noise": PAPER_SIZES["from_noise"], "rehearsal_chains": PAPER_SIZES["chains"],
        "rehearsal_draws": PAPER_SIZES["draws"], "iterations": "up to 100,000",
    }  # fmt: skip
    cells = dict.fromkeys(
        (f"`--{name.replace('_', '-')}`", str(run.made["settings"][name]), str(paper[name]))
        for run in found
        for name in SIZES
    )
    header = ("option", "here", "paper")
    return TableOfResults.of("Sizes of networks and of their training", header, cells)


def draw(path: Path, rows: pd.DataFrame, present: list[str]) -> Path:
    """Draw effective draws per call against those per second, a panel per data set."""
    figure, axes = plt.subplots(
        1, len(present), figsize=(4.6 * len(present) + 2, 4), layout="constrained", squeeze=False
    )
    for panel, data in zip(axes[0], present, strict=True):
        for number, (_, line) in enumerate(rows[rows["data"] == data].iterrows()):
            scale = line["paper_ess_per_1000"] / line["ess_per_1000"]
            per_call = scale * line["ess"] / line["calls"]
            per_second = scale * line["ess_per_second"]
            label, color = line["method"], f"C{number}"
            panel.plot(per_call, per_second, "o", color=color, label=label)
            name = PUBLISHED.get(line["method"])
            if name in REGRESSIONS[data]:
                panel.axhline(REGRESSIONS[data][name][1], ls=":", color=color, lw=1)
        panel.set(
            title=f"{data}; dotted: published per second", xscale="log", yscale="log",
            xlabel="effective draws per density or gradient",
        )  # fmt: skip
        panel.tick_params(which="minor", labelbottom=False, labelleft=False)
    axes[0, 0].set_ylabel("effective draws per second")
    legend_outside(figure, axes[0, 0])
    return saved(figure, path)
