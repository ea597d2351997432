"""Simulation-based calibration of a program with a sampler."""

import warnings
from collections import abc
from contextlib import closing
from hashlib import sha256
from os import PathLike
from typing import Any, Literal, NamedTuple

import numpy as np
import pandas as pd

from stanadapt import results
from stanadapt.diagnostics.mixing import efficiency
from stanadapt.engine.protocol import AUTO, SamplerName
from stanadapt.errors import StanadaptError, require_whole
from stanadapt.runs.sample import parameter_draws, require_options
from stanadapt.runs.workers import require_executor
from stanadapt.studies.calibration.generator import Generator, require_parameters
from stanadapt.studies.calibration.ranks import Calibration, RankBands
from stanadapt.studies.stored_rows import StoredRows
from stanadapt.studies.tasks import each_result
from stanadapt.targets.coordinates import element_name
from stanadapt.targets.stan.program import Program, read
from stanadapt.targets.target import Data, Target, variable_name

FEWEST = 20  # simulations
OPTIONS = {"chains": 2, "iter_sampling": 500}  # of each run, unless the caller changes them


def sbc(
    program: Any,
    generator: Any,
    data: Data = None,
    sampler: SamplerName | str | tuple = AUTO,
    *,
    simulations: int = 200,
    ranks: int = 99,
    seed: int | None = None,
    backend: Literal["auto", "bridgestan", "cmdstan", "stanli"] = "auto",
    run: str | PathLike | None = None,
    executor: Any = None,
    show_progress: bool = True,
    **options: Any,
) -> Calibration:
    """Simulate parameters and data, sample the posterior, and rank the truth among its draws.

    If program, sampler and generator are consistent, the ranks are uniform (Talts, Betancourt,
    Simpson, Vehtari and Gelman, 2018, Validating Bayesian inference algorithms with
    simulation-based calibration, arXiv:1804.06788). All parameters are ranked, and the log density,
    which detects a posterior that ignores data (Modrak et al., 2023, Simulation-based calibration
    checking for Bayesian computation: the choice of test quantities shapes sensitivity, Bayesian
    Analysis).

    Parameters
    ----------
    program : path or str
        The Stan program to check, a file or code.
    generator : path or str
        Stan program without parameters. Its generated quantities draw the parameters of `program`
        and the data that it observes, under the same names.
    data : dict or path, optional
        Data of the generator: sizes and covariates. They are passed to `program` too if it declares
        them.
    sampler : str
        As for `sample`.
    simulations : int
        Number of times that parameters and data are drawn, at least 20.
    ranks : int
        L: number of posterior draws among which the truth is ranked, 9 to 10,000. Runs with fewer
        effective draws are repeated with more iterations.
    seed : int, optional
        Random seed, 0 to 2**32 - 1; default: the seed of the folder `run` if it holds a
        calibration, otherwise a random one, recorded in the result. The same seed gives the same
        ranks, in any order and on any executor.
    backend : str
        As for `Target`.
    run : path, optional
        Folder to which ranks are written one by one; the same call continues an interrupted study.
    executor : Executor or Dask client, optional
        Any `concurrent.futures.Executor` of processes, or a client of Dask, to run simulations in
        parallel.
    show_progress : bool
        Whether to show a bar in a terminal.
    **options
        Arguments of `sample`: chains (2), iter_sampling (500), settings of the sampler.

    Returns
    -------
    Calibration
        Ranks, verdict and picture.

    Raises
    ------
    StanadaptError
        Stage "settings" if generator and program do not match; "files" if `run` contains another
        calibration; "sampling" if fewer than 20 simulations gave ranks.

    Examples
    --------
    >>> import stanadapt as sa
    >>> program = "data {real y;} parameters {real m;} model {m ~ std_normal(); y ~ normal(m, 1);}"
    >>> generator = "generated quantities {real m = std_normal_rng(); real y = normal_rng(m, 1);}"
    >>> study = sa.sbc(
    ...     program, generator, sampler="nuts", simulations=20, ranks=19, seed=1,
    ...     backend="stanli", show_progress=False, iter_warmup=100, iter_sampling=100,
    ... )
    >>> study.verdict
    'calibrated'
    """
    count = require_whole("simulations", simulations, FEWEST)
    largest = require_whole("ranks", ranks, 9, 10_000)
    require_executor(executor)
    options = {**OPTIONS, **options}
    require_options(sampler, **options)
    store = _RankRows(run)
    seed = store.seed(seed)
    generator, program = (x if isinstance(x, Program) else read(x) for x in (generator, program))
    drawing = Generator(generator, data, program, backend)
    task = Task(drawing, backend, sampler, options, largest)
    store.open(_identity(task, seed))
    missing = sorted(set(range(count)) - {row["number"] for row in store.rows})
    tasks = ((task, number, _seeds(seed, number)) for number in missing)
    simulated = closing(each_result(simulate, tasks, executor, "calibrating", show_progress))
    with warnings.catch_warnings(), simulated as new_rows:
        warnings.simplefilter("ignore")  # the result counts failures and short runs
        for row in new_rows:
            store.add(row)
    rows = [row for row in store.rows if row["number"] < count]
    return _calibration(task, sorted(rows, key=lambda row: row["number"]), seed)


def _seeds(seed: int, number: int) -> tuple[int, int]:
    first, second = np.random.SeedSequence([seed, number]).generate_state(2, np.uint32)
    return int(first), int(second)


