"""Samplers on one or more targets, each with several seeds."""

import json
from collections.abc import Callable, Collection, Iterable, Mapping
from functools import partial
from hashlib import sha256
from importlib.metadata import version
from os import PathLike
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np
from rich.progress import TimeElapsedColumn

from stanadapt import results
from stanadapt.diagnostics.compare import require_variables
from stanadapt.engine.console import task_bar
from stanadapt.engine.plan import require_numbers
from stanadapt.engine.protocol import PRESET
from stanadapt.engine.registry import find
from stanadapt.engine.settings import as_chosen
from stanadapt.errors import (
    StanadaptError,
    answers_other_words,
    is_one_of,
    require_flag,
    require_names,
    require_whole,
)
from stanadapt.results.attributes import library_versions
from stanadapt.runs.choose_sampler import AUTO, DEFAULT, require_sampler
from stanadapt.runs.sample import sample
from stanadapt.runs.stan_nuts.stan_nuts import choose_engine
from stanadapt.runs.stan_nuts.stan_nuts import stan_nuts as draw_stan_nuts
from stanadapt.runs.workers import require_executor
from stanadapt.studies.repeats import picture, rows
from stanadapt.studies.repeats.result import RepeatedComparison
from stanadapt.targets.target import Target, require_target

NO_NUTS = "none"  # the engine that leaves Stan's NUTS out
MOST_REPEATS = 10_000


@answers_other_words
def compare_repeats(
    target: Target | Mapping[str, Target],
    samplers: Mapping[str, Mapping[str, Any]] | Iterable[str] = (AUTO,),
    *,
    repeats: int = 5,
    seed: int | None = None,
    stan_nuts: Literal["auto", "cmdstan", "stanli", "none"] = "auto",
    run: str | PathLike | None = None,
    overwrite: bool = False,
    var_names: Collection[str] | None = None,
    chains: int = 4,
    parallel_chains: int | None = None,
    iter_warmup: int | None = None,
    iter_sampling: int | None = None,
    thin: int = 1,
    inits: Any = None,
    executor: Any = None,
    reference: Any = None,
    show_progress: bool = True,
) -> RepeatedComparison:
    """Draw with every sampler several times, and summarize cost and verdicts over the repeats.

    Runs follow each other, so that no run is timed while another one is in progress. Each repeat
    runs every sampler once, so that a machine that slows down does so for all samplers.

    Parameters
    ----------
    target : Target or dict of Target
        A Stan program with its data; or several, by name.
    samplers : list of str, or dict
        Names, or settings by name of the sampler.
    repeats : int
        Number of repeats. The seed of a repeat depends only on `seed` and the number of the repeat,
        so a later call with more repeats begins with the same ones. All samplers use the same
        seeds.
    seed : int, optional
        Random seed, 0 to 2**32 - 1; default: the seed of the folder `run` if it holds a
        comparison, otherwise a random one, recorded in the result.
    stan_nuts : {"auto", "cmdstan", "stanli", "none"}
        The `backend` of `stan_nuts`, which is compared too; "none" leaves it out.
    run : path, optional
        Folder for the tidy table (`repeats.csv`, `repeats.json`), the summary (`summary.tex`) and
        its picture (`repeats.pdf`). The table is written after every repeat, and the same call
        continues it, also with more repeats, samplers or targets.
    overwrite : bool
        Whether to start over in `run`, and discard its results.
    var_names : list of str, optional
        Variables that are measured, as for `compare`.
    chains, parallel_chains, thin, inits
        As for `sample`; they apply to all samplers.
    iter_warmup, iter_sampling : int, optional
        As for `sample`. If given, they apply to Stan's NUTS as well.
    executor : Executor or Dask client, optional
        Workers for the chains of our samplers, as for `sample`; Stan's NUTS runs in this process.
        The draws are the same, and seconds are those of the workers.
    reference : fit, or dict of fits by target, optional
        Draws that are known to be right, such as `reference_draws` of a posteriordb. The rows then
        have `error_mean`, the largest error of a mean in standard deviations of the reference, and
        `error_sd`, the largest relative error of a standard deviation. Both contain the Monte
        Carlo errors of the reference.
    show_progress : bool
        Whether to show a bar in a terminal.

    Returns
    -------
    RepeatedComparison
        After Ctrl-C, it has the repeats that were complete. If a sampler fails with a seed, the row
        of this repeat has the reason.

    Raises
    ------
    StanadaptError
        Stage "settings" for wrong arguments; "files" if `run` holds another comparison.

    Examples
    --------
    >>> import stanadapt as sa
    >>> program = "parameters { real x; } model { x ~ normal(1, 2); }"
    >>> target = sa.Target(program, backend="stanli", show_progress=False)
    >>> study = sa.compare_repeats(
    ...     target, ["nuts", "hmc"], repeats=2, seed=1, stan_nuts="none", iter_sampling=500,
    ...     show_progress=False,
    ... )
    >>> study.summary["repeats"].to_dict()
    {'nuts': 2, 'hmc': 2}
    """
    targets = _require_targets(target)
    require_executor(executor)
    repeats = require_whole("repeats", repeats, 1, MOST_REPEATS)
    references = _require_references(reference, targets)
    settings_by_sampler = _require_settings(samplers)
    common: dict[str, Any] = {
        "chains": chains, "parallel_chains": parallel_chains, "thin": thin, "inits": inits,
        "show_progress": False,
    }  # fmt: skip
    lengths: dict[str, Any] = {"iter_warmup": iter_warmup, "iter_sampling": iter_sampling}
    require_plan(seed=None, **common, **lengths)
    common, lengths = ({**one, **_whole(one)} for one in (common, lengths))
    overwrite = require_flag("overwrite", overwrite)
    described = {name: _all_settings(name, one) for name, one in settings_by_sampler.items()}
    if not is_one_of(stan_nuts, {NO_NUTS}):
        stan_name = name_of_stan_nuts(settings_by_sampler)
        described = {
            stan_name: {"engine": choose_engine(stan_nuts, "stan_nuts", NO_NUTS)},
            **described,
        }
    settings = {
        **common,
        **lengths,
        "inits": digest_of(inits),
        "variables": _sort_names(var_names, targets),
    }
    del settings["show_progress"]
    stored = rows.RepeatRows(run)
    seed = rows.RepeatRows(None if overwrite else run).seed(seed)
    if stored.path is not None:
        results.check_writable(stored.path)
    stored.open(_origin(targets, references, {"seed": seed, **settings}, described), overwrite)
    jobs = {
        (name, sampler): job
        for name, one in targets.items()
        for sampler, job in _jobs(
            one, settings_by_sampler, stan_nuts, common, lengths, executor
        ).items()
    }
    interrupted = _make_missing(
        stored, jobs, references, var_names, iter_warmup, show_progress, seed, repeats
    )
    result = RepeatedComparison(
        stored.table(), stored.origin, list(described), repeats, interrupted, list(targets)
    )
    if run is not None:
        stored.write_file(rows.LATEX, result.to_latex())
        stored.write_file(rows.PICTURE, picture.as_pdf(result.plot()))
    return result


