"""Which fits of a report can be used, and which one is the yardstick for the others."""

from typing import NamedTuple

import numpy as np
from scipy.stats import norm

from stanadapt.diagnostics.compare import disagreement
from stanadapt.diagnostics.verdict import FINE, NOT_EXACT
from stanadapt.studies.report.runs import Run

CHANCE = 1e-4  # that a fit without error is said to disagree, were its errors exactly normal


class Standing(NamedTuple):
    """What is held against each run.

    reference
        The run that the others are measured against.
    sound
        Whether the reference itself passes every check.
    z
        By label: largest differences of means and of sds from the reference, in joint Monte Carlo
        standard errors; NaN for the reference.
    objections
        By label: in a few words why the run cannot be used, "" if it can.

    """

    reference: Run
    sound: bool
    z: dict[str, tuple[float, float]]
    objections: dict[str, str]

    def usable(self, runs: list[Run], name: str) -> bool:
        """Whether every repeat of a name can be used."""
        return not any(self.objections[run.label] for run in runs if run.name == name)


def standing(runs: list[Run], baseline: str | None) -> Standing:
    """Choose the yardstick and hold every run against it.

    It is the baseline, if that passes every check, else the run that does with the largest of the
    smallest bulk ESS; if none does, differences from it prove nothing, and are not held against
    anyone.
    """
    sound = [run for run in runs if _sound(run)]
    preferred = [run for run in sound if run.name == baseline] or sound or runs
    reference = max(preferred, key=lambda run: np.nan_to_num(run.row["ess_bulk_min"], nan=-1.0))
    z, objections = {}, {}
    for run in runs:
        nothing = (np.nan, np.nan)
        z[run.label] = (
            nothing if run is reference else disagreement(run.measured, reference.measured)
        )
        objections[run.label] = _objection(run, reference, bool(sound), z[run.label])
    return Standing(reference, bool(sound), z, objections)


def _sound(run: Run) -> bool:
    fine = run.row["verdict"] == FINE and not run.missed
    return bool(fine and run.row["exact"] and run.row["chains"] > 1)


def _objection(run: Run, reference: Run, sound: bool, z: tuple[float, float]) -> str:
    if run.row["verdict"] not in (FINE, NOT_EXACT):
        return str(run.row["verdict"])
    if run.missed:
        return "missed modes"
    if not run.row["exact"]:
        return "not exact"
    largest = np.fmax(*z)
    if sound and largest > largest_z(run, reference):
        return f"disagrees with {reference.name}"
    if run.row["chains"] == 1 and not (sound and np.isfinite(largest)):
        return "one chain, and nothing to hold it against"
    return ""


def largest_z(run: Run, reference: Run) -> float:
    """Size that a fit's largest difference in standard errors exceeds with probability CHANCE.

    Bonferroni's bound for the means and sds of all common columns.
    """
    count = len(set(run.measured.names) & set(reference.measured.names))
    return float(norm.isf(CHANCE / (4 * max(count, 1))))
