"""A comparison of fits as one HTML file."""

import os
from collections.abc import Mapping
from datetime import UTC, datetime
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from stanadapt import results
from stanadapt.diagnostics.densities import has_same_data
from stanadapt.errors import Message, StanadaptError, answers_other_words
from stanadapt.studies.report import (
    adaptation,
    costs,
    forest,
    pairs,
    running_error,
    straightening,
    traces,
)
from stanadapt.studies.report.assessment import Assessment, assess
from stanadapt.studies.report.canvas import Picture, report_style
from stanadapt.studies.report.conclusion import conclude
from stanadapt.studies.report.fits import (
    ReportedFit,
    collect,
    list_repeats,
    parameters,
    representatives,
)
from stanadapt.studies.report.page import origin, render
from stanadapt.studies.report.problems import problems
from stanadapt.studies.report.table import TITLES, estimates, table_lines

MOST_TRACED = 12  # samplers; a picture of traces takes 0.15 MB
LIBRARIES = ("matplotlib", "jinja2")


@answers_other_words
def report(
    fits: Mapping[str, Any],
    path: str | os.PathLike,
    *,
    baseline: str | None = None,
    table: pd.DataFrame | None = None,
    command: str = "",
) -> Path:
    """Write a report: which sampler to use, whether to trust it, and pictures that show why.

    Parameters
    ----------
    fits : mapping of str to Fit
        By name: results of `sample` and `stan_nuts`, or any ArviZ objects with the same variables;
        or lists of them, which are repeats of one sampler with different seeds. The report shows
        the spread of repeats. The k-th repeats of all names are compared with each other.
    path : path
        The HTML file to write. It is self-contained: it includes pictures, styles and all text.
    baseline : str, optional
        As for `compare`. If it does not pass every check, the reference is the fit with the largest
        of the smallest bulk ESS among those that do.
    table : DataFrame, optional
        The result of `compare` for the same fits, if there is one fit per name: it is then not
        computed again.
    command : str
        The command that made the fits, which the report shows.

    Returns
    -------
    Path
        The path of the file.

    Raises
    ------
    StanadaptError
        Stage "settings" if there is nothing to report, or the fits have different targets;
        "files" if the file cannot be written; "installation" if matplotlib or jinja2 is missing.

    Examples
    --------
    >>> from tempfile import TemporaryDirectory
    >>> import stanadapt as sa
    >>> program = "parameters { real x; } model { x ~ normal(1, 2); }"
    >>> target = sa.Target(program, backend="stanli", show_progress=False)
    >>> fit = sa.sample(target, "nuts", seed=1, show_progress=False)
    >>> with TemporaryDirectory() as folder:
    ...     path = sa.report({"nuts": fit}, f"{folder}/report.html")
    ...     path.read_text()[:15]
    '<!doctype html>'
    """
    path = check_report(path)
    repeats = list_repeats(fits)
    runs, used_baseline, notes = collect(repeats, baseline, table)
    assessment = assess(runs, used_baseline)
    # the number of the color of each name
    places = {name: i for i, name in enumerate(dict.fromkeys(run.name for run in runs))}
    own_notes = _describe_reference(runs, used_baseline, assessment), _describe_traces(runs)
    text = render(
        title=_title(runs),
        conclusion=conclude(runs, assessment),
        estimates=estimates(repeats, assessment.reference),
        titles=TITLES,
        lines=table_lines(runs, assessment),
        several=any(run.repeat for run in runs),
        reference=assessment.reference.label,
        problems=[
            (run, places[run.name], not assessment.objections[run.label], messages)
            for run in runs
            if (messages := problems(run, assessment))
        ],
        notes=[*(note for note in own_notes if note), *notes],
        pictures=_pictures(runs, assessment, places),
        origin=origin(runs),
        command=command,
        written=datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC"),
    )
    return results.write_text(path, text)


def check_report(path: str | os.PathLike) -> Path:
    """Check, possibly before sampling, that a report can be written to a path; return the path."""
    for library in LIBRARIES:
        if find_spec(library) is None:
            raise StanadaptError(
                "report_library_missing", f"a report needs {library}: run `pip install {library}`."
            )
    return results.check_writable(path)


def _title(runs: list[ReportedFit]) -> str:
    model = results.attribute(runs[0].fit, "model", "")
    names = len({run.name for run in runs})
    subject = f"{names} samplers compared" if names > 1 else "one sampler"
    return f"{model}: {subject}" if model else subject.capitalize()


def _describe_reference(
    runs: list[ReportedFit], baseline: str | None, assessment: Assessment
) -> Message | None:
    label = assessment.reference.label
    if len(runs) == 1:
        return None
    text = f"The reference that the others are compared with is {label}."
    if not assessment.sound:
        text = (
            "No fit passes every check, so fits are not compared with each other. Pictures that "
            f"need a reference use {label}, which has the largest effective sample size."
        )
    elif baseline is not None and assessment.reference.name != baseline:
        text = f"{baseline}, the baseline, does not pass every check: the reference is {label}."
    return Message("reference_fit", text)


def _select_traced(shown: list[ReportedFit], assessment: Assessment) -> list[ReportedFit]:
    """Return the runs with traces: if there are many, unusable ones first, then the slowest."""

    def order(run: ReportedFit) -> tuple[bool, float]:
        usable = not assessment.objections[run.label]
        return usable, float(np.nan_to_num(run.row["ess_bulk_min"], nan=-1.0))

    selected = {run.label for run in sorted(shown, key=order)[:MOST_TRACED]}
    return [run for run in shown if run.label in selected]


def _describe_traces(runs: list[ReportedFit]) -> Message | None:
    count = len({run.name for run in runs})
    if count <= MOST_TRACED:
        return None
    return Message(
        "selected_traces",
        f"Traces and ranks are shown for {MOST_TRACED} of {count} samplers: first those that "
        "cannot be used, then those with the smallest effective sample size.",
    )


def _pictures(
    runs: list[ReportedFit], assessment: Assessment, places: dict[str, int]
) -> list[Picture]:
    reference = assessment.reference
    shown = [reference if run.name == reference.name else run for run in representatives(runs)]
    same = [run for run in shown if has_same_data(run.fit, reference.fit)]
    refused = [name for name in places if not assessment.usable(runs, name)]
    with report_style(), np.errstate(all="ignore"):
        pictures = [costs.draw(runs, refused)]
        if parameters(reference):
            compared = [
                forest.draw(same, reference, places),
                pairs.draw(same, reference, places),
                running_error.draw(same, reference, assessment.sound, places),
            ]
            left_out = [run.label for run in shown if run not in same]
            if left_out:
                text = f" Not shown, because their random data differ: {', '.join(left_out)}."
                compared = [one and one._replace(caption=one.caption + text) for one in compared]
            pictures += compared
            pictures.append(straightening.draw(shown, places))
        pictures += [
            traces.draw(run, places[run.name]) for run in _select_traced(shown, assessment)
        ]
        pictures.append(adaptation.draw(shown, places))
    return [picture for picture in pictures if picture is not None]
