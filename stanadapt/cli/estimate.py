"""Commands that compute from a saved fit: `summary`, `expectations` and `generate`."""

import json
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import typer

from stanadapt import results
from stanadapt.cli import options
from stanadapt.cli.options import options_of
from stanadapt.cli.signature import Given, Option, command, read_names
from stanadapt.cli.terminal import load_all, require_writable, save
from stanadapt.diagnostics.summary import summary as summarize
from stanadapt.errors import StanadaptError
from stanadapt.results import write_text
from stanadapt.runs.generate import generate as predict
from stanadapt.runs.generate import on_backend_of, plan_predictions
from stanadapt.runs.load import load
from stanadapt.studies.expectations.expectations import expectations as estimate
from stanadapt.studies.optimize import optimize as climb
from stanadapt.studies.optimize import plan_climbs

NAMES = Option(
    "Variables to show, separated by commas; arrays are then printed in full.",
    str | None,
    read_names,
)


@command(shown=options_of(summarize, "var_names", "probabilities", var_names=NAMES))
def summary(
    fits: list[Path],
    *,
    shown: Given,
    out: Path | None = None,
    as_json: bool = False,
    as_csv: bool = False,
    force: bool = False,
) -> None:
    if as_json and as_csv:
        raise StanadaptError("options_conflict", "give only one of --json and --csv.")
    (path,) = require_writable([out], force) if out is not None else (None,)
    drawn = load_all(fits)
    table = summarize(drawn if len(fits) > 1 else drawn.popitem()[1], **shown)
    labels = ["element", "fit"][: table.index.nlevels]
    if as_csv:
        print(table.to_csv(index_label=labels), end="")
    else:
        print(_as_json(table) if as_json else table)
    if path is not None:
        _write(table, path, as_json, labels, as_json or as_csv)


@command(
    plan=options_of(estimate, "of", "probabilities", "show_progress", of=NAMES),
    target=options_of(options.Target, "include_paths", "backend", "unsafe"),
)
def expectations(
    fit: Path,
    *,
    model: str,
    data: str | None = None,
    plan: Given,
    target: Given,
    out: Path | None = None,
    force: bool = False,
) -> None:
    (path,) = require_writable([out], force) if out is not None else (None,)
    drawn = load(fit)
    quiet = {"show_progress": plan["show_progress"]}
    found = estimate(drawn, options.make_target(model, data, **target, **quiet), **plan)
    print(found)
    if path is not None:
        _write(found, path, False, ["element"])


@command(
    plan=options_of(predict, leave_out=("fit", "target", "data", "parallel_chains")),
    target=options_of(options.Target, "include_paths", "backend", "unsafe", "labels"),
)
def generate(
    fit: Path,
    *,
    model: str | None = None,
    data: Path | None = None,
    plan: Given,
    target: Given,
    out: Path | None = Path("predictions.nc"),
    float32: bool = False,
    force: bool = False,
) -> None:
    assert out is not None
    (path,) = require_writable([out], force or out == fit)
    drawn, program = load(fit), None if model is None else options.program_path(model)
    plan_predictions(drawn, **plan)
    make = partial(
        options.Target.of_fit, drawn, program, data, show_progress=plan["show_progress"], **target
    )
    bound = on_backend_of(drawn, make) if target["backend"] == "auto" else make()
    save(predict(drawn, bound, **plan), path, float32=float32)
    found = results.dataset(drawn, "predictions")
    for name, variable in found.data_vars.items():
        print(f"{name}: {' x '.join(str(size) for size in variable.shape)}")
    print(f"group predictions of {path}")
    if found.sizes["draw"] < results.dataset(drawn, "posterior").sizes["draw"]:
        raise KeyboardInterrupt


@command(
    plan=options_of(
        climb, leave_out=("target",),
        jacobian=Option("Add the Jacobian: the mode on the unconstrained scale.", bool),
    ),
    target=options.PLAIN_TARGET,
)  # fmt: skip
def optimize(
    model: str,
    *,
    data: str | None = None,
    plan: Given,
    target: Given,
    as_json: bool = False,
    out: Path | None = None,
    force: bool = False,
) -> None:
    (path,) = require_writable([out], force) if out is not None else (None,)
    plan_climbs(**plan)
    found = climb(options.make_target(model, data, **target), **plan)
    print(_as_json(found) if as_json else found)
    if path is not None:
        _write(found, path, as_json, None, as_json)


def _write(
    table: pd.DataFrame, path: Path, as_json: bool, labels: Any, to_program: bool = False
) -> None:
    """Write a table, as JSON if asked for or if its name ends in .json, and print its path."""
    if path.suffix == ".json" or (as_json and path.suffix != ".csv"):
        write_text(path, _as_json(table) + "\n")
    else:
        table.to_csv(path, index_label=labels)
    typer.echo(f"table: {path}", err=to_program)  # a program reads standard output


def _as_json(table: pd.DataFrame) -> str:
    """Return JSON with all digits; null for what cannot be computed."""
    rows: dict[str, Any] = {}
    for name, row in table.astype(float).iterrows():
        values = {column: value if np.isfinite(value) else None for column, value in row.items()}
        if isinstance(name, tuple):  # of several fits
            rows.setdefault(str(name[0]), {})[str(name[1])] = values
        else:
            rows[str(name)] = values
    return json.dumps(rows, indent=2)
