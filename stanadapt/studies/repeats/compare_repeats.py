"""Samplers on one or more targets, each with several seeds: the function users call."""

import json
import secrets
from collections.abc import Callable, Collection, Iterable, Mapping
from functools import partial
from hashlib import sha256
from importlib.metadata import version
from os import PathLike
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from rich.console import Console
from rich.progress import Progress, TimeElapsedColumn

from stanadapt import results
from stanadapt.engine.plan import LARGEST_SEED, make_plan
from stanadapt.engine.registry import as_chosen, find
from stanadapt.errors import StanadaptError, is_one_of, require_names, require_whole
from stanadapt.results.attributes import RECORDED
from stanadapt.runs.choose_sampler import AUTO, DEFAULT, require_sampler
from stanadapt.runs.sample import sample
from stanadapt.runs.stan_nuts.stan_nuts import choose_engine, stan_nuts
from stanadapt.runs.workers import require_executor
from stanadapt.studies.repeats.kept import KeptRepeats, compile_first, make_row, seed_in, seed_of
from stanadapt.studies.repeats.picture import as_pdf
from stanadapt.studies.repeats.repeated_comparison import RepeatedComparison
from stanadapt.targets.stan import data as stan_data
from stanadapt.targets.target import Target, require_target

NO_NUTS = "none"
MOST_REPEATS = 10_000


def compare_repeats(
    target: Target | Mapping[str, Target],
    samplers: Mapping[str, Mapping[str, Any]] | Iterable[str] = (AUTO,),
    *,
    repeats: int = 5,
    seed: int | None = None,
    engine: str = "auto",
    out: str | PathLike | None = None,
    force: bool = False,
    var_names: Collection[str] | None = None,
    chains: int = 4,
    parallel_chains: int | None = None,
    iter_warmup: int | None = None,
    iter_sampling: int | None = None,
    thin: int = 1,
    inits: Any = None,
    executor: Any = None,
    show_progress: bool = True,
) -> RepeatedComparison:
    """Draw with every sampler several times, and summarize cost and verdicts over the repeats.

    One after another, so that none is timed while another runs, and repeat by repeat, so that a
    machine that slows down does so for all.

    Parameters
    ----------
    target
        A Stan program with its data; or several, by name.
    samplers
        Names, or settings by name of the sampler.
    repeats
        How many, each with a seed of its own that derives from `seed` and the number of the repeat
        only: more repeats later have the same first ones. Samplers share the seeds.
    seed
        Of everything; default: a random one, or that of the folder which is gone on with.
    engine
        Of Stan's NUTS, which is compared too: as for `stan_nuts`, or "none" to leave it out.
    out
        Folder for the tidy table (`repeats.csv`, `repeats.json`), the summary (`summary.tex`) and
        its picture (`repeats.pdf`). The table is written after every repeat: the same call goes on
        with what is there, also with more repeats, samplers or targets.
    force
        Begin anew in `out`, whatever it holds.
    var_names
        Variables that count, as for `compare`.
    chains, parallel_chains, thin, inits
        As for `sample`, of all samplers.
    iter_warmup, iter_sampling
        As for `sample`; Stan's NUTS keeps its own.
    executor
        Whose workers run the chains of our samplers, as for `sample`; Stan's NUTS runs here. Draws
        are the same, and seconds are those of the workers.
    show_progress
        A bar in a terminal.

    Returns
    -------
    RepeatedComparison
        After Ctrl-C: of the repeats that were complete.

    Raises
    ------
    StanadaptError
        Stage "settings" for arguments; "files" where `out` holds another comparison. A sampler that
        fails with one seed is a row with the reason.

    """
    targets = _targets(target)
    require_executor(executor)
    repeats = require_whole("repeats", repeats, 1, MOST_REPEATS)
    chosen = _settings(samplers)
    common = {
        "chains": chains, "parallel_chains": parallel_chains, "thin": thin, "inits": inits,
        "show_progress": False,
    }  # fmt: skip
    lengths = {"iter_warmup": iter_warmup, "iter_sampling": iter_sampling}
    _require_plan(common, lengths)
    described = {name: _described(name, given) for name, given in chosen.items()}
    if not is_one_of(engine, {NO_NUTS}):
        described = {_nuts_name(chosen): {"engine": choose_engine(engine)}, **described}
    settings = {**common, **lengths, "inits": _digest(inits), "variables": _names(var_names)}
    del settings["show_progress"]
    seed = _seed(seed, out, force)
    kept = KeptRepeats(out, _origin(targets, {"seed": seed, **settings}, described), force)
    jobs = {
        (name, sampler): job
        for name, one in targets.items()
        for sampler, job in _jobs(one, chosen, engine, common, lengths, executor).items()
    }
    interrupted = _make_missing(kept, jobs, var_names, iter_warmup, show_progress, seed, repeats)
    found = RepeatedComparison(
        kept.table(), kept.origin, list(described), repeats, interrupted, list(targets)
    )
    kept.write(found.to_latex(), as_pdf(found.plot()) if out is not None else None)
    return found


class _Job(NamedTuple):
    """How one sampler draws from one target, and the seconds for which this was compiled before."""

    draw: Callable[..., Any]
    compiled_before: float


def _jobs(
    target: Target,
    chosen: dict[str, dict[str, Any]],
    engine: str,
    common: dict[str, Any],
    lengths: dict[str, Any],
    executor: Any,
) -> dict[str, _Job]:
    """All samplers on one target, Stan's NUTS first."""
    jobs = {
        name: _Job(
            partial(sample, target, name, executor=executor, **common, **_given(lengths), **given),
            target.compile_seconds,
        )
        for name, given in chosen.items()
    }
    if engine == NO_NUTS:
        return jobs
    return {
        _nuts_name(chosen): _Job(partial(stan_nuts, target, engine=engine, **common), 0.0),
        **jobs,
    }