class _Job(NamedTuple):
    """A sampler on a target, and the seconds of compilation that were spent before."""

    draw: Callable[..., Any]
    compiled_before: float


def _jobs(
    target: Target,
    settings_by_sampler: dict[str, dict[str, Any]],
    engine: Any,
    common: dict[str, Any],
    lengths: dict[str, Any],
    executor: Any,
) -> dict[str, _Job]:
    """Return all samplers on one target, Stan's NUTS first."""
    options = common | {name: value for name, value in lengths.items() if value is not None}
    jobs = {
        name: _Job(
            partial(sample, target, name, executor=executor, **options, **settings),
            target.compile_seconds,
        )
        for name, settings in settings_by_sampler.items()
    }
    if engine == NO_NUTS:
        return jobs
    stan_job = _Job(partial(draw_stan_nuts, target, backend=engine, **options), 0.0)
    return {name_of_stan_nuts(settings_by_sampler): stan_job, **jobs}


def name_of_stan_nuts(samplers: Collection[str]) -> str:
    """Return the name of Stan's NUTS beside these samplers."""
    return "stan_nuts" if "nuts" in samplers else "nuts"  # our sampler has that name too


def _require_targets(targets: Any) -> dict[str, Target]:
    if not isinstance(targets, Mapping):
        target = require_target(targets)
        return {target.name: target}
    if not targets:
        raise StanadaptError(
            "nothing_to_study", "compare_repeats needs at least one target, got none."
        )
    return {str(name): require_target(target) for name, target in targets.items()}


def _require_references(given: Any, targets: dict[str, Target]) -> dict[str, Any]:
    """Return reference draws by target, each checked against its program and data."""
    if given is None:
        return {}
    by_name = isinstance(given, Mapping) and not hasattr(given, "attrs")
    references = dict(given) if by_name else dict.fromkeys(targets, given)
    for name, fit in references.items():
        if name not in targets:
            raise StanadaptError(
                "different_targets",
                f"reference has draws of {name!r}, which is not among the targets: "
                f"{', '.join(targets)}.",
            )
        results.require_draws(fit, f"the reference of {name}")
        target, known = targets[name], results.dataset(fit, "posterior").data_vars
        hashes = {"program_hash": target.program.hash, "data_hash": target.data_hash}
        other = any(results.attribute(fit, n, value) != value for n, value in hashes.items())
        if other or not results.shapes(target.column_names).keys() & set(known):
            raise StanadaptError(
                "different_targets", f"the reference of {name} has draws of another target."
            )
    return references


