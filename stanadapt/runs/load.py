"""Read a result from files, or the draws so far of a run on disk, even while it is written."""

import json
import warnings
from collections.abc import Sequence
from os import PathLike
from os.path import isdir, isfile
from os.path import join as join_path
from pathlib import Path
from typing import Any

import numpy as np

from stanadapt import results
from stanadapt.diagnostics.ranked import MANY_CHAINS
from stanadapt.diagnostics.verdict import judge
from stanadapt.engine.chain import FAILURES_BEFORE_STOP
from stanadapt.engine.every_iteration import described
from stanadapt.errors import ConvergenceWarning, StanadaptError, answers_other_words
from stanadapt.results import Fit
from stanadapt.results.attributes import LENGTHS
from stanadapt.results.join import join
from stanadapt.results.labels import arrays as arrays_of
from stanadapt.results.labels import data_groups, phase_groups, read_labels
from stanadapt.results.read_cmdstan_csv import chains_in, load_csv
from stanadapt.results.zarr_store import is_store, load_store
from stanadapt.runs.checkpoint import newest, summary_of
from stanadapt.runs.failures import short_chains
from stanadapt.runs.folder import MANIFEST, RunFolder
from stanadapt.runs.result import common_length, statistics_by_name
from stanadapt.runs.spec import START, TEXTS, read_data
from stanadapt.runs.tree import unpacked
from stanadapt.targets.stan.program import Program


@answers_other_words
def load(path: str | PathLike | Sequence[str | PathLike]) -> Fit:
    """Read a result from files, or the draws so far from the folder of a run.

    Parameters
    ----------
    path : str, Path, or list of these
        A netCDF file; a zarr store; CSV files of CmdStan's chains, their folder, or one of them; or
        the folder of a run. A list of these is of several jobs, with different chains of one
        program, data set and sampler, and becomes one fit.

    Returns
    -------
    Fit
        ArviZ object. If it comes from CSV files, the folder of a run or a list, its verdict is
        computed now.

    Raises
    ------
    StanadaptError
        Stage "files" if the file cannot be read as one of these. Code "folder_of_fits" for a folder
        of netCDF files, "fits_do_not_join" and "same_chain_twice" for lists, "no_draws_yet" if all
        chains of a run are still in warm-up, and "no_draws" if all chains were stopped.

    Examples
    --------
    >>> import os, tempfile, stanadapt as sa
    >>> program = "parameters { real x; } model { x ~ normal(1, 2); }"
    >>> target = sa.Target(program, backend="stanli", show_progress=False)
    >>> fit = sa.sample(target, seed=1, show_progress=False)
    >>> path = sa.save(fit, os.path.join(tempfile.mkdtemp(), "fit.nc"))
    >>> sa.load(path).attrs["verdict"]
    'fine'
    """
    if isinstance(path, list | tuple):
        return _load_several(path)
    path = results.as_path(path)
    if not isdir(path):  # also False for names that the system refuses
        return _load_csv([path]) if path.suffix == ".csv" else results.load(path)
    if is_store(path):
        return load_store(path)
    if (path / MANIFEST).exists():
        return _load_run(path)
    if files := chains_in(path):
        return _load_csv(files)
    if fits := sorted(str(path / file.name) for file in path.glob("*.nc")):
        raise StanadaptError(
            "folder_of_fits",
            f"{path} is a folder of fits: read one of {', '.join(fits)}, or join a list.",
        )
    return _load_run(path)


def is_run(path: Any) -> bool:
    """Whether an argument is the folder of a run."""
    return isinstance(path, str | PathLike) and isfile(join_path(path, MANIFEST))


def with_run_loaded(inits: Any) -> Any:
    """Return the fit of a run's folder, and other starting values as they are."""
    return load(inits) if is_run(inits) else inits


def _load_several(paths: Sequence[Any]) -> Fit:
    """Load the chains of one run, or of several jobs, as one fit."""
    names = [results.as_path(path) for path in paths]
    if len(names) == 1 or all(path.suffix == ".csv" for path in names):
        return _load_csv(names) if all(p.suffix == ".csv" for p in names) else load(names[0])
    if len(set(map(str, names))) < len(names):
        raise StanadaptError(
            "same_chain_twice",
            f"a file is given twice: {', '.join(map(str, names))}. Give each once.",
        )
    with warnings.catch_warnings():  # of each alone: the verdict is that on all
        warnings.simplefilter("ignore", ConvergenceWarning)
        each = {str(path): load(path) for path in names}
    return judge(join(each))


