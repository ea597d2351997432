"""Nemeth et al. (2019), pseudo-extended MCMC, on the page of reproductions."""

from functools import partial
from pathlib import Path

import numpy as np
import pandas as pd

from workflows.reproduction.recorded import Run, joined, runs
from workflows.reproduction.section import Drawing, Section, TableOfResults, items
from workflows.tempering import (
    boltzmann_figures,
    horseshoe_figures,
    mixture_figures,
    one_dim_figures,
    section_tables,
)
from workflows.tempering.mixture import SCENARIOS, Known
from workflows.tempering.published_settings import SYSTEM
from workflows.tempering.scatter import read, scatter

TITLE = "Pseudo-extended MCMC (Nemeth et al., 2019)"
INTRODUCTION = (
    "Each row is one method on one target, a repeat is one chain. Cells hold the mean over repeats "
    "and, in brackets, their standard deviation; below it in italics the paper's, over 20 repeats "
    "of 50,000 draws, marked ≠ if ours is outside the joint error of both. A row is *better* if "
    "its numbers outside are at the exact value within our error while the paper's are not. "
    "The column of standard deviations has ours, scaled to the paper's 50,000 draws, over the "
    "paper's: the smallest and largest ratio of the four, and whether an F test calls them wider "
    "or narrower; 'allowed' is the distance that agrees, as a share of the published number. "
    "PEn is the paper's recipe: Stan's or our NUTS on the joint density of n pseudo-samples and "
    "their inverse temperatures, uniform on (0.001, 1). We ran fewer repeats and, for many "
    "pseudo-samples, fewer draws than the paper, as each row shows. RAM, EE and PT were "
    "published elsewhere, and are compared with our samplers under their published settings, with "
    '50,000 draws; the rows without "as published" have our defaults, and 350,000 gradients or '
    "densities per chain. The rows of scenario (b) belong to two targets: RAM, HMC and PE took "
    "d / 20 as the variance of a component, EE, PT and the truth printed above them as its "
    "standard deviation. Ours are compared with the published row of the same target."
)


def section() -> Section:
    """Return tables, figures and items."""
    found = runs("tempering")
    by_name = {run.name.rpartition("/")[2]: run for run in found}
    rows = estimates(found)
    tables, figures = [], []
    for scenario in SCENARIOS if len(rows) else ():
        part = rows[rows["scenario"] == scenario]
        if len(part):
            tables.append(section_tables.table_1(part, scenario))
            figures += _of_mixture(by_name, part, scenario)
    if tables:
        tables.append(section_tables.few_pseudo_samples(rows))
    for add in (_line, _machine, _horseshoe, _curved):
        add(by_name, tables, figures)
    counted = items(Path(__file__).with_name("items.csv"))
    return Section(TITLE, INTRODUCTION, tables, figures, counted, found)


def estimates(found: list[Run]) -> pd.DataFrame:
    """Return the chains of table 1: of the recipe, of `mixture`, and with published settings."""
    parts = [joined(found, "recipe_table"), joined(found, "mixture")]
    published = joined(found, "published_settings")
    if len(published):
        parts.append(published[published["scenario"].isin(SCENARIOS)])
    return pd.concat([part for part in parts if len(part)], ignore_index=True)


def machines(found: list[Run]) -> pd.DataFrame:
    """Return the chains on the Boltzmann machine: of `boltzmann`, and with published settings."""
    rows, published = joined(found, "boltzmann"), joined(found, "published_settings")
    if not len(rows) or not len(published):
        return rows
    return pd.concat([rows, published[published["scenario"] == SYSTEM]], ignore_index=True)


def _timed(rows: pd.DataFrame) -> pd.DataFrame:
    """Leave out the seconds of particles: these runs timed their draws, and not their moves."""
    particles = rows["method"].str.startswith(("smc", "annealed"))
    return rows.assign(seconds=rows["seconds"].mask(particles))


def _of_mixture(by_name: dict[str, Run], rows: pd.DataFrame, scenario: str) -> list[Drawing]:
    exact, title = Known(scenario).moments, SCENARIOS[scenario]
    # methods that miss components have errors without a scale
    counted = _timed(rows[rows["method"].str.contains("N = |tempering|smc")])
    name = f"tempering_{scenario}_errors.png"
    drawings = [
        Drawing(
            name, f"Figure 7: error times cost against N, {title}",
            "Squared error over both coordinates, the mean over repeats, times gradients and times "
            "seconds of sampling on a busy machine. Bars are one standard error. The recipe is "
            "compared with pseudo_extended, which learns a reference distribution and a ladder. "
            "The seconds of smc were not measured in this run.",
            lambda folder: mixture_figures.errors(folder / name, counted, exact, title),
        )
    ]  # fmt: skip
    run = by_name.get("mixture")
    if run is not None and (run.folder / f"{scenario}_draws.csv").is_file():
        drawn = f"tempering_{scenario}_draws.png"
        drawings.insert(
            0,
            Drawing(
                drawn, f"Figure 3: draws of one chain, {title}",
                "250 draws of the first 10,000, equally far apart; circles are the components.",
                partial(_scatter, run.folder / f"{scenario}_draws.csv", drawn, title, scenario),
            ),
        )  # fmt: skip
    return drawings


