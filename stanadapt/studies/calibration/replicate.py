"""One repetition: simulate, sample, rank. A task of plain data, for any process."""

from typing import Any, NamedTuple

import numpy as np

from stanadapt import results
from stanadapt.diagnostics.efficiency import efficiency
from stanadapt.errors import StanadaptError
from stanadapt.runs.sample import sample
from stanadapt.studies.calibration.generator import Generator, require_parameters
from stanadapt.targets.excluded import variable_name
from stanadapt.targets.target import Target

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
