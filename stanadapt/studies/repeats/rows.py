"""The rows of a repeated comparison: how one is measured, and the folder that stores them."""

import json
import time
import warnings
from collections.abc import Callable, Collection
from typing import Any

import numpy as np
import pandas as pd

from stanadapt import results
from stanadapt.diagnostics.compare import bias, compare, counted_variables
from stanadapt.diagnostics.mixing import Efficiency, efficiency, mixing_of
from stanadapt.errors import ConvergenceWarning, StanadaptError
from stanadapt.studies.repeats.summary import ERRORS, MEASURES
from stanadapt.studies.stored_rows import StoredRows

# --- one repeat ----------------------------------------------------------------------------------

SEEDS = 2**31 - 1  # CmdStan 2.27 reads seeds as signed 32-bit integers
# lengths of a run that only compiles: enough warm-up to learn standardized coordinates
WARMUP, SAMPLING = 60, 4
REFERENCE = "reference draws"
# taken from the table of `compare`, under the names there
COMPARED = (
    "chains", "draws", "ess_bulk_min", "ess_tail_min", "ess_per_second", "ess_per_gradient",
    "r_hat_max", "gradients", "densities",
)  # fmt: skip
COLUMNS = (
    "sampler", "repeat", "seed", "verdict", "reasons", "failure", "chains", "draws", *MEASURES,
)  # fmt: skip


def repeat_seed(seed: int, repeat: int) -> int:
    """Return the seed of a repeat: all samplers share it, and later repeats do not change it."""
    drawn = np.random.SeedSequence([seed, repeat]).generate_state(1, np.uint32)[0]
    return int(drawn) % SEEDS


def compile_first(draw: Callable[..., Any], iter_warmup: int | None) -> None:
    """Run a sampler briefly, so that later runs are timed without compilation and loading."""
    warmup = WARMUP if iter_warmup is None else min(iter_warmup, WARMUP)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            _draw_all(draw, seed=0, iter_warmup=warmup, iter_sampling=SAMPLING, thin=1)
        except StanadaptError:
            return  # the run that counts will report it


def _draw_all(draw: Callable[..., Any], **options: Any) -> Any:
    """Return a fit; KeyboardInterrupt after Ctrl-C, also if it has some draws."""
    try:
        fit = draw(**options)
    except StanadaptError as error:
        if error.code == "interrupted":
            raise KeyboardInterrupt from None
        raise
    if results.attribute(fit, "interrupted", 0) == 1:
        raise KeyboardInterrupt
    return fit


def make_row(
    name: str,
    repeat: int,
    seed: int,
    draw: Callable[..., Any],
    var_names: Collection[str] | None,
    compiled_before: float,
    quiet: bool,
    reference: Any = None,
    recurring: tuple[str, ...] = ("data",),
    clock: Callable[[], float] = time.perf_counter,
) -> dict[str, Any]:
    """Draw with one seed, and return the row of the tidy table.

    `compiled_before` are seconds of compilation that the fit records although they were spent
    earlier; `quiet` suppresses warnings other than verdicts, which are in the row in any case.
    `reference` has draws of the same target, against which errors are measured.
    Errors of the stages `recurring` would recur in every run of the study, and are raised; as is
    KeyboardInterrupt after Ctrl-C, also if the fit has some draws.
    """
    row = {"sampler": name, "repeat": repeat, "seed": seed, "failure": "", "reasons": ""}
    began = clock()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning if quiet else ConvergenceWarning)
        try:
            fit = _draw_all(draw, seed=seed)
        except StanadaptError as error:
            if error.recurs(*recurring):
                raise
            empty = dict.fromkeys((*COMPARED, *MEASURES), np.nan)
            return _order(row | empty | {"verdict": "", "failure": " ".join(str(error).split())})
    spent = clock() - began
    table = compare({name: fit}, var_names=var_names)
    line = table.iloc[0]
    compiling = max(float(line["seconds_compile"]) - compiled_before, 0.0)
    numbers = {measure: float(line[measure]) for measure in COMPARED}
    measured = {name: int(x) if x.is_integer() else x for name, x in numbers.items()}
    fits = {name: fit} if reference is None else {name: fit, REFERENCE: reference}
    errors = bias(*_moments(fits, var_names)) if len(fits) > 1 else (np.nan, np.nan)
    return _order({
        **row, **measured,
        "verdict": line["verdict"],
        "reasons": " ".join(table.attrs["reasons"][name]),
        "wall_seconds": max(spent - compiling, 0.0),
        "seconds": float(line["seconds_warmup"] + line["seconds_sampling"]),
        **dict(zip(ERRORS, errors, strict=True)),
    })  # fmt: skip


