"""The page of a report: its templates, and the origin of the fits.

The origin lists settings, seeds, versions and hashes: all that is needed to reproduce the fits.
"""

import json
from datetime import UTC, datetime
from importlib.metadata import version
from importlib.resources import files
from typing import Any, NamedTuple

import numpy as np

from stanadapt import results
from stanadapt.studies.report.canvas import HUES
from stanadapt.studies.report.fits import ReportedFit

HERE = "stanadapt.studies.report"


def render(template: str = "page.html", **content: Any) -> str:
    """Return the page as HTML; all text in `content` is escaped except for pictures and styles."""
    from jinja2 import Environment, FunctionLoader, StrictUndefined

    environment = Environment(
        loader=FunctionLoader(_read), autoescape=True, undefined=StrictUndefined,
        trim_blocks=True, lstrip_blocks=True,
    )  # fmt: skip
    return environment.get_template(template).render(style=_read("style.css"), hues=HUES, **content)


def _read(name: str) -> str:
    return files(HERE).joinpath(name).read_text(encoding="utf-8")


# titles of the attributes of a fit
FIELDS = {
    "model": "program",
    "program_hash": "hash of the program",
    "data_hash": "hash of the data",
    "sampler": "sampler",
    "engine": "engine",
    "settings": "settings",
    "seed": "seed",
    "iter_warmup": "warm-up iterations requested",
    "warmup_iterations": "warm-up iterations used",
    "warmup_climbs": "rounds of climbing in warm-up",
    "warmup_returns": "chains that returned to their start",
    "warmup_moves": "chains that left a mode of far less mass",
    "climbs_there": "climbs and chains that ended where they went",
    "iter_sampling": "sampling iterations",
    "thin": "thin",
    "chains_kept": "chains kept",
    "standardized": "standardized",
    "backend": "backend",
    "backend_version": "version of the backend",
    "density_verified": "check of the density",
    "inference_library": "library",
    "inference_library_version": "version of the library",
    "versions": "other versions",
    "created_at": "created at",
}
OURS = ("stanadapt", "arviz", "matplotlib", "numpy")  # libraries that made the page


class Origin(NamedTuple):
    shared: list[tuple[str, str]]  # title and value of the fields that all fits share
    labels: list[str]  # names of the fits
    different: list[tuple[str, list[str]]]  # title of the other fields, with a value per fit
    page: str  # versions of the libraries that made the page


def origin(runs: list[ReportedFit]) -> Origin:
    """Collect the origin of the fits from their attributes."""
    shared, different = [], []
    for name, title in FIELDS.items():
        values = [_format(results.attribute(run.fit, name)) for run in runs]
        if name == "created_at":
            values = [_to_the_second(value) for value in values]
        if not any(values):
            continue
        if len(set(values)) == 1:
            shared.append((title, values[0]))
        else:
            different.append((title, [value or "–" for value in values]))
    page = ", ".join(f"{name} {version(name)}" for name in OURS)
    return Origin(shared, [run.label for run in runs], different, page)


def _to_the_second(time: str) -> str:
    """Write a time of ISO 8601 with blanks, at which lines can break; leave other text alone."""
    try:
        moment = datetime.fromisoformat(time)
    except ValueError:
        return time
    has_zone = moment.tzinfo is not None
    moment = moment.astimezone(UTC) if has_zone else moment
    return f"{moment:%Y-%m-%d %H:%M:%S}{' UTC' if has_zone else ''}"


def _format(value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, str) and value.startswith(("{", "[")):
        try:
            value = json.loads(value)
        except ValueError:
            return value
    if isinstance(value, dict):
        return ", ".join(f"{key} = {item}" for key, item in value.items())
    if isinstance(value, list | np.ndarray):
        return ", ".join(str(item) for item in value)
    return str(value)
