"""The prior as groups of a result, from the same program under data without observations."""

import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from stanadapt import results
from stanadapt.diagnostics.reasons import FINE
from stanadapt.engine.plan import LARGEST_SEED
from stanadapt.errors import Message, StanadaptError, answers_other_words, warn
from stanadapt.results import Fit
from stanadapt.results.labels import phase_groups
from stanadapt.runs.folder import RunFolder
from stanadapt.runs.progress import RunProgress
from stanadapt.runs.quantities import compute, streams
from stanadapt.runs.sample import sample
from stanadapt.targets.target import Data, Target, require_target

# names of the groups in ArviZ
GROUPS = {
    "posterior": "prior",
    "posterior_predictive": "prior_predictive",
    "sample_stats": "sample_stats_prior",
}
# distinguishes the seed of the prior from those of chains
STREAM = 0x7072696F72


@answers_other_words
def add_prior(
    fit: Any,
    target: Target,
    data: Data,
    *,
    max_minutes: float | None = None,
    parallel_chains: int | None = None,
    show_progress: bool | Callable[[RunProgress], Any] = True,
) -> Fit:
    """Add the prior to a result: the groups prior, prior_predictive and sample_stats_prior.

    The prior is the density of the program with data that contain no observations. The default
    sampler draws its parameters; predictions are computed with the data of the posterior, so that
    they have the shapes of the observations.

    Parameters
    ----------
    fit : Fit
        A result of `sample`; the groups are added to it.
    target : Target
        The target of the fit.
    data : dict or path
        Data of the program without observations.
    max_minutes, parallel_chains, show_progress
        As for `sample`. The limit applies to the draws of the prior, and separately to their
        predictions.

    Returns
    -------
    Fit
        The same object. If the prior could not be sampled, if its draws are not fine, or if
        quantities failed at some of them, a note gives the reason. The attribute `prior_verdict` is
        the verdict on the draws of the prior.

    Raises
    ------
    StanadaptError
        Stage "data" if the program does not accept the data.

    Examples
    --------
    >>> import stanadapt as sa
    >>> program = (
    ...     "data { int n; vector[n] y; } parameters { real mu; } "
    ...     "model { mu ~ normal(0, 2); y ~ normal(mu, 1); }"
    ... )
    >>> quiet = {"show_progress": False}
    >>> target = sa.Target(program, {"n": 3, "y": [1.0, 2.0, 3.0]}, backend="stanli", **quiet)
    >>> fit = sa.sample(target, seed=1, **quiet)
    >>> fit = sa.add_prior(fit, target, {"n": 0, "y": []}, **quiet)
    >>> fit.attrs["prior_verdict"]
    'fine'
    """
    try:
        prior_target = require_target(target).with_prior_data(data)
    except KeyboardInterrupt:  # the fit must not be lost
        return _with_notes(fit, _not_drawn("the prior was not sampled: interrupted."))
    chains = results.dataset(fit, "posterior").sizes["chain"]
    limits: dict[str, Any] = {
        "max_minutes": max_minutes, "parallel_chains": parallel_chains,
        "show_progress": show_progress,
    }  # fmt: skip
    seed = int(results.attribute(fit, "seed", 0))
    try:
        with warnings.catch_warnings():  # one note reports the verdict
            warnings.simplefilter("ignore")
            prior = sample(
                prior_target, chains=chains, seed=_seeds(seed)[0], save="unconstrained", **limits
            )
        groups, notes = _groups(target, prior, _seeds(seed)[1], max_minutes)
    except KeyboardInterrupt:
        return _with_notes(fit, _not_drawn("the prior was not sampled: interrupted."))
    except StanadaptError as error:
        return _with_notes(fit, _not_drawn(f"the prior could not be sampled. {error.message}"))
    results.add_groups(fit, groups)
    fit.attrs["prior_data_hash"] = prior_target.data_hash
    verdict = results.attribute(prior, "verdict")
    fit.attrs["prior_verdict"] = verdict
    if verdict != FINE:
        reasons = " ".join(results.from_json(prior, "verdict_reasons", []))
        notes = [_not_drawn(f"the draws in the group prior: {verdict}. {reasons}"), *notes]
    return _with_notes(fit, *notes)


def plan_prior(target: Target, path: Path) -> None:
    """Check a file for `add_prior`, and let run folders of the target record it.

    Raises StanadaptError: stage "files" or "data" if it does not hold data of the program.
    """
    prior = target.with_prior_data(path)
    target.prior_file = {"path": str(path.absolute()), "hash": prior.data_hash}


def planned_prior(folder: RunFolder, target: Target) -> tuple[Path | None, list[Message]]:
    """Return the file that `plan_prior` let a run record, or a note if it has changed."""
    record = folder.manifest.get("prior")
    if record is None:
        return None, []
    path = Path(record["path"])
    try:
        same = target.with_prior_data(path).data_hash == record["hash"]
        problem = f"{path} has other contents than when the run began"
    except StanadaptError as error:
        same, problem = False, error.message.rstrip(".")
    if same:
        return path, []
    text = f"the prior is not added: {problem}. Give its data as --prior-data."
    return None, [Message("prior_file_changed", text)]


def _seeds(seed: int) -> tuple[int, int]:
    words = np.random.SeedSequence([seed, STREAM]).generate_state(2, np.uint32)
    return int(words[0]) % LARGEST_SEED, int(words[1]) % LARGEST_SEED


def _groups(
    target: Target,
    prior: Any,
    seed: int,
    max_minutes: float | None,
    clock: Callable[[], float] = time.monotonic,
) -> tuple[results.Groups, list[Message]]:
    """Groups of the prior, under their names in ArviZ, and notes on draws that they lack."""
    positions = results.dataset(prior, "unconstrained_posterior")["position"].values
    chains, draws, _ = positions.shape
    found = compute(
        target, lambda chain, rows: positions[chain, rows], draws, streams(seed, STREAM, chains),
        max_minutes=max_minutes, clock=clock,
    )  # fmt: skip
    rows = found.columns.shape[1]
    named = results.variables(target.column_names, found.columns, target.program.integers)
    held = results.dataset(prior, "sample_stats")
    stats = {str(name): values.values[:, :rows] for name, values in held.data_vars.items()}
    groups = phase_groups(target.labels, "", named, stats)
    notes = []
    if found.stopped:
        kept = f"the first {rows} of {positions.shape[1]} draws of the prior per chain are kept"
        notes.append(Message("prior_not_drawn", f"{kept}: their predictions were {found.stopped}."))
    notes += found.failure(f"of {chains * rows} draws of the prior", "Parameters are unaffected.")
    return {GROUPS[name]: group for name, group in groups.items() if name in GROUPS}, notes


def _not_drawn(text: str) -> Message:
    return Message("prior_not_drawn", text)


def _with_notes(fit: Any, *notes: Message) -> Any:
    for note in notes:
        warn(note)
    results.add_notes(fit, [*notes])
    return fit
