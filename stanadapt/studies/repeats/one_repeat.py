"""One sampler, one seed: draw, and measure what a comparison shows."""

import time
import warnings
from collections.abc import Callable, Collection
from typing import Any

import numpy as np

from stanadapt import results
from stanadapt.diagnostics.compare import compare
from stanadapt.errors import ConvergenceWarning, StanadaptError
from stanadapt.studies.repeats.summary import MEASURES

# CmdStan 2.27 reads seeds as signed 32-bit integers
SEEDS = 2**31 - 1
# what would be wrong in every repeat ends the comparison instead
FATAL = ("settings", "sampler", "syntax", "data", "files", "installation")
# of a run that is not timed: enough warm-up for standardised coordinates
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
