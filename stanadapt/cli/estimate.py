"""Commands that print estimates of a saved fit: `summary` and `expectations`."""

import json
from pathlib import Path
from typing import Annotated

import numpy as np
import pandas as pd
import typer

from stanadapt.cli import options
from stanadapt.cli.options import options_of
from stanadapt.cli.signature import Given, Option, command, read_names
from stanadapt.cli.terminal import require_writable
from stanadapt.diagnostics.summary import summary as summarize
from stanadapt.runs.load import load
from stanadapt.studies.expectations.expectations import expectations as estimate

File = Annotated[
    Path,
    typer.Argument(
        help="A saved fit: a netCDF file, a folder of CSV files, a zarr store, or the folder of a "
        "run."
    ),
]
NAMES = Option(
    "Variables to show, separated by commas; arrays are then printed in full.",
    str | None,
    ("--vars",),
    read_names,
)


@command(shown=options_of(summarize, "var_names", var_names=NAMES))
def summary(
    fit: File,
    *,
    shown: Given,
    out: options.Table = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON, by element.")] = False,
    force: options.Force = False,
) -> None:
    (path,) = require_writable([out], force) if out is not None else (None,)
    table = summarize(load(fit), **shown)
    print(_as_json(table) if as_json else table)
    if path is not None:
        table.to_csv(path, index_label="element")
        print(f"table: {path}")


@command(
    plan=options_of(estimate, "of", "show_progress", of=NAMES),
    target=options_of(options.Target, "include_paths", "backend", "unsafe"),
)
def expectations(
    fit: File,
    *,
    model: Annotated[
        str, typer.Option(help="The program of the fit: a .stan file, or a bundled program.")
    ],
    data: options.Data = None,
    plan: Given,
    target: Given,
    out: options.Table = None,
    force: options.Force = False,
) -> None:
    (path,) = require_writable([out], force) if out is not None else (None,)
    drawn = load(fit)
    quiet = {"show_progress": plan["show_progress"]}
    found = estimate(drawn, options.make_target(model, data, **target, **quiet), **plan)
    print(found)
    if path is not None:
        found.table.to_csv(path, index_label="element")
        print(f"table: {path}")


def _as_json(table: pd.DataFrame) -> str:
    """Return JSON with all digits; null for what cannot be computed."""
    rows = {
        str(name): {column: None if np.isnan(value) else value for column, value in row.items()}
        for name, row in table.astype(float).iterrows()
    }
    return json.dumps(rows, indent=2)