def _calibration(task: "Task", rows: list[dict[str, Any]], seed: int) -> Calibration:
    ranked = [row for row in rows if "ranks" in row]
    failed = [row["failed"] for row in rows if "failed" in row]
    if len(ranked) < FEWEST:
        raise StanadaptError(
            "too_few_simulations",
            f"only {len(ranked)} of {len(rows)} simulations gave ranks; {FEWEST} are needed. The "
            f"first failure: {failed[0] if failed else 'none'}",
        )
    table = pd.DataFrame([row["ranks"] for row in ranked], index=[row["number"] for row in ranked])
    short = sum(not row["ess"] >= task.largest for row in ranked)  # earlier folders may hold NaN
    bands = RankBands(len(ranked), task.largest)
    return Calibration(table.rename_axis("simulation"), bands, failed, short, seed)


# --- one simulation: a task of plain data, for any process ---------------------------------------

LOG_DENSITY = "log density"
# a run with fewer effective draws than ranks is lengthened by this factor, at most this many times
FACTOR, MOST_LENGTHENED = 3, 3


class Task(NamedTuple):
    """The inputs of a simulation."""

    generator: Generator
    backend: Any  # of the program under study
    sampler: Any  # as for `sample`, like the options
    options: dict[str, Any]
    largest: int  # L: ranks are 0, ..., L


def simulate(task: Task, number: int, seeds: tuple[int, int]) -> dict[str, Any]:
    """Return the ranks of the true values by name, or the reason of a failure as "failed".

    The seeds are those of the generator and of the sampler.
    """
    try:
        return {"number": number, **_rank_truth(task, *seeds)}
    except StanadaptError as error:
        if error.recurs():
            raise
        return {"number": number, "failed": " ".join(str(error).split())}


def _rank_truth(task: Task, seed: int, sampling_seed: int) -> dict[str, Any]:
    simulated = task.generator.draw(seed)
    target = Target(
        task.generator.studied, simulated.data, backend=task.backend, show_progress=False
    )
    require_parameters(simulated, target)
    truth = _truth_by_column(target, simulated.truth)
    _require_finite("the true value", truth)
    options = {**task.options, "seed": sampling_seed, "show_progress": False}
    for _ in range(MOST_LENGTHENED + 1):
        draws = parameter_draws(target, task.sampler, **options)
        _require_finite("a draw", draws)
        smallest = _smallest_ess(draws)
        if smallest >= task.largest:
            break
        kept = next(iter(draws.values())).shape[1]
        options["iter_sampling"] = FACTOR * kept * options.get("thin", 1)
    # evenly spaced over all chains
    places = np.linspace(0, draws[next(iter(draws))].size - 1, task.largest).round().astype(int)
    spaced = {name: x.ravel()[places] for name, x in draws.items()}
    densities, density = _log_densities(target, spaced, truth)
    _require_finite("a draw", {LOG_DENSITY: densities})
    if density != -np.inf:  # a density of zero has the lowest rank: program and generator differ
        _require_finite("the true value", {LOG_DENSITY: density})
    spaced[LOG_DENSITY], truth[LOG_DENSITY] = densities, density
    rng = np.random.default_rng(sampling_seed)
    ranks = {name: _rank(spaced[name], truth[name], rng) for name in truth}
    return {"ranks": ranks, "ess": smallest}


def _require_finite(what: str, values: abc.Mapping[str, Any]) -> None:
    """Raise StanadaptError if values by name are not all finite: their ranks mean nothing."""
    broken = [name for name, x in values.items() if not np.isfinite(x).all()]
    if broken:
        raise StanadaptError(
            "no_rank", f"{what} of {broken[0]} is infinite or not a number, so it has no rank."
        )


def _smallest_ess(draws: dict[str, np.ndarray]) -> float:
    """Return the smallest effective sample size; 0 if it is unknown, as when nothing moved."""
    measured = efficiency(draws)
    if not measured.names:
        return 0.0
    smallest = float(min(measured.ess_bulk.min(), measured.ess_tail.min()))
    return smallest if np.isfinite(smallest) else 0.0


def _truth_by_column(target: Target, truth: dict[str, np.ndarray]) -> dict[str, float]:
    return {
        results.element(name, index): float(x)
        for name in target.parameters
        for index, x in np.ndenumerate(truth[name])
    }


def _log_densities(
    target: Target, draws: dict[str, np.ndarray], truth: dict[str, float]
) -> tuple[np.ndarray, float]:
    """Return log densities at the draws and at the truth, data included: Modrak et al. (2023).

    Ranks of parameters alone are uniform even if a posterior ignores the data.
    """
    names = [n for n in target.column_names if variable_name(n) in target.parameters]
    labels = map(element_name, names)  # "x[1,2]" of Stan's column "x.1.2"
    rows = np.stack([np.append(draws[label], truth[label]) for label in labels], axis=1)
    values = [target.value(p) for p in target.unconstrain_rows(rows)]
    return np.asarray(values[:-1]), float(values[-1])


def _rank(draws: np.ndarray, truth: float, rng: np.random.Generator) -> int:
    """Count the draws below the truth; ties are broken at random."""
    below, ties = int(np.sum(draws < truth)), int(np.sum(draws == truth))
    return below + int(rng.integers(ties + 1))


def _identity(task: Task, seed: int) -> dict[str, Any]:
    generator = task.generator.program
    return {
        "program": task.generator.studied.hash,
        "generator": generator.hash,
        "data": sha256(task.generator.data.encode()).hexdigest()[:16],
        "sampler": repr(task.sampler),
        "options": repr(sorted(task.options.items())),
        "ranks": task.largest,
        "seed": seed,
    }


class _RankRows(StoredRows):
    study, file = "calibration", "replicates.jsonl"
