"""Write a comparison of fits as one HTML file."""

import os
from collections.abc import Mapping
from datetime import UTC, datetime
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from stanadapt import results
from stanadapt.errors import StanadaptError
from stanadapt.studies.report import adaptation, costs, forest, pairs, running_error, traces
from stanadapt.studies.report import summary_table as table_of
from stanadapt.studies.report.canvas import Picture, own_settings
from stanadapt.studies.report.conclusion import conclude
from stanadapt.studies.report.fits import (
    Compared,
    Run,
    Standing,
    as_repeats,
    collect,
    parameters,
    representatives,
    standing,
    with_few_columns,
)
from stanadapt.studies.report.html import origin, page
from stanadapt.studies.report.problems import problems

MOST_TRACED = 12  # samplers: a picture of traces takes 0.15 MB
LIBRARIES = ("matplotlib", "jinja2")


def report(
    fits: Mapping[str, Any],
    path: str | os.PathLike,
    *,
    baseline: str | None = None,
    table: pd.DataFrame | None = None,
    command: str = "",
) -> Path:
    """Write a report: which sampler to use, whether to trust it, and the pictures that show why.

    Parameters
    ----------
    fits
        By name: results of `sample` and `stan_nuts`, or any ArviZ objects with the same variables;
        or lists of them, repeats of one sampler with different seeds, whose spread is shown. The
        k-th repeats of all names are compared with each other.
    path
        The HTML file to write. It needs nothing else: pictures, styles and all text are in it.
    baseline
        As for `compare`. If it does not pass every check, the fit that does with the largest of
        the smallest bulk ESS is the reference instead.
    table
        What `compare` returned for the same fits, one of each, to save its time.
    command
        What made the fits, to be shown.

    Returns
    -------
    Path
        Of the file.

    Raises
    ------
    StanadaptError
        Stage "settings", if there is nothing to report, or the fits have different targets;
        "files", if the file cannot be written; "installation", if matplotlib or jinja2 is missing.

    """
    path = check_report(path)
    repeats, note = with_few_columns(as_repeats(fits))
    compared = collect(repeats, baseline, None if note else table)
    judged = standing(compared.runs, compared.baseline)
    said = (note, _about_reference(compared, judged), _about_traces(compared.runs))
    notes = [sentence for sentence in said if sentence]
    text = page(
        title=_title(compared.runs),
        conclusion=conclude(compared.runs, judged),
        titles=table_of.TITLES,
        lines=table_of.lines(compared.runs, judged),
        several=any(run.repeat for run in compared.runs),
        reference=judged.reference.label,
        problems=_problems(compared.runs, judged),
        notes=[*notes, *compared.notes],
        pictures=_pictures(compared.runs, judged),
        origin=origin(compared.runs),
        command=command,
        written=datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC"),
    )
    return results.write_text(path, text)


def check_report(path: str | os.PathLike) -> Path:
    """Check, before sampling too, that a report can be written to a path; return the path."""
    for library in LIBRARIES:
        if find_spec(library) is None:
            raise StanadaptError(
                "installation", f"a report needs {library}: run `pip install {library}`."
            )
    return results.check_writable(path)


def _title(runs: list[Run]) -> str:
    model = results.attribute(runs[0].fit, "model", "")
    names = len({run.name for run in runs})
    what = f"{names} samplers compared" if names > 1 else "one sampler"
    return f"{model}: {what}" if model else what.capitalize()


def _problems(runs: list[Run], judged: Standing) -> list[tuple[Run, int, bool, list[str]]]:
    """(run, its color, whether it can be used, sentences), of runs with any."""
    places = {name: i for i, name in enumerate(dict.fromkeys(run.name for run in runs))}
    found = [(run, problems(run, judged)) for run in runs]
    return [
        (run, places[run.name], not judged.objections[run.label], sentences)
        for run, sentences in found
        if sentences
    ]


def _about_reference(compared: Compared, judged: Standing) -> str:
    label = judged.reference.label
    if len(compared.runs) == 1:
        return ""
    if not judged.sound:
        return (
            f"No fit passes every check, so none is held against another; where a picture needs a "
            f"reference, it is {label}, which has the largest effective sample size."
        )
    if compared.baseline and judged.reference.name != compared.baseline:
        return (
            f"{compared.baseline}, the baseline, does not pass every check: the reference is "
            f"{label} instead."
        )
    return f"The reference that others are held against is {label}."


def _traced(shown: list[Run], judged: Standing) -> list[Run]:
    """Return the runs with traces: of very many, those that cannot be used, then the slowest."""

    def order(run: Run) -> tuple[bool, float]:
        usable = not judged.objections[run.label]
        return usable, float(np.nan_to_num(run.row["ess_bulk_min"], nan=-1.0))

    chosen = {run.label for run in sorted(shown, key=order)[:MOST_TRACED]}
    return [run for run in shown if run.label in chosen]


def _about_traces(runs: list[Run]) -> str:
    count = len({run.name for run in runs})
    if count <= MOST_TRACED:
        return ""
    return (
        f"Traces and ranks are shown of {MOST_TRACED} of {count} samplers: first those that cannot "
        "be used, then those with the smallest effective sample size."
    )


def _pictures(runs: list[Run], judged: Standing) -> list[Picture]:
    places = {name: i for i, name in enumerate(dict.fromkeys(run.name for run in runs))}
    shown, reference = representatives(runs), judged.reference
    shown = [reference if run.name == reference.name else run for run in shown]
    refused = [name for name in places if not judged.usable(runs, name)]
    with own_settings(), np.errstate(all="ignore"):
        found = [costs.draw(runs, refused)]
        if parameters(reference):
            found += [
                forest.draw(shown, reference, places),
                pairs.draw(shown, reference, places),
                running_error.draw(shown, reference, judged.sound, places),
            ]
        found += [traces.draw(run, places[run.name]) for run in _traced(shown, judged)]
        found.append(adaptation.draw(shown, places))
    return [picture for picture in found if picture is not None]
