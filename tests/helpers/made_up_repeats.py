"""Rows of repeats with given numbers."""

import math

import pandas as pd

from stanadapt.studies.repeats.rows import COLUMNS


def row(sampler, repeat, value=1.0, **changes):
    """Build a row with `value` for every measure but errors, which need a reference."""
    fixed = {
        "sampler": sampler, "repeat": repeat, "seed": 7, "verdict": "fine", "reasons": "",
        "failure": "", "chains": 4, "draws": 100, "error_mean": math.nan, "error_sd": math.nan,
    }  # fmt: skip
    return {**dict.fromkeys(COLUMNS, value), **fixed, **changes}


def table(*rows):
    return pd.DataFrame(list(rows), columns=list(COLUMNS))
