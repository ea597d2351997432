"""Simulation-based calibration of a program with a sampler: the function users call.

One repetition: simulate, sample, rank. A task of plain data, for any process.
"""

import json
import warnings
from collections.abc import Iterator
from concurrent.futures import as_completed
from hashlib import sha256
from os import PathLike
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from rich.console import Console
from rich.progress import Progress

from stanadapt import results
from stanadapt.diagnostics.mixing import efficiency
from stanadapt.engine.plan import LARGEST_SEED
from stanadapt.errors import StanadaptError, require_whole
from stanadapt.runs.choose_sampler import AUTO
from stanadapt.runs.sample import sample
from stanadapt.runs.workers import as_executor, require_executor
from stanadapt.studies.calibration.generator import Generator, require_parameters
from stanadapt.studies.calibration.ranks import Calibration, RankBands
from stanadapt.targets.stan.program import Program, read
from stanadapt.targets.target import Data, Target, variable_name

LOG_DENSITY = "log density"
# a run with fewer effective draws than ranks is made longer, so often, by this factor
LONGER, FACTOR = 3, 3


class Task(NamedTuple):
    """What a repetition needs.

    generator
        Draws parameters and data.
    backend
        Of the program under study.
    sampler, options
        As for `sample`.
    largest
        L: ranks are 0, ..., L.

    """

    generator: Generator
    backend: str
    sampler: Any
    options: dict[str, Any]
    largest: int


def replicate(task: Task, number: int, seeds: tuple[int, int]) -> dict[str, Any]:
    """Return the ranks of the true values by name, and "failed" in words where there are none.

    seeds are those of the generator and of the sampler.
    """
    try:
        return {"number": number, **_ranks(task, *seeds)}
    except StanadaptError as error:
        if error.stage in ("settings", "syntax", "files", "installation"):
            raise
        return {"number": number, "failed": " ".join(str(error).split())}


def _ranks(task: Task, seed: int, sampling_seed: int) -> dict[str, Any]:
    simulated = task.generator.draw(seed)
    target = Target(
        task.generator.studied, simulated.data, backend=task.backend, show_progress=False
    )
    require_parameters(simulated, target)
    options = {**task.options, "seed": sampling_seed, "show_progress": False}
    for _ in range(LONGER + 1):
        fit = sample(target, task.sampler, **options)
        draws = _draws(target, fit)
        found = efficiency(draws)
        smallest = min(found.ess_bulk.min(initial=np.inf), found.ess_tail.min(initial=np.inf))
        if smallest >= task.largest:
            break
        options["iter_sampling"] = FACTOR * results.dataset(fit, "posterior").sizes["draw"]
    chosen = {name: _spaced(x, task.largest) for name, x in draws.items()}
    truth = _columns_of_truth(target, simulated.truth)
    chosen[LOG_DENSITY], truth[LOG_DENSITY] = _log_densities(target, chosen, truth)
    rng = np.random.default_rng(sampling_seed)
    ranks = {name: _rank(chosen[name], truth[name], rng) for name in truth}
    return {"ranks": ranks, "ess": float(smallest), "verdict": fit.attrs["verdict"]}


def _draws(target: Target, fit: Any) -> dict[str, np.ndarray]:
    """Draws of the parameters by column of the program, shape (chain, draw)."""
    columns = results.columns(fit, wanted=results.parameters(fit))
    return {name: np.asarray(x, float) for name, x in columns.items()}


def _columns_of_truth(target: Target, truth: dict[str, np.ndarray]) -> dict[str, float]:
    found = {}
    for name in target.parameters:
        for index in np.ndindex(truth[name].shape):
            label = f"{name}[{','.join(str(i + 1) for i in index)}]" if index else name
            found[label] = float(truth[name][index])
    return found


def _spaced(x: np.ndarray, count: int) -> np.ndarray:
    """So many draws, evenly spaced over all chains."""
    flat = x.reshape(-1)
    return flat[np.linspace(0, flat.size - 1, count).round().astype(int)]


def _log_densities(
    target: Target, draws: dict[str, np.ndarray], truth: dict[str, float]
) -> tuple[np.ndarray, float]:
    """Log densities at draws and at the truth, data included: Modrak et al. (2023).

    Ranks of parameters alone are uniform even if a posterior ignores the data.
    """
    names = [n for n in target.column_names if variable_name(n) in target.parameters]
    labels = list(draws)
    rows = np.stack([np.append(draws[label], truth[label]) for label in labels], axis=1)
    order = _stan_order(names, labels)
    values = [target.value(p) for p in target.unconstrain_rows(rows[:, order])]
    return np.asarray(values[:-1]), float(values[-1])


def _stan_order(names: list[str], labels: list[str]) -> list[int]:
    """Places of Stan's columns, "x.1.2", among labels "x[1,2]"."""
    places = {label: i for i, label in enumerate(labels)}

    def label(name: str) -> str:
        variable, *indices = name.split(".")
        return f"{variable}[{','.join(indices)}]" if indices else variable

    return [places[label(name)] for name in names]


def _rank(draws: np.ndarray, truth: float, rng: np.random.Generator) -> int:
    """How many draws are below the truth; ties are broken at random."""
    below, ties = int(np.sum(draws < truth)), int(np.sum(draws == truth))
    return below + int(rng.integers(ties + 1))


FILE = "replicates.jsonl"
FEWEST = 20
OPTIONS = {"chains": 2, "iter_sampling": 500}