def _nuts_name(chosen: Collection[str]) -> str:
    return "stan_nuts" if "nuts" in chosen else "nuts"  # where our own sampler has that name


def _targets(given: Any) -> dict[str, Target]:
    """Targets by name."""
    if not isinstance(given, Mapping):
        target = require_target(given)
        return {target.name: target}
    if not given:
        raise StanadaptError("settings", "compare_repeats needs at least one target, got none.")
    return {str(name): require_target(target) for name, target in given.items()}


def _make_missing(
    kept: KeptRepeats,
    jobs: dict[tuple[str, str], _Job],
    var_names: Collection[str] | None,
    iter_warmup: int | None,
    show: bool,
    seed: int,
    repeats: int,
) -> bool:
    """Make the repeats that are missing, and show how far they are; whether Ctrl-C ended it."""
    missing = [(i, key) for i in range(1, repeats + 1) for key in jobs if not kept.has(*key, i)]
    several = len({target for target, _ in jobs}) > 1
    columns = (*Progress.get_default_columns(), TimeElapsedColumn())
    results.arviz_module()  # its import is not to be timed
    seen: set[tuple[str, str]] = set()
    with Progress(*columns, console=Console(stderr=True), disable=not (show and missing)) as bar:
        shown = bar.add_task("", total=len(missing))
        for i, key in missing:
            (target, name), job = key, jobs[key]
            what = f"repeat {i} of {repeats}: {f'{target}, ' if several else ''}{name}"
            try:
                if key not in seen:
                    bar.update(shown, description=f"{what}, compiling")
                    compile_first(job.draw, iter_warmup)
                bar.update(shown, description=what)
                row = make_row(
                    name, i, seed_of(seed, i), job.draw, var_names, job.compiled_before,
                    quiet=key in seen,
                )  # fmt: skip
            except KeyboardInterrupt:
                return True
            kept.add({"target": target, **row})
            seen.add(key)
            bar.advance(shown)
    return False


def _settings(samplers: Any) -> dict[str, dict[str, Any]]:
    """Settings by name of the sampler, each checked."""
    if not isinstance(samplers, Mapping):
        samplers = {name: {} for name in require_names("samplers", samplers)}
    if not samplers:
        raise StanadaptError("settings", "compare_repeats needs at least one sampler, got none.")
    for name, given in samplers.items():
        if not isinstance(given, Mapping) or not all(isinstance(key, str) for key in given):
            raise StanadaptError(
                "settings", f"settings of {name} must be a mapping by name, got {given!r}."
            )
        require_sampler(name, **given)
    return {name: dict(given) for name, given in samplers.items()}


def _require_plan(common: dict[str, Any], lengths: dict[str, Any]) -> None:
    warmup, sampling = lengths["iter_warmup"], lengths["iter_sampling"]
    make_plan(
        chains=common["chains"], parallel_chains=common["parallel_chains"], thin=common["thin"],
        seed=0, save_warmup=False, show_progress=False, iter_warmup=warmup or 0,
        iter_sampling=common["thin"] if sampling is None else sampling,
    )  # fmt: skip


def _given(lengths: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in lengths.items() if value is not None}


def _described(name: str, given: dict[str, Any]) -> dict[str, Any]:
    """All settings of a sampler, as plain values."""
    _, settings = find(DEFAULT if name == AUTO else name, **given)
    return {n: _plain(value) for n, value in as_chosen(settings).items()}


def _plain(value: Any) -> Any:
    value = value.tolist() if isinstance(value, np.ndarray | np.generic) else value
    return value if isinstance(value, str | bool | int | float | list | None) else repr(value)


def _names(var_names: Collection[str] | None) -> list[str] | None:
    if var_names is None:
        return None
    return sorted(require_names("var_names", var_names))


def _digest(inits: Any) -> Any:
    """What tells starting values from others: a number or a word itself, a hash of the rest."""
    if isinstance(inits, str | PathLike) and Path(inits).is_file():
        text = Path(inits).read_bytes()
    elif inits is None or isinstance(inits, str | int | float | PathLike):
        return str(inits) if isinstance(inits, PathLike) else inits
    else:
        text = json.dumps(inits, sort_keys=True, default=_listed).encode()
    return sha256(text).hexdigest()[:16]


def _listed(value: Any) -> Any:
    return value.tolist() if hasattr(value, "tolist") else repr(value)


def _seed(seed: int | None, out: str | PathLike | None, force: bool) -> int:
    if seed is not None:
        return require_whole("seed", seed, 0, LARGEST_SEED)
    earlier = None if out is None or force else seed_in(out)
    return secrets.randbelow(LARGEST_SEED + 1) if earlier is None else earlier


def _origin(
    targets: dict[str, Target], settings: dict[str, Any], samplers: dict[str, dict[str, Any]]
) -> dict[str, Any]:
    """What the rows come from, as plain values."""
    return {
        "versions": {name: version(name) for name in ("stanadapt", *RECORDED)},
        "targets": {
            name: {
                "model": target.name,
                "program_hash": target.program.hash,
                "data_hash": stan_data.digest(target.data),
                "backend_version": target.backend_version,
            }
            for name, target in targets.items()
        },
        "settings": settings,
        "samplers": samplers,
    }
