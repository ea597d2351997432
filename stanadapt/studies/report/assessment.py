"""Which fits of a report can be used, and why the others cannot."""

from typing import NamedTuple

import numpy as np
import scipy

from stanadapt.diagnostics.compare import disagreement
from stanadapt.diagnostics.densities import has_same_data
from stanadapt.diagnostics.reasons import FINE, NOT_EXACT
from stanadapt.errors import Message
from stanadapt.studies.report.fits import ReportedFit

CHANCE = 1e-4  # that a fit without error seems to disagree, if its errors are exactly normal


class Assessment(NamedTuple):
    reference: ReportedFit  # the run that the others are compared with
    sound: bool  # whether the reference itself passes every check
    # By label: largest differences of means and of sds from the reference, in joint Monte Carlo
    # standard errors; NaN for the reference and fits that cannot be compared with it.
    z: dict[str, tuple[float, float]]
    objections: dict[str, Message | None]  # by label: why the run cannot be used; None if it can

    def usable(self, runs: list[ReportedFit], name: str) -> bool:
        """Return whether every repeat of a name can be used."""
        return not any(self.objections[run.label] for run in runs if run.name == name)

    def uncompared(self, runs: list[ReportedFit]) -> list[str]:
        """Return the labels of runs that could not be compared with the reference."""
        labels = [run.label for run in runs if run is not self.reference]
        return [label for label in labels if not np.isfinite(np.fmax(*self.z[label]))]


def assess(runs: list[ReportedFit], baseline: str | None) -> Assessment:
    """Choose the reference, and compare every run with it.

    The reference is the baseline if that passes every check; otherwise, of the runs that do, the
    one with the largest of the smallest bulk ESS. If no run does, differences from the reference
    prove nothing and are no objection.
    """
    sound = [
        run
        for run in runs
        if run.row["verdict"] == FINE and not run.missed
        if run.row["exact"] and run.row["chains"] > 1
    ]
    preferred = [run for run in sound if run.name == baseline] or sound or runs
    reference = max(preferred, key=lambda run: np.nan_to_num(run.row["ess_bulk_min"], nan=-1.0))
    z, objections = {}, {}
    for run in runs:
        z[run.label] = np.nan, np.nan
        if run is not reference and has_same_data(run.fit, reference.fit):
            z[run.label] = disagreement(run.measured, reference.measured)
        objections[run.label] = _object(run, reference, bool(sound), z[run.label])
    return Assessment(reference, bool(sound), z, objections)


def _object(
    run: ReportedFit, reference: ReportedFit, sound: bool, z: tuple[float, float]
) -> Message | None:
    if run.row["verdict"] not in (FINE, NOT_EXACT):
        return Message("unusable_verdict", str(run.row["verdict"]))
    if run.missed:
        return Message("missed_by_fit", "missed modes")
    if not run.row["exact"]:
        return Message("inexact_sampler", "not exact")
    largest = np.fmax(*z)
    if sound and largest > largest_z(run, reference):
        return Message("disagreement", f"disagrees with {reference.name}")
    compared = sound and np.isfinite(largest)
    if run.row["chains"] == 1 and not compared:
        return Message("unchecked_chain", "a single chain with no reference fit")
    same_data = has_same_data(run.fit, reference.fit)  # other random data are no fault
    if sound and not compared and same_data and run is not reference:
        return Message("not_compared", f"not comparable with {reference.name}")
    return None


def largest_z(run: ReportedFit, reference: ReportedFit) -> float:
    """Return the bound that a fit's largest z exceeds with probability CHANCE at most.

    It is Bonferroni's bound for the means and sds of all common columns.
    """
    count = len(set(run.measured.names) & set(reference.measured.names))
    return float(scipy.stats.norm.isf(CHANCE / (4 * max(count, 1))))