def sbc(
    program: Any,
    generator: Any,
    data: Data = None,
    sampler: Any = AUTO,
    *,
    draws: int = 200,
    ranks: int = 99,
    seed: int = 1,
    backend: str = "auto",
    run: str | PathLike | None = None,
    executor: Any = None,
    show_progress: bool = True,
    **options: Any,
) -> Calibration:
    """Simulate parameters and data, sample the posterior, and rank the truth among its draws.

    Where program, sampler and generator fit together, the ranks are uniform (Talts, Betancourt,
    Simpson, Vehtari and Gelman, 2018, Validating Bayesian inference algorithms with
    simulation-based calibration, arXiv:1804.06788). Ranked are all parameters, and the log density,
    which sees a posterior that ignores data (Modrak et al., 2023, Simulation-based calibration
    checking for Bayesian computation: the choice of test quantities shapes sensitivity, Bayesian
    Analysis).

    Parameters
    ----------
    program
        The Stan program under study, a path or code.
    generator
        Stan program without parameters, whose generated quantities draw, under the same names, the
        parameters of `program` and the data that it observes.
    data
        Of the generator: sizes and covariates, handed on to `program` where it declares them.
    sampler
        As for `sample`.
    draws
        How many times parameters and data are drawn, at least 20.
    ranks
        L: posterior draws among which the truth is ranked. Runs with fewer effective draws are
        repeated with more iterations.
    seed
        Of everything: the same seed gives the same ranks, in any order and on any executor.
    backend
        As for `Target`.
    run
        Folder that keeps the ranks as they come; the same call goes on with what is there.
    executor
        Any `concurrent.futures.Executor` of processes, or a client of Dask, for repetitions at the
        same time.
    show_progress
        A bar in a terminal.
    options
        Of `sample`: chains (2), iter_sampling (500), settings of the sampler.

    Returns
    -------
    Calibration

    Raises
    ------
    StanadaptError
        Stage "settings" where generator and program do not fit; "files" where `run` holds another
        calibration; "sampling" where every repetition failed.

    """
    count, largest = require_whole("draws", draws, FEWEST), require_whole("ranks", ranks, 9, 10_000)
    seed = require_whole("seed", seed, 0, LARGEST_SEED)
    require_executor(executor)
    drawing = Generator(_program(generator), data, _program(program), backend)
    task = Task(drawing, backend, sampler, {**OPTIONS, **options}, largest)
    kept = _Kept(run, _identity(task, seed))
    done = [one for one in kept.read() if one["number"] < count]
    missing = sorted(set(range(count)) - {one["number"] for one in done})
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # verdicts of single runs are counted at the end
        for one in _repetitions(task, missing, seed, executor, show_progress):
            kept.add(one)
            done.append(one)
    return _calibration(task, sorted(done, key=lambda one: one["number"]))


def _program(given: Any) -> Program:
    return given if isinstance(given, Program) else read(given)


def _seeds(seed: int, number: int) -> tuple[int, int]:
    first, second = np.random.SeedSequence([seed, number]).generate_state(2, np.uint32)
    return int(first), int(second)


def _repetitions(
    task: Task, missing: list[int], seed: int, executor: Any, show: bool
) -> Iterator[dict[str, Any]]:
    """Make the repetitions that are missing, here or elsewhere, and show how far they are."""
    with Progress(console=Console(stderr=True), disable=not show) as bar:
        shown = bar.add_task("calibrating", total=len(missing))
        if executor is None:
            for number in missing:
                yield replicate(task, number, _seeds(seed, number))
                bar.advance(shown)
            return
        workers = as_executor(executor)
        futures = [workers.submit(replicate, task, n, _seeds(seed, n)) for n in missing]
        for future in as_completed(futures):
            yield future.result()
            bar.advance(shown)


def _calibration(task: Task, done: list[dict[str, Any]]) -> Calibration:
    fine = [one for one in done if "ranks" in one]
    if len(fine) < FEWEST:
        reasons = [one["failed"] for one in done if "failed" in one]
        raise StanadaptError(
            "sampling",
            f"only {len(fine)} of {len(done)} repetitions gave ranks, and {FEWEST} are needed. The "
            f"first that failed: {reasons[0] if reasons else 'none'}",
        )
    table = pd.DataFrame([one["ranks"] for one in fine], index=[one["number"] for one in fine])
    return Calibration(
        table.rename_axis("repetition"),
        RankBands(len(fine), task.largest),
        [one["failed"] for one in done if "failed" in one],
        sum(one["ess"] < task.largest for one in fine),
    )


def _identity(task: Task, seed: int) -> dict[str, Any]:
    """What must be the same for ranks to belong together."""
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


class _Kept:
    """The file of a calibration: one line of JSON per repetition, after one that says of what."""

    def __init__(self, run: str | PathLike | None, identity: dict[str, Any]) -> None:
        self._path = None if run is None else Path(run) / FILE
        self._identity = identity

    def read(self) -> list[dict[str, Any]]:
        """Repetitions that were made earlier; a last line that was cut off does not count."""
        if self._path is None:
            return []
        try:
            if not self._path.exists():
                self._path.parent.mkdir(parents=True, exist_ok=True)
                self._path.write_text(json.dumps(self._identity) + "\n", encoding="utf-8")
            text = self._path.read_text(encoding="utf-8")
            whole = text[: text.rfind("\n") + 1]
            if whole != text:
                self._path.write_text(whole, encoding="utf-8")
            first, *lines = (json.loads(line) for line in whole.splitlines())
        except (OSError, ValueError) as error:
            raise StanadaptError("files", f"run: {self._path} cannot be used: {error}.") from None
        differing = [name for name in self._identity if first.get(name) != self._identity[name]]
        if differing:
            raise StanadaptError(
                "files",
                f"run: {self._path} holds another calibration (with another "
                f"{', '.join(differing)}): name another folder.",
            )
        return lines

    def add(self, one: dict[str, Any]) -> None:
        """Append a repetition."""
        if self._path is not None:
            with self._path.open("a", encoding="utf-8") as file:
                file.write(json.dumps(one) + "\n")
