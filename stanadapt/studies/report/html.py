"""Settings, seeds, versions and hashes: what is needed to make the fits of a report again.

The page: a template, a style sheet, and what goes into them.
"""

import json
from datetime import UTC, datetime
from importlib.metadata import version
from importlib.resources import files
from typing import Any, NamedTuple

import numpy as np

from stanadapt import results
from stanadapt.studies.report.fits import Run
from stanadapt.studies.report.palette import HUES

HERE = "stanadapt.studies.report"


def page(template: str = "page.html", **content: Any) -> str:
    """Return the page as HTML; all text in `content` is escaped, but for pictures and styles."""
    from jinja2 import Environment, FunctionLoader, StrictUndefined

    maker = Environment(
        loader=FunctionLoader(_text), autoescape=True, undefined=StrictUndefined,
        trim_blocks=True, lstrip_blocks=True,
    )  # fmt: skip
    return maker.get_template(template).render(style=_text("style.css"), hues=HUES, **content)


def _text(name: str) -> str:
    return files(HERE).joinpath(name).read_text(encoding="utf-8")


# attributes of a fit, by the words that a reader knows
FIELDS = {
    "model": "program",
    "program_hash": "hash of the program",
    "data_hash": "hash of the data",
    "sampler": "sampler",
    "engine": "engine",
    "settings": "settings",
    "seed": "seed",
    "iter_warmup": "warm-up iterations asked for",
    "warmup_iterations": "warm-up iterations used",
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
    "created_at": "made at",
}
OURS = ("stanadapt", "arviz", "matplotlib", "numpy")  # of the page, not of the fits


class Origin(NamedTuple):
    """What all fits share, as (words, value); then one row per field, one value per fit."""

    shared: list[tuple[str, str]]
    labels: list[str]
    different: list[tuple[str, list[str]]]
    page: str


def origin(runs: list[Run]) -> Origin:
    """Read where the fits come from."""
    shared, different = [], []
    for name, words in FIELDS.items():
        values = [_words(results.attribute(run.fit, name)) for run in runs]
        if name == "created_at":
            values = [_to_the_second(value) for value in values]
        if not any(values):
            continue
        if len(set(values)) == 1:
            shared.append((words, values[0]))
        else:
            different.append((words, [value or "–" for value in values]))
    page = ", ".join(f"{name} {version(name)}" for name in OURS)
    return Origin(shared, [run.label for run in runs], different, page)


def _to_the_second(time: str) -> str:
    """Write a time of ISO 8601 with blanks, where a line can break; leave other text as it is."""
    try:
        read = datetime.fromisoformat(time)
    except ValueError:
        return time
    zone = read.tzinfo is not None
    read = read.astimezone(UTC) if zone else read
    return f"{read:%Y-%m-%d %H:%M:%S}{' UTC' if zone else ''}"


def _words(value: Any) -> str:
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