def _load_csv(paths: Sequence[Any]) -> Fit:
    if not paths:
        raise StanadaptError("file_missing", "load was given an empty list of files.")
    return judge(load_csv(paths))


def _load_run(path: Path) -> Fit:
    folder = RunFolder.open(path)
    manifest, labels = folder.manifest, read_labels(folder.manifest["options"]["labels"])
    progress = [summary_of(held) for held in newest(folder, manifest["plan"]["chains"])]
    stopped = [chain["stopped"] for chain in progress]
    rows = [0 if chain["stopped"] else chain["rows"]["sampling"] for chain in progress]
    kept, length = common_length(rows)  # as `resume` keeps them
    if not length:
        raise _no_draws(path, progress)
    arrays = folder.private_arrays()
    drawn = arrays["sampling_constrained"][kept, :length]
    integers = Program("", folder.read_text(TEXTS["code"]), None, ()).integers
    draws = results.variables(manifest["columns"], drawn, integers)
    stats = statistics_by_name(manifest["statistics"], arrays["sampling_stats"][kept, :length])
    groups = phase_groups(labels, "", draws, stats)
    data = read_data(folder)
    groups |= data_groups(labels, arrays_of(data) if isinstance(data, str) else data.arrays)
    attributes = {
        **manifest["attributes"],
        **{name: manifest["plan"][name] for name in LENGTHS},  # the run may have been extended
        "run": str(path),
        "chains_kept": [i + 1 for i in kept],
    }
    if manifest["plan"]["chains"] >= MANY_CHAINS:  # which of them began together, for R-hat
        begun = unpacked(folder.read_arrays(START))["attributes"]
        attributes |= {name: begun[name] for name in ("superchains",) if name in begun}
    if manifest["plan"]["thin"] > 1:
        totals = [np.array(progress[i]["totals"]) for i in kept]
        attributes["every_iteration"] = json.dumps(described(totals))
    whole = -(-manifest["plan"]["iter_sampling"] // manifest["plan"]["thin"])
    going_on = [count for count, ended in zip(rows, stopped, strict=True) if not ended]
    attributes["interrupted"] = min(going_on) < whole
    attributes["notes"] = list(short_chains(stopped, kept, length))
    return judge(results.build(groups, attributes))


def _no_draws(path: Path, progress: list[dict[str, Any]]) -> StanadaptError:
    if all(chain["stopped"] for chain in progress):
        return StanadaptError(
            "no_draws",
            f"the run in {path} has no draws: all its chains were stopped, since their last "
            f"{FAILURES_BEFORE_STOP} evaluations all failed. Check the priors and the constraints, "
            "and sample again in another folder, from other starting points (`inits`).",
        )
    chains = ", ".join(
        f"chain {number} was stopped after {chain['done']} iterations"
        if chain["stopped"]
        else f"chain {number} has done {chain['done']} iterations of warm-up"
        for number, chain in enumerate(progress, 1)
    )
    return StanadaptError(
        "no_draws_yet",
        f"the run in {path} has no draws yet: {chains}. Read it again later, or resume it.",
    )


def progress_of(path: str | PathLike) -> tuple[int, int, list[str]]:
    """Return iterations done and asked for, over all chains, and the state of each chain.

    States are text, one per chain: "1: warm-up 300", "2: stopped 1000".
    """
    folder = RunFolder.open(path)
    plan = folder.manifest["plan"]
    chains = [summary_of(held) for held in newest(folder, plan["chains"])]
    words = []
    for number, chain in enumerate(chains, 1):
        phase = "warm-up" if chain["warming_up"] else "sampling"
        words.append(f"{number}: {'stopped' if chain['stopped'] else phase} {chain['done']}")
    total = sum(chain["done"] if chain["stopped"] else chain["total"] for chain in chains)
    return sum(chain["done"] for chain in chains), total, words