def _make_missing(
    stored: rows.RepeatRows,
    jobs: dict[tuple[str, str], _Job],
    references: dict[str, Any],
    var_names: Collection[str] | None,
    iter_warmup: int | None,
    show: bool,
    seed: int,
    repeats: int,
) -> bool:
    """Make the missing repeats, with a bar; return whether Ctrl-C ended it."""
    missing = [(i, key) for i in range(1, repeats + 1) for key in jobs if not stored.has(*key, i)]
    several = len({target for target, _ in jobs}) > 1
    results.arviz_module()  # its import is not to be timed
    compiled: set[tuple[str, str]] = set()
    with task_bar(bool(show and missing), "", len(missing), TimeElapsedColumn()) as advance:
        for i, key in missing:
            (target, name), job = key, jobs[key]
            task = f"repeat {i} of {repeats}: {f'{target}, ' if several else ''}{name}"
            try:
                if key not in compiled:
                    advance(0, f"{task}, compiling")
                    rows.compile_first(job.draw, iter_warmup)
                advance(0, task)
                row = rows.make_row(
                    name, i, rows.repeat_seed(seed, i), job.draw, var_names, job.compiled_before,
                    quiet=key in compiled, reference=references.get(target),
                )  # fmt: skip
            except KeyboardInterrupt:
                return True
            stored.add({"target": target, **row})
            compiled.add(key)
            advance()
    return False


def _require_settings(samplers: Any) -> dict[str, dict[str, Any]]:
    if not isinstance(samplers, Mapping):
        samplers = {name: {} for name in require_names("samplers", samplers)}
    if not samplers:
        raise StanadaptError(
            "nothing_to_study", "compare_repeats needs at least one sampler, got none."
        )
    for name, settings in samplers.items():
        if not isinstance(settings, Mapping) or not all(isinstance(key, str) for key in settings):
            raise StanadaptError(
                "settings_not_by_name",
                f"settings of {name} must be a mapping by name, got {settings!r}.",
            )
        require_sampler(name, **settings)
    return {name: dict(settings) for name, settings in samplers.items()}


def require_plan(
    *, thin: int, iter_warmup: int | None, iter_sampling: int | None, seed: int | None,
    chains: int, parallel_chains: int | None, **others: Any,
) -> None:  # fmt: skip
    """Check the numbers of runs, before the first one; others: arguments that are not numbers."""
    require_numbers(
        chains=chains, parallel_chains=parallel_chains, thin=thin, seed=seed,
        iter_warmup=iter_warmup, iter_sampling=iter_sampling,
    )  # fmt: skip


def _all_settings(name: str, settings: dict[str, Any]) -> dict[str, Any]:
    """Return all settings of a sampler, with defaults, as plain values."""
    _, complete = find(DEFAULT if name == AUTO else name, **settings)
    preset = {PRESET: settings[PRESET]} if PRESET in settings else {}
    return {n: _plain(value) for n, value in as_chosen(complete).items()} | preset


def _whole(numbers: Mapping[str, Any]) -> dict[str, int]:
    """Return those that NumPy holds as Python's, which the table can be written with."""
    return {name: int(x) for name, x in numbers.items() if isinstance(x, np.integer)}


def _plain(value: Any) -> Any:
    value = value.tolist() if isinstance(value, np.ndarray | np.generic) else value
    value = list(value) if isinstance(value, tuple) else value
    return value if isinstance(value, str | bool | int | float | list | None) else repr(value)


def _source(reference: Any) -> str:
    """Identify reference draws, by what made them and their first numbers."""
    if reference is None:
        return "none"
    posterior = results.dataset(reference, "posterior").isel(chain=0, draw=0)
    numbers = {str(name): x.values.tolist() for name, x in posterior.data_vars.items()}
    return f"{results.source_name(reference)} {digest_of(numbers)}"


def _sort_names(
    var_names: Collection[str] | None, targets: Mapping[str, Target]
) -> list[str] | None:
    if var_names is None:
        return None
    shapes = (results.shapes(target.column_names) for target in targets.values())
    return sorted(require_variables(var_names, {name: 0 for one in shapes for name in one}))


def digest_of(inits: Any) -> Any:
    """Identify starting values: a number or a word by itself, anything longer by a hash."""
    if isinstance(inits, str | PathLike) and Path(inits).is_file():
        text = Path(inits).read_bytes()
    elif inits is None or isinstance(inits, str | int | float | PathLike):
        return str(inits) if isinstance(inits, PathLike) else inits
    else:
        text = json.dumps(inits, sort_keys=True, default=_listed).encode()
    return sha256(text).hexdigest()[:16]


def _listed(value: Any) -> Any:
    if hasattr(value, "tolist"):
        return value.tolist()
    # the text of a large table leaves rows out
    return np.asarray(value).tolist() if hasattr(value, "__array__") else repr(value)


def _origin(
    targets: dict[str, Target],
    references: dict[str, Any],
    settings: dict[str, Any],
    samplers: dict[str, dict[str, Any]],
) -> dict[str, Any]:
    return {
        "versions": {"stanadapt": version("stanadapt"), **library_versions()},
        "targets": {
            name: {
                "model": target.name,
                "program_hash": target.program.hash,
                "data_hash": target.data_hash,
                "backend_version": target.backend_version,
                "reference": _source(references.get(name)),
            }
            for name, target in targets.items()
        },
        "settings": settings,
        "samplers": samplers,
    }
