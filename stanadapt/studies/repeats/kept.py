"""The folder of repeats: a tidy table as CSV and JSON, and the summary in LaTeX.

One sampler, one seed: draw, and measure what a comparison shows.
"""

import json
import os
import time
import warnings
from collections.abc import Callable, Collection
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from stanadapt import results
from stanadapt.diagnostics.compare import compare
from stanadapt.errors import ConvergenceWarning, StanadaptError
from stanadapt.studies.repeats.summary import MEASURES

# CmdStan 2.27 reads seeds as signed 32-bit integers
SEEDS = 2**31 - 1
# what would be wrong in every repeat ends the comparison instead
FATAL = ("settings", "sampler", "syntax", "data", "files", "installation")
# of a run that is not timed: enough warm-up for standardized coordinates
WARMUP, SAMPLING = 60, 4
# from the table of `compare`, under its names there
SAME = (
    "chains", "draws", "ess_bulk_min", "ess_tail_min", "ess_per_second", "ess_per_gradient",
    "r_hat_max", "gradients", "densities",
)  # fmt: skip
COLUMNS = (
    "sampler", "repeat", "seed", "verdict", "reasons", "failure", "chains", "draws", *MEASURES,
)  # fmt: skip


def seed_of(seed: int, repeat: int) -> int:
    """Seed of a repeat, whatever the number of repeats; all samplers share it."""
    drawn = np.random.SeedSequence([seed, repeat]).generate_state(1, np.uint32)[0]
    return int(drawn) % SEEDS


def compile_first(draw: Callable[..., Any], iter_warmup: int | None) -> None:
    """Run a sampler briefly: what it compiles or loads on the way is not to be timed later."""
    warmup = WARMUP if iter_warmup is None else min(iter_warmup, WARMUP)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            fit = draw(seed=0, iter_warmup=warmup, iter_sampling=SAMPLING, thin=1)
        except StanadaptError as error:  # reported by the run that counts
            _raise_if_interrupted(error)
            return
    if results.attribute(fit, "interrupted", 0) == 1:
        raise KeyboardInterrupt


def _raise_if_interrupted(error: StanadaptError) -> None:
    if error.message.startswith("interrupted"):  # there was no draw yet
        raise KeyboardInterrupt from None


def make_row(
    name: str,
    repeat: int,
    seed: int,
    draw: Callable[..., Any],
    var_names: Collection[str] | None,
    compiled_before: float,
    quiet: bool,
) -> dict[str, Any]:
    """Draw with one seed, and return the row of the tidy table.

    Parameters
    ----------
    draw
        Takes a seed, and returns a fit.
    compiled_before
        Seconds of compilation that the fit records although they were spent earlier.
    quiet
        Whether its warnings have been seen; verdicts are in the row in any case.

    Raises
    ------
    StanadaptError
        Where every repeat would fail for the same reason.
    KeyboardInterrupt
        After Ctrl-C, also if the fit has some draws.

    """
    row = {"sampler": name, "repeat": repeat, "seed": seed, "failure": "", "reasons": ""}
    began = time.perf_counter()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning if quiet else ConvergenceWarning)
        try:
            fit = draw(seed=seed)
        except StanadaptError as error:
            _raise_if_interrupted(error)
            if error.stage in FATAL:
                raise
            empty = dict.fromkeys((*SAME, *MEASURES), np.nan)
            return _ordered(row | empty | {"verdict": "", "failure": " ".join(str(error).split())})
    if results.attribute(fit, "interrupted", 0) == 1:
        raise KeyboardInterrupt
    spent = time.perf_counter() - began
    table = compare({name: fit}, show=False, var_names=var_names)
    line = table.iloc[0]
    compiling = max(float(line["seconds_compile"]) - compiled_before, 0.0)
    measured = {measure: _plain(line[measure]) for measure in SAME}
    return _ordered({
        **row, **measured,
        "verdict": line["verdict"],
        "reasons": " ".join(table.attrs["reasons"][name]),
        "wall_seconds": max(spent - compiling, 0.0),
        "seconds": float(line["seconds_warmup"] + line["seconds_sampling"]),
    })  # fmt: skip


def _plain(value: Any) -> float | int:
    number = float(value)
    return int(number) if number.is_integer() else number


def _ordered(row: dict[str, Any]) -> dict[str, Any]:
    return {name: row[name] for name in COLUMNS}


FORMAT, SCHEMA = "stanadapt repeats", 2
JSON, CSV, LATEX, PICTURE = "repeats.json", "repeats.csv", "summary.tex", "repeats.pdf"
# what must be the same for rows to belong together, beside targets and samplers in common
SHARED = ("versions", "settings")
ROW = ("target", *COLUMNS)


