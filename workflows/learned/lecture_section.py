"""The lecture on Hamiltonian and variational Monte Carlo on the page of reproductions."""

import json
from pathlib import Path

import numpy as np
import pandas as pd

from stanadapt.targets.stan import bundled
from workflows.learned import exact_paths
from workflows.reproduction import markdown
from workflows.reproduction.agreement import AGREES, DIFFERS
from workflows.reproduction.recorded import runs
from workflows.reproduction.section import Drawing, Section, TableOfResults, items

TITLE = "Lecture 17 of CMU 10-708 (2017): Hamiltonian and variational Monte Carlo"
INTRODUCTION = (
    "The lecture has figures and properties, and no tables. Its figures are drawn next to exact "
    "paths, and the properties of integrators are compared with their closed forms. A row agrees "
    "if each number is at its closed form: to rounding, or to 0.05 for orders of convergence, "
    "which are slopes at finite steps. Stochastic gradients and variational methods have "
    "experiments of their own, whose results are not on this page."
)
# of one step on the oscillator: order of the energy error, Jacobian, whether it can be reversed
PROPERTIES = {
    "Euler": (1.0, 1.0 + exact_paths.STEP**2, False),
    "symplectic Euler": (1.0, 1.0, False),
    "leapfrog": (2.0, 1.0, True),
}
ORDER_ERROR, ROUNDING = 0.05, 1e-6


def section() -> Section:
    """Return tables, figures and items."""
    found = runs("lecture")
    by_name = {run.name.rpartition("/")[2]: run for run in found}
    tables: list[TableOfResults] = []
    drawings: list[Drawing] = []
    if "exact_paths" in by_name:
        run = by_name["exact_paths"]
        rows, walk = pd.read_csv(run.folder / "exact_paths.csv"), run.table("_walk")
        tables.append(_paths(rows))
        drawings.append(
            Drawing(
                "lecture_figures.png", "Figures 1 and 2: random walk, oscillator and puck",
                "Left: random-walk Metropolis on a Gaussian of correlation 0.99, with contours at "
                "one and two standard deviations. Then integrators with steps of "
                f"{exact_paths.STEP} in phase space, and the exact paths.",
                lambda folder: exact_paths.draw(
                    folder / "lecture_figures.png", rows, walk, _covariance()
                ),
            )
        )  # fmt: skip
    if "integrators" in by_name:
        tables.append(_integrators(by_name["integrators"].table("integrators")))
    counted = items(Path(__file__).with_name("lecture_items.csv"))
    return Section(TITLE, INTRODUCTION, tables, drawings, counted, found)


def _covariance() -> np.ndarray:
    data = bundled.find("gaussian", "two_dim")[1]
    return np.array(json.loads(data.read_text(encoding="utf-8"))["Sigma"])


def expected_error(system: str, method: str, time: float) -> float:
    """Return the largest distance from the exact path, if there is a closed form, or NaN."""
    if system != "puck on a slope":
        return np.nan
    euler = 0.5 * exact_paths.SLOPE * exact_paths.STEP * time
    return 0.0 if method == "leapfrog" else euler


def _paths(rows: pd.DataFrame) -> TableOfResults:
    cells, classes, last = [], [], rows["time"].max()
    for line in exact_paths.errors(rows).itertuples():
        expected = expected_error(line.system, line.method, last)
        kind = ""
        if expected == expected:
            kind = AGREES if abs(line.error - expected) < ROUNDING else DIFFERS
            classes.append(kind)
        cells.append(
            [line.system, line.method, f"{line.error:.3g}", markdown.number(expected), kind]
        )
    header = ("system", "method", "largest distance", "closed form", "row")
    return TableOfResults.of("Distance from the exact path", header, cells, classes=classes)


def integrator_class(order: float, volume: float, back: float, method: str) -> str:
    """Return whether the properties of a method on the oscillator are the known ones."""
    known_order, known_volume, reversible = PROPERTIES[method]
    right = (
        abs(order - known_order) < ORDER_ERROR,
        abs(volume - known_volume) < ROUNDING,
        (back < ROUNDING) == reversible,
    )
    return AGREES if all(right) else DIFFERS


def _integrators(rows: pd.DataFrame) -> TableOfResults:
    cells, classes = [], []
    for line in rows.drop_duplicates(["system", "method"]).to_dict("records"):
        known = line["system"] == "oscillator"
        kind = ""
        if known:
            kind = integrator_class(line["order"], line["volume"], line["return"], line["method"])
            classes.append(kind)
        order, volume, reversible = PROPERTIES[line["method"]]
        cells.append([
            line["system"], line["method"],
            markdown.lines(f"{line['order']:.2f}", f"*{order:g}*"),
            markdown.lines(f"{line['volume']:.6f}", f"*{volume:g}*") if known
            else f"{line['volume']:.6f}",
            markdown.lines(f"{line['return']:.1e}", f"*{'0' if reversible else 'above 0'}*"), kind,
        ])  # fmt: skip
    header = ("system", "method", "order", "volume of a step", "return to the start", "row")
    title, note = "Integrators: order, volume, reversibility", "In italics: closed forms."
    return TableOfResults.of(title, header, cells, note, classes=classes)
