"""Run every method several times on a target; medians and ranges over the repeats."""

import contextlib
import warnings
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

import stanadapt as sa
from stanadapt import results
from stanadapt.results import arviz_module, columns
from workflows import record, terminal
from workflows.gad.methods import DEFAULT, Length, draw
from workflows.gad.published import ess_of_chain
from workflows.gad.traces import Trace, trace_of

MEASURES = (
    "acceptance", "ess_min", "ess_median", "ess_max", "bulk_min", "bulk_median", "bulk_max",
    "warmup_seconds", "seconds", "min_ess_per_second", "gradients", "densities",
    "min_ess_per_gradient",
)  # fmt: skip
# of these nothing need be compiled before the clock runs
OTHERS = (DEFAULT, "NUTS")
# CmdStan 2.27 reads seeds as signed 32-bit integers, although `stan_nuts` accepts larger ones
LARGEST_SEED = 2**31 - 1


class Job(NamedTuple):
    """One chain to run: name of the data, a method of `methods.NAMES`, number of the repeat."""

    data: str
    method: str
    repeat: int
    length: Length


def run(
    jobs: list[Job],
    targets: dict[str, sa.Target],
    seed: int,
    engine: str,
    traces: dict[tuple[str, str], Trace] | None = None,
    draw: Callable[..., Any] = draw,
) -> tuple[pd.DataFrame, list[str]]:
    """Run the jobs one after another, so that none is timed while another runs.

    If `traces` is given, that of the first repeat is added to it, by data and method.

    Returns
    -------
    rows, notes
        One row per job, with NaN measures if it failed; and messages for the reader. After
        Ctrl-C: the jobs that were done.
    """
    rows, notes = [], {}
    try:
        for job in terminal.each(jobs, lambda job: f"{job.data} {job.method} {job.repeat + 1}"):
            if job.method not in OTHERS and job.repeat == 0:
                _warm(job, targets[job.data], draw)
            row, messages = _measured(job, targets[job.data], seed, engine, traces, draw)
            rows.append(row)
            for message in messages:
                notes.setdefault((job.data, job.method), message)
    except KeyboardInterrupt:
        notes["", ""] = f"interrupted after {len(rows)} of {len(jobs)} chains."
    table = pd.DataFrame(rows)
    return table, [*_failures(table), *_merged(notes)]


def _failures(rows: pd.DataFrame) -> Iterator[str]:
    """One message per method with failed repeats: how many, and why the first one failed."""
    if rows.empty:
        return
    for (data, method), group in rows.groupby(["data", "method"], sort=False):
        failed = group[group["failure"] != ""]
        if len(failed):
            reason = failed["failure"].iloc[0]
            yield (
                f"{data} {method}: {len(failed)} of {len(group)} repeats failed and are left out: "
                f"{reason}"
            )


def _merged(notes: dict[tuple[str, str], str]) -> Iterator[str]:
    """Each message once, after the names of the methods that share it."""
    for message in dict.fromkeys(notes.values()):
        about = [f"{data} {method}" for (data, method), text in notes.items() if text == message]
        yield f"{', '.join(about)}: {message}" if about != [" "] else message


def _warm(job: Job, target: sa.Target, draw: Callable[..., Any]) -> None:
    """Compile all of a sampler, so that the first timed warm-up does not compile `freeze`."""
    # reported by the run that counts
    with contextlib.suppress(sa.StanadaptError), warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        draw(job.method, target, Length(1, 1), 0, np.zeros(target.dim), "auto")


def _measured(
    job: Job,
    target: sa.Target,
    seed: int,
    engine: str,
    traces: dict | None,
    draw: Callable[..., Any],
) -> tuple[dict[str, Any], list[str]]:
    """Run one job; all methods of one repeat share the starting position and the seed."""
    start = np.random.default_rng([seed, job.repeat]).standard_normal(target.dim)
    drawn = np.random.SeedSequence([seed, job.repeat]).generate_state(1)[0]
    own_seed = int(drawn % LARGEST_SEED)
    row = {
        "data": job.data, "method": job.method, "repeat": job.repeat, "seed": own_seed,
        "warmup": job.length.warmup, "draws": job.length.draws, "density": "", "failure": "",
    }  # fmt: skip
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", UserWarning)
        # a short or stuck chain shows in its ESS, which is measured
        warnings.simplefilter("ignore", sa.ConvergenceWarning)
        keep = traces is not None and job.repeat == 0 and job.method != DEFAULT
        try:
            fit = draw(job.method, target, job.length, own_seed, start, engine, keep)
        except sa.StanadaptError as error:
            if error.code == "interrupted":
                raise KeyboardInterrupt from None  # Ctrl-C during warm-up
            reason = " ".join(str(error).split())
            return row | dict.fromkeys(MEASURES, np.nan) | {"failure": reason}, []
    if fit.attrs["interrupted"]:
        raise KeyboardInterrupt
    if keep:
        traces[job.data, job.method] = trace_of(fit, target)
    notes = [str(w.message) for w in caught if issubclass(w.category, UserWarning)]
    density = fit.attrs.get("engine") or fit.attrs["backend_version"]
    return row | _measures(fit) | {"density": density}, notes


def _measures(fit: Any) -> dict[str, float]:
    """The numbers of `MEASURES` for a fit; effective sample sizes are sums over its chains."""
    draws = list(columns(fit).values())
    ours = _smallest_middle_largest(
        [sum(_ess(x, ess_of_chain) for x in chains) for chains in draws]
    )
    bulk = _smallest_middle_largest([sum(_ess(x, _bulk) for x in chains) for chains in draws])
    warmup = float(np.sum(results.attribute(fit, "warmup_seconds")))
    seconds = record.seconds_of(fit)
    gradients = int(fit.attrs["n_gradients"])
    values = (
        float(fit["sample_stats"]["acceptance_rate"].mean()), *ours, *bulk,
        warmup, seconds, ours[0] / max(seconds, 1e-9),
        gradients, int(fit.attrs["n_density"]), ours[0] / gradients if gradients else np.nan,
    )  # fmt: skip
    return dict(zip(MEASURES, values, strict=True))


def _bulk(x: np.ndarray) -> float:
    return float(arviz_module().ess(x[np.newaxis], method="bulk"))


def _ess(x: np.ndarray, estimator: Any) -> float:
    """Estimate the ESS of one column; 1 if it never moved, when ArviZ gives the draw count."""
    if np.ptp(x) == 0:
        return 1.0
    value = estimator(x)
    # `ess_of_chain` is negative if successive draws are strongly antithetic
    return value if 0 < value < np.inf else float(len(x))


def _smallest_middle_largest(values: list[float]) -> tuple[float, float, float]:
    return float(np.min(values)), float(np.median(values)), float(np.max(values))


def summary(rows: pd.DataFrame) -> pd.DataFrame:
    """Medians over repeats, with the smallest and largest values as *_low and *_high.

    Index (data, method), in the order of the rows; `repeats` counts those that did not fail.
    """
    summaries = {}
    for key, group in rows.groupby(["data", "method"], sort=False):
        failed = group["failure"] != ""
        line = {
            "repeats": int((~failed).sum()),
            "failed": int(failed.sum()),
            **group.iloc[-1][["warmup", "draws", "density"]],
        }
        for name in MEASURES:
            values = group.loc[~failed, name].astype(float)
            line |= {
                name: values.median(),
                f"{name}_low": values.min(),
                f"{name}_high": values.max(),
            }
        summaries[key] = line
    table = pd.DataFrame.from_dict(summaries, orient="index")
    table.index = pd.MultiIndex.from_tuples(table.index, names=["data", "method"])
    return table