def _scatter(source: Path, name: str, title: str, scenario: str, folder: Path) -> Path:
    marks: np.ndarray = Known(scenario).centers
    return scatter(folder / name, read(source), f"{title}: one chain", marks)


def _line(by_name: dict[str, Run], tables: list[TableOfResults], figures: list[Drawing]) -> None:
    run = by_name.get("one_dim")
    if run is None:
        return
    tables.append(section_tables.line(run.table("one_dim")))
    figures += [
        Drawing(
            "tempering_figure_1.png", "Figure 1: two Gaussians, a Gaussian between them",
            "The density of two pseudo-samples with a Gaussian of variance 2, and its marginal.",
            lambda folder: one_dim_figures.draw_figure_1(
                folder / "tempering_figure_1.png", run.table("_joint"), run.table("_marginals")
            ),
        ),
        Drawing(
            "tempering_figure_2.png", "Figure 2: two Gaussians, temperatures sampled",
            "Histograms of pseudo-samples by NUTS, without and with their weights.",
            lambda folder: one_dim_figures.draw_figure_2(
                folder / "tempering_figure_2.png", run.table("_histograms")
            ),
        ),
    ]  # fmt: skip


def _curved(by_name: dict[str, Run], tables: list[TableOfResults], figures: list[Drawing]) -> None:
    run = by_name.get("curved")
    if run is None:
        return
    for program in ("banana", "flower"):
        name = f"tempering_{program}.png"
        figures.append(
            Drawing(
                name, f"Figure 10: {program} in the plane",
                "The first 250 draws of a chain, with lines from each to the next.",
                lambda folder, n=name, p=program: scatter(
                    folder / n, read(run.folder / f"{p}_draws.csv"), p, line=True
                ),
            )
        )  # fmt: skip
    tables.append(section_tables.curved(run.table("curved")))


def _machine(by_name: dict[str, Run], tables: list[TableOfResults], figures: list[Drawing]) -> None:
    run = by_name.get("boltzmann")
    if run is None:
        return
    tables.append(section_tables.machine(machines(list(by_name.values()))))
    rows = _timed(run.table("boltzmann"))
    figures += [
        Drawing(
            "tempering_figure_4.png", "Figure 4: the Boltzmann machine in two coordinates",
            "The two widest coordinates; the first panel has independent draws, by enumeration of "
            "all states. 250 draws in each panel, of one chain.",
            lambda folder: boltzmann_figures.draw_projections(
                folder / "tempering_figure_4.png", read(run.folder / "boltzmann_projections.csv")
            ),
        ),
        Drawing(
            "tempering_figure_5.png", "Figure 5: errors of first and second moments",
            "Against the fixed inverse temperature of the paper's recipe with N = 2. The second "
            "moments are those of all pairs of coordinates; the paper's are not known as numbers.",
            lambda folder: boltzmann_figures.fixed_temperatures(
                folder / "tempering_figure_5.png", rows, True
            ),
        ),
        Drawing(
            "tempering_figure_8.png", "Figure 8: error times cost against N, Boltzmann machine",
            "Squared error times gradients, and times seconds of sampling on a busy machine. The "
            "seconds of smc and of annealed importance sampling were not measured in this run.",
            lambda folder: boltzmann_figures.costs(folder / "tempering_figure_8.png", rows),
        ),
    ]  # fmt: skip


def _horseshoe(
    by_name: dict[str, Run], tables: list[TableOfResults], figures: list[Drawing]
) -> None:
    run = by_name.get("horseshoe")
    if run is None:
        return
    tables.append(section_tables.horseshoe(joined(list(by_name.values()), "horseshoe")))
    drawn = (
        ("quantiles", "Figure 6: log predictive density of the test rows",
         "At each draw, all repeats of a method together: median, 50 % and 90 %.",
         horseshoe_figures.draw_predictive, "tempering_figure_6.png"),
        ("marginals", "Figure 9: marginals of random coefficients",
         "Histograms of all repeats of a method together, on a logarithmic scale.",
         horseshoe_figures.draw_marginals, "tempering_figure_9.png"),
    )  # fmt: skip
    for suffix, title, caption, draw, name in drawn:
        table = run.table(suffix)
        figures.append(
            Drawing(name, title, caption, lambda folder, d=draw, n=name, t=table: d(folder / n, t))
        )
