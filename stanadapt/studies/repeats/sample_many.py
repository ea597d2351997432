"""One sampler on many targets, mostly one program with many data sets."""

import secrets
import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence, ValuesView
from contextlib import closing
from os import PathLike
from pathlib import Path
from textwrap import fill
from typing import Any
from zlib import crc32

import numpy as np
import pandas as pd

from stanadapt import results
from stanadapt.engine.protocol import AUTO, SamplerName
from stanadapt.errors import StanadaptError, did_you_mean
from stanadapt.results import Fit
from stanadapt.results.formats import save
from stanadapt.runs.load import load
from stanadapt.runs.sample import require_options, sample
from stanadapt.runs.workers import require_executor
from stanadapt.studies.repeats.compare_repeats import digest_of
from stanadapt.studies.repeats.rows import make_row
from stanadapt.studies.stored_rows import StoredRows
from stanadapt.studies.tasks import each_result
from stanadapt.targets.stan.given_data import load as load_data
from stanadapt.targets.target import Target, require_target

SHOWN = 10  # reasons of failures in the text of a result
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
        made = self.table[self.table["failure"] == ""].drop(columns=["seed", "failure", "reasons"])
        made = made.convert_dtypes()
        text = made.to_string(max_rows=20, line_width=80, float_format="{:.4g}".format)
        failed = [
            fill(f"{name}: {why}", 80, subsequent_indent="  ")
            for name, why in self.failures.items()
        ]
        more = [f"{len(failed) - SHOWN} more in `failures`"] if len(failed) > SHOWN else []
        table = [text] if len(made) else []
        return "\n".join([f"{len(self.table)} fits: {counts}", *table, *failed[:SHOWN], *more])

    def _counts(self) -> dict[str, int]:
        verdicts = self.table["verdict"].where(self.table["failure"] == "", "failed")
        return verdicts.value_counts().to_dict()


class _FitRows(StoredRows):
    study, file = "list of fits", "fits.jsonl"

    def decoded(self, text: str) -> tuple[dict[str, Any], list[dict[str, Any]]]:
        """Read the file: the last row counts of those that a call wrote for the same fit."""
        origin, rows = super().decoded(text)
        return origin, list({(row["name"], row["digest"]): row for row in rows}.values())


def sample_many(
    targets: Target | Mapping[str, Target] | Iterable[Target],
    sampler: SamplerName | str = AUTO,
    *,
    data: Mapping[str, Any] | Iterable[Any] | None = None,
    seed: int | None = None,
    run: str | PathLike | None = None,
    executor: Any = None,
    show_progress: bool = True,
    **options: Any,
) -> ManyFits:
    """Draw from the posteriors of many targets, with one row of a table for each.

    Parameters
    ----------
    targets : Target, or dict or iterable of Target
        By name, or numbered "1", "2", ...; or one target, whose program gets each of the data sets.
    sampler : str
        As for `sample`.
    data : dict or iterable, optional
        Data sets by name, or numbered, each as for `Target`. One that does not suit the program is
        a failure in the table.
    seed : int, optional
        Random seed, 0 to 2**32 - 1; default: that of the folder `run`, or a random one. The seed of
        a fit depends on it and on the fit's name alone.
    run : path, optional
        Folder for the rows, `fits.jsonl`, and a file of each fit, so that no fit stays in memory.
        The same call makes those that are missing or failed, or whose data have changed.
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
    require_options(sampler, **options)
    store = _FitRows(run)
    seed = store.seed(seed)
    settings = {name: digest_of(value) for name, value in sorted(options.items())}
    store.open({"sampler": str(sampler), "options": settings, "seed": seed})
    digests = {name: "" if run is None else _digest(*job) for name, job in jobs.items()}
    files = {}
    for name, digest in digests.items() if run is not None else ():
        # a name that any file system takes; no fit of other data has it
        plain = "".join(c if c.isalnum() or c in "-_." else "_" for c in name)[:40]
        files[name] = results.as_path(run) / f"{plain}_{digest_of([name, digest])}.nc"
    store.rows = [
        row
        for row in store.rows
        if digests.get(row["name"]) == row["digest"]
        and (row["failure"] or files[row["name"]].exists())
    ]
    done, kept = {row["name"] for row in store.rows if not row["failure"]}, {}
    tasks = []
    for name, job in jobs.items():
        if name not in done:
            own_seed = np.random.SeedSequence([seed, crc32(name.encode())]).generate_state(1)[0]
            tasks.append((name, job, sampler, int(own_seed), options))
    interrupted = False
    try:
        results_of = each_result(
            _fit, tasks, executor, "sampling", show_progress,
            # of a target that could not be sent to a worker, or whose worker died
            lambda task, error: ({"name": task[0], "seed": task[3], "failure": error.message}, None)
        )  # fmt: skip
        with closing(results_of) as made:
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
    kept |= {name: files[name] for name in files if name in rows and not rows[name]["failure"]}
    return ManyFits(list(rows.values()), {n: kept[n] for n in jobs if n in kept}, interrupted)


Job = tuple[Target, Any]  # a target, and other data for its program, or None for its own


def _jobs(targets: Any, data: Any) -> dict[str, Job]:
    if data is not None:
        if isinstance(targets, Mapping | Sequence | Iterator | ValuesView):
            raise StanadaptError(
                "options_conflict", "sample_many: data needs a single target, whose program it is."
            )
        target = require_target(targets)
        if isinstance(data, dict) and data and not any(map(_is_data_set, data.values())):
            raise StanadaptError(
                "one_data_set",
                f"data has numbers and lists by name ({', '.join(map(str, data))[:60]}), where a "
                "data set by name is expected. If it is a single data set, write data=[...].",
            )
        jobs = {name: (target, one) for name, one in _named(data).items()}
    else:
        given = [targets] if hasattr(targets, "with_data") else targets
        jobs = {name: (require_target(one), None) for name, one in _named(given).items()}
    if not jobs:
        raise StanadaptError("nothing_to_study", "sample_many needs a target or a data set.")
    return jobs


def _is_data_set(value: Any) -> bool:
    """Return whether it is no number, list or array, as in a data set."""
    table = hasattr(value, "columns") or getattr(getattr(value, "dtype", None), "names", None)
    return value is None or bool(table) or isinstance(value, str | PathLike | Mapping)


def _named(given: Any) -> dict[str, Any]:
    if isinstance(given, Mapping):
        return {str(name): one for name, one in given.items()}
    if isinstance(given, str) or not isinstance(given, Sequence | Iterator | ValuesView):
        return {"1": given}
    return {str(number): one for number, one in enumerate(given, 1)}


def _digest(target: Target, data: Any) -> str:
    """Identify the program, the data and the target's settings."""
    own = target.data_hash
    if data is not None:
        try:
            own = digest_of(load_data(data).values)
        except (StanadaptError, TypeError, ValueError, RecursionError):
            own = secrets.token_hex(8)  # it cannot be known again, so its fit is made again
    return f"{target.program.hash} {own} {digest_of(target.options)}"


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
