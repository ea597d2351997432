"""One sampler on many targets, mostly one program with many data sets."""

import secrets
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from os import PathLike
from pathlib import Path
from typing import Any
from zlib import crc32

import numpy as np
import pandas as pd

from stanadapt import results
from stanadapt.engine.plan import LARGEST_SEED
from stanadapt.engine.protocol import AUTO, SamplerName
from stanadapt.errors import StanadaptError, did_you_mean, require_whole
from stanadapt.results import Fit
from stanadapt.results.formats import save
from stanadapt.runs.choose_sampler import require_sampler
from stanadapt.runs.load import load
from stanadapt.runs.sample import sample
from stanadapt.runs.workers import require_executor
from stanadapt.studies.repeats.compare_repeats import digest_of
from stanadapt.studies.repeats.rows import make_row
from stanadapt.studies.stored_rows import StoredRows
from stanadapt.studies.tasks import each_result
from stanadapt.targets.target import Target, require_target

FILE = "fits.jsonl"
COLUMNS = (
    "verdict", "draws", "ess_bulk_min", "r_hat_max", "gradients", "seconds",
    "seed", "failure", "reasons",
)  # fmt: skip


class ManyFits(Mapping[str, Fit]):
    """Fits by name, and a table with a row for each; what failed is in the table alone.

    Attributes
    ----------
    table : pandas.DataFrame
        By name: the verdict and its reasons, draws per chain, the smallest bulk effective sample
        size, the largest R-hat, gradients with warm-up, processor seconds of all chains, the
        seed, and why a fit failed ("" if it did not).
    interrupted : bool
        Whether Ctrl-C ended the fits; the same call with `run` makes the missing ones.

    """

    def __init__(self, rows: list[dict[str, Any]], kept: dict[str, Any], interrupted: bool) -> None:
        index = pd.Index([row["name"] for row in rows], name="fit")
        self.table = pd.DataFrame(rows, index=index, columns=list(COLUMNS))
        self.interrupted = interrupted
        self._kept = kept  # fits, or the files in which they are

    def __getitem__(self, name: str) -> Fit:
        if name not in self._kept:
            failed = self.table["failure"].get(name, "")
            why = f" It failed: {failed}" if failed else did_you_mean(str(name), list(self._kept))
            raise KeyError(f"there is no fit {name!r}.{why}")
        kept = self._kept[name]
        return load(kept) if isinstance(kept, Path) else kept

    def __iter__(self) -> Iterator[str]:
        return iter(self._kept)

    def __len__(self) -> int:
        return len(self._kept)

    @property
    def failures(self) -> dict[str, str]:
        """The reasons of fits that failed, by name."""
        failed = self.table["failure"]
        return failed[failed != ""].to_dict()

    def __repr__(self) -> str:
        counts = ", ".join(f"{n} {name}" for name, n in self._counts().items())
        return f"{len(self.table)} fits: {counts}\n{self.table.drop(columns='reasons')}"

    def _counts(self) -> dict[str, int]:
        verdicts = self.table["verdict"].where(self.table["failure"] == "", "failed")
        return verdicts.value_counts().to_dict()