class KeptRepeats:
    """Rows of a comparison, written to a folder after each repeat, if there is one.

    Parameters
    ----------
    out
        Folder; None: rows are kept in memory only.
    origin
        Versions, settings, targets and the samplers' settings, as plain values.
    force
        Begin anew, whatever the folder holds.

    Raises
    ------
    StanadaptError
        Stage "files", where the folder holds another comparison, or cannot be used.

    """

    def __init__(self, out: str | PathLike | None, origin: dict[str, Any], force: bool) -> None:
        self.folder = None if out is None else results.as_path(out)
        self.origin = json.loads(json.dumps(origin))  # as it will be read back
        self.rows: list[dict[str, Any]] = []
        if self.folder is None:
            return
        path = results.check_writable(self.folder / JSON)
        if path.exists() and not force:
            self._go_on_with(_read(path))

    def _go_on_with(self, found: dict[str, Any]) -> None:
        other = [name for name in SHARED if found[name] != self.origin[name]]
        known, own = found["samplers"], self.origin["samplers"]
        targets, ours = found["targets"], self.origin["targets"]
        differing = [
            f"{part}.{name} ({found[part].get(name)} there, {self.origin[part].get(name)} here)"
            for part in other
            for name in {**found[part], **self.origin[part]}
            if found[part].get(name) != self.origin[part].get(name)
        ]
        differing += [
            f"target.{name} of {target} ({targets[target].get(name)} there, {value} here)"
            for target in ours.keys() & targets.keys()
            for name, value in ours[target].items()
            if targets[target].get(name) != value
        ]
        differing += [f"settings of {n}" for n in own if n in known and known[n] != own[n]]
        if differing:
            raise StanadaptError(
                "files",
                f"{self.folder} holds repeats of another comparison, with another "
                f"{', '.join(differing)}. Name another folder, or begin anew there: --force "
                "(force=True).",
            )
        self.origin["samplers"], self.origin["targets"] = {**known, **own}, {**targets, **ours}
        self.rows = [{name: _number(row[name]) for name in ROW} for row in found["rows"]]

    def has(self, target: str, sampler: str, repeat: int) -> bool:
        """Whether a repeat was made, failed or not."""
        wanted = (target, sampler, repeat)
        return any((row["target"], row["sampler"], row["repeat"]) == wanted for row in self.rows)

    def add(self, row: dict[str, Any]) -> None:
        """Add a row, and write all of them."""
        self.rows.append(row)
        self.write()

    def write(self, latex: str | None = None, picture: bytes | None = None) -> None:
        """Write the tidy table, and the summary and its picture if there are any yet."""
        if self.folder is None:
            return
        rows = [{name: _storable(value) for name, value in one.items()} for one in self.rows]
        content = {"format": FORMAT, "schema": SCHEMA, **self.origin, "rows": rows}
        self._write(JSON, json.dumps(content, indent=1, allow_nan=False) + "\n")
        self._write(CSV, self.table().to_csv(index=False))
        if latex is not None:
            self._write(LATEX, latex)
        if picture is not None:
            self._write(PICTURE, picture)

    def table(self) -> pd.DataFrame:
        """The tidy table: one row per target, sampler and repeat."""
        return pd.DataFrame(self.rows, columns=list(ROW))

    def _write(self, name: str, content: str | bytes) -> None:
        """Under another name first: an interruption leaves the old file intact."""
        assert self.folder is not None
        partial = self.folder / f".{name}.{os.getpid()}.partial"
        try:
            partial.write_bytes(content.encode() if isinstance(content, str) else content)
            partial.replace(self.folder / name)
        except OSError as error:
            raise StanadaptError(
                "files", f"{self.folder / name} could not be written: {error}."
            ) from None
        finally:
            partial.unlink(missing_ok=True)


def seed_in(out: str | PathLike) -> int | None:
    """Seed of the comparison that a folder holds; None without one."""
    path = results.as_path(out) / JSON
    return _read(path)["settings"]["seed"] if path.exists() else None


def _read(path: Path) -> dict[str, Any]:
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
        if found["format"] != FORMAT or found["schema"] != SCHEMA:
            raise ValueError("another format")
        if missing := [n for n in (*SHARED, "targets", "samplers", "rows") if n not in found]:
            raise ValueError(f"it lacks {', '.join(missing)}")
        if any(set(row) != set(ROW) for row in found["rows"]):
            raise ValueError("its rows have other columns")
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise StanadaptError(
            "files",
            f"{path} is not a file of repeats that can be gone on with: {error}. Name another "
            "folder, or begin anew there: --force (force=True).",
        ) from None
    return found


def _storable(value: Any) -> Any:
    """NaN as null, which JSON has."""
    return None if isinstance(value, float) and not np.isfinite(value) else value


def _number(value: Any) -> Any:
    return np.nan if value is None else value
