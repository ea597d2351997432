"""Commands that print estimates of a saved fit: `summary` and `expectations`."""

import json
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import pandas as pd
import typer

from stanadapt.cli import options
from stanadapt.cli.options import options_of
from stanadapt.cli.signature import Given, Option, command, read_names
from stanadapt.cli.terminal import names_of, require_writable
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
    fits: Annotated[
        list[Path],
        typer.Argument(
            help="Saved fits, in any of the formats of `sample`; the estimates of several are "
            "listed together."
        ),
    ],
    *,
    shown: Given,
    out: options.Table = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON, by element.")] = False,
    as_csv: Annotated[bool, typer.Option("--csv", help="Print CSV, by element.")] = False,
    force: options.Force = False,
) -> None:
    (path,) = require_writable([out], force) if out is not None else (None,)
    drawn = dict(zip(names_of(fits), map(load, fits), strict=True))
    table = summarize(drawn if len(fits) > 1 else drawn.popitem()[1], **shown)
    labels = ["element", "fit"][: table.index.nlevels]
    if as_csv:
        print(table.to_csv(index_label=labels), end="")
    else:
        print(_as_json(table) if as_json else table)
    if path is not None:
        table.to_csv(path, index_label=labels)
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
    rows: dict[str, Any] = {}
    for name, row in table.astype(float).iterrows():
        values = {column: None if np.isnan(value) else value for column, value in row.items()}
        if isinstance(name, tuple):  # of several fits
            rows.setdefault(str(name[0]), {})[str(name[1])] = values
        else:
            rows[str(name)] = values
    return json.dumps(rows, indent=2)