def sample_many(
    targets: Target | Mapping[str, Target] | Sequence[Target],
    sampler: SamplerName | str = AUTO,
    *,
    data: Mapping[str, Any] | Sequence[Any] | None = None,
    seed: int | None = None,
    run: str | PathLike | None = None,
    executor: Any = None,
    show_progress: bool = True,
    **options: Any,
) -> ManyFits:
    """Draw from the posteriors of many targets, with one row of a table for each.

    Parameters
    ----------
    targets : Target, or dict or list of Target
        By name, or numbered "1", "2", ...; or one target, whose program gets each of the data sets.
    sampler : str
        As for `sample`.
    data : dict or list, optional
        Data sets by name, or numbered, each as for `Target`. One that does not suit the program is
        a failure in the table.
    seed : int, optional
        Random seed, 0 to 2**32 - 1; default: that of the folder `run`, or a random one. The seed of
        a fit depends on it and on the fit's name alone.
    run : path, optional
        Folder for the rows, `fits.jsonl`, and a file of each fit, so that no fit stays in memory.
        The same call makes those that are missing, or whose data have changed.
    executor : Executor or Dask client, optional
        Workers that make one fit each: a `concurrent.futures` executor, or a client of Dask.
        Default: one fit after the other, its chains on the threads of this process.
    show_progress : bool
        Whether to show a bar in a terminal.
    **options
        Arguments of `sample`: chains, iter_sampling, settings of the sampler.

    Returns
    -------
    ManyFits
        A mapping of names to fits, with `table`, `failures` and `interrupted`. After Ctrl-C, it has
        the fits that were complete.

    Raises
    ------
    StanadaptError
        Stage "settings" for wrong arguments, which would fail in every fit; "files" if `run` holds
        other fits.

    Examples
    --------
    >>> import stanadapt as sa
    >>> program = "data { real y; } parameters { real m; } model { m ~ normal(y, 1); }"
    >>> target = sa.Target(program, {"y": 0}, backend="stanli", show_progress=False)
    >>> fits = sa.sample_many(
    ...     target, data={"low": {"y": -1}, "high": {"y": 1}, "none": {}}, seed=1,
    ...     show_progress=False,
    ... )
    >>> list(fits), list(fits.failures)
    (['low', 'high'], ['none'])

    """
    jobs = _jobs(targets, data)
    require_executor(executor)
    require_sampler(sampler)
    store = StoredRows(None if run is None else results.as_path(run) / FILE)
    store.study = "list of fits"
    if seed is None:
        earlier = store.earlier()
        seed = secrets.randbelow(LARGEST_SEED + 1) if earlier is None else int(earlier["seed"])
    seed = require_whole("seed", seed, 0, LARGEST_SEED)
    settings = {name: digest_of(value) for name, value in sorted(options.items())}
    store.open({"sampler": str(sampler), "options": settings, "seed": seed})
    digests = {name: _digest(*job) for name, job in jobs.items()}
    store.rows = [row for row in store.rows if digests.get(row["name"]) == row["digest"]]
    done, kept = {row["name"] for row in store.rows}, {}
    files = {} if run is None else {n: results.as_path(run) / _file_name(n) for n in jobs}
    tasks = [
        (name, job, sampler, _seed(seed, name), options)
        for name, job in jobs.items()
        if name not in done
    ]
    interrupted = False
    try:
        with closing(each_result(_fit, tasks, executor, "sampling", show_progress)) as made:
            for row, fit in made:
                name = row["name"]
                if fit is not None and name in files:
                    save(fit, files[name])
                elif fit is not None:
                    kept[name] = fit
                store.add({**row, "digest": digests[name]})
    except KeyboardInterrupt:
        interrupted = True
    rows = {row["name"]: row for row in store.rows}
    rows = {name: rows[name] for name in jobs if name in rows}
    fine = [name for name, row in rows.items() if not row["failure"]]
    kept |= {name: files[name] for name in fine if name in files}
    return ManyFits(list(rows.values()), {n: kept[n] for n in jobs if n in kept}, interrupted)


Job = tuple[Target, Any]  # a target, and other data for its program, or None for its own


def _jobs(targets: Any, data: Any) -> dict[str, Job]:
    """Return the jobs by name."""
    if data is not None:
        if isinstance(targets, Mapping | Sequence):
            raise StanadaptError(
                "options_conflict", "sample_many: data needs a single target, whose program it is."
            )
        target = require_target(targets)
        jobs = {name: (target, one) for name, one in _named(data).items()}
    else:
        given = [targets] if hasattr(targets, "with_data") else targets
        jobs = {name: (require_target(one), None) for name, one in _named(given).items()}
    if not jobs:
        raise StanadaptError("nothing_to_study", "sample_many needs a target or a data set.")
    return jobs


def _named(given: Any) -> dict[str, Any]:
    if isinstance(given, Mapping):
        return {str(name): one for name, one in given.items()}
    if isinstance(given, str) or not isinstance(given, Sequence):
        return {"1": given}
    return {str(number): one for number, one in enumerate(given, 1)}


def _digest(target: Target, data: Any) -> str:
    own = target.data_hash if data is None else digest_of(data)
    return f"{target.program.hash} {own}"


def _seed(seed: int, name: str) -> int:
    return int(np.random.SeedSequence([seed, crc32(name.encode())]).generate_state(1)[0])


def _file_name(name: str) -> str:
    """Return a name that any file system takes."""
    plain = "".join(c if c.isalnum() or c in "-_." else "_" for c in name)[:60]
    return f"{plain}.nc" if plain == name else f"{plain}_{crc32(name.encode()):08x}.nc"


def _fit(
    name: str, job: Job, sampler: Any, seed: int, options: dict[str, Any]
) -> tuple[dict[str, Any], Fit | None]:
    """Return the row of a fit, and the fit unless it failed: a task for any process."""
    target, data = job
    made: list[Fit] = []

    def draw(seed: int) -> Fit:
        bound = target if data is None else target.with_data(data)
        made.append(sample(bound, sampler, seed=seed, show_progress=False, **options))
        return made[0]

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # verdicts are in the table
        row = make_row(
            str(sampler), 1, seed, draw, None, target.compile_seconds, quiet=True, recurring=()
        )
    # files of rows hold JSON, which has no NaN
    known = {key: None if value != value else value for key, value in row.items()}
    return {**known, "name": name}, made[0] if made else None