def _moments(fits: dict[str, Any], var_names: Collection[str] | None) -> list[Efficiency]:
    wanted = counted_variables(fits, var_names)
    return [
        efficiency(results.columns(fit, wanted=wanted), measure=mixing_of(fit))
        for fit in fits.values()
    ]


def _order(row: dict[str, Any]) -> dict[str, Any]:
    return {name: row[name] for name in COLUMNS}


# --- the folder ----------------------------------------------------------------------------------

FORMAT, SCHEMA = "stanadapt repeats", 3
JSON, CSV, LATEX, PICTURE = "repeats.json", "repeats.csv", "summary.tex", "repeats.pdf"
SHARED = ("versions", "settings")  # equal in all rows, as are targets and samplers in common
ROW = ("target", *COLUMNS)


class RepeatRows(StoredRows):
    """Rows of a comparison, and the files in its folder, which are written after each repeat.

    The origin has versions, settings, targets and the samplers' settings, as plain values.
    """

    study, file = "comparison", JSON
    remedy = "Name another folder, or start over there: --force (overwrite=True)."

    def differences(self, stored: dict[str, Any]) -> list[str]:
        """Name the settings that differ, with both values if they are short."""
        differences = [
            f"{part}.{name} ({stored[part].get(name)} there, {self.origin[part].get(name)} here)"
            for part in SHARED
            for name in {**stored[part], **self.origin[part]}
            if stored[part].get(name) != self.origin[part].get(name)
        ]
        old_targets, targets = stored["targets"], self.origin["targets"]
        differences += [
            f"target.{name} of {target} ({old_targets[target].get(name)} there, {value} here)"
            for target in targets.keys() & old_targets.keys()
            for name, value in targets[target].items()
            if old_targets[target].get(name) != value
        ]
        old_samplers = stored["samplers"]
        return differences + [
            f"settings of {name}"
            for name, settings in self.origin["samplers"].items()
            if name in old_samplers and old_samplers[name] != settings
        ]

    def merged(self, stored: dict[str, Any]) -> dict[str, Any]:
        """Add the samplers and targets of earlier rows."""
        grown = {part: {**stored[part], **self.origin[part]} for part in ("samplers", "targets")}
        return self.origin | grown

    def has(self, target: str, sampler: str, repeat: int) -> bool:
        """Return whether a repeat was made, failed or not."""
        made = ((row["target"], row["sampler"], row["repeat"]) for row in self.rows)
        return (target, sampler, repeat) in made

    def add(self, row: dict[str, Any]) -> None:
        """Add a row, and write the files."""
        self.rows.append(row)
        self.write()

    def write(self) -> None:
        """Write the tidy table."""
        rows = [  # JSON has neither NaN nor infinity
            {n: None if isinstance(x, float) and not np.isfinite(x) else x for n, x in row.items()}
            for row in self.rows
        ]
        content = {"format": FORMAT, "schema": SCHEMA, **self.origin, "rows": rows}
        self.write_file(JSON, json.dumps(content, indent=1, allow_nan=False) + "\n")
        self.write_file(CSV, self.table().to_csv(index=False))

    def table(self) -> pd.DataFrame:
        """Return the tidy table: one row per target, sampler and repeat."""
        return pd.DataFrame(self.rows, columns=list(ROW))

    def decoded(self, text: str) -> tuple[dict[str, Any], list[dict[str, Any]]]:
        """Read the JSON file: null is NaN, which JSON lacks."""
        content = json.loads(text)
        if content["format"] != FORMAT or content["schema"] != SCHEMA:
            raise ValueError("another format")
        origin = {name: content[name] for name in (*SHARED, "targets", "samplers")}
        origin["seed"] = content["settings"]["seed"]
        if any(set(row) != set(ROW) for row in content["rows"]):
            raise ValueError("its rows have other columns")
        return origin, [
            {name: np.nan if row[name] is None else row[name] for name in ROW}
            for row in content["rows"]
        ]
