"""Predictions: the quantities that a program computes, at the draws of an existing fit."""

import json
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import xarray as xr

from stanadapt import results
from stanadapt.engine.interrupts import uninterrupted
from stanadapt.engine.plan import LARGEST_SEED, usable_cores
from stanadapt.errors import Message, StanadaptError, answers_other_words, require_whole, warn
from stanadapt.results import Fit
from stanadapt.results.datasets import draws_dataset
from stanadapt.runs.quantities import compute, streams
from stanadapt.runs.stopping_rule import require_limits
from stanadapt.targets.stan.backends import BACKENDS
from stanadapt.targets.stan.syntax import block, tokens
from stanadapt.targets.target import Data, Target, parameter_draws, require_target

GROUP, OF_DATA = "predictions", "predictions_constant_data"
# distinguishes seeds of predictions from those of chains
STREAM = 0x67656E


@answers_other_words
def generate(
    fit: Fit,
    target: Target | None = None,
    *,
    data: Data = None,
    seed: int | None = None,
    max_minutes: float | None = None,
    parallel_chains: int | None = None,
    show_progress: bool = True,
) -> Fit:
    """Compute transformed parameters and generated quantities at the draws of a fit.

    The data may be new, or the generated quantities of the program may have changed. Predictions
    are in the order of the draws, and random numbers are other ones than those of the fit.

    Parameters
    ----------
    fit : Fit
        A fit of any sampler or package that has draws of all parameters. The groups are added to
        it.
    target : Target, optional
        The program with the data for which to predict. Its blocks `parameters` and `model`, and
        its transformed parameters, are those of the fit, or the latter two are empty. Default: the
        program that is stored in the fit, on the backend that drew it.
    data : mapping or path, optional
        Data for which to predict, as for `Target`. Default: those of `target`, or those stored in
        the fit.
    seed : int, optional
        Seed of the random numbers. Default: derived from that of the fit. The same seed gives the
        same predictions, for any number of threads.
    max_minutes : float, optional
        Stop after this many minutes, with the predictions so far.
    parallel_chains : int, optional
        Number of chains that are computed at once. Default: as many as there are cores.
    show_progress : bool
        Show the steps of a computation that takes more than some seconds.

    Returns
    -------
    Fit
        The same object with the groups `predictions` and `predictions_constant_data`. After Ctrl-C,
        or at the time limit, the group has the first part of the draws, with a note; the same call
        computes the others. If quantities threw, they are NaN at these draws, with a note.

    Raises
    ------
    StanadaptError
        "fit_of_another_target" if the fit is one of another program, "parameter_sizes" if the data
        change the sizes of parameters, "program_not_stored" if a target is needed.

    Examples
    --------
    >>> import stanadapt as sa
    >>> program = (
    ...     "data { int n; vector[n] x; vector[n] y; } parameters { real b; } "
    ...     "model { b ~ normal(0, 9); y ~ normal(b * x, 1); } "
    ...     "generated quantities { vector[n] mu = b * x; }"
    ... )
    >>> quiet = {"show_progress": False}
    >>> data = {"n": 2, "x": [1.0, 2.0], "y": [1.1, 1.9]}
    >>> fit = sa.sample(sa.Target(program, data, backend="stanli", **quiet), seed=1, **quiet)
    >>> new = {"n": 3, "x": [10.0, 20.0, 30.0], "y": [0.0, 0.0, 0.0]}
    >>> fit = sa.generate(fit, data=new, **quiet)
    >>> fit["predictions"]["mu"].shape
    (4, 1000, 3)
    """
    results.require_draws(fit, "fit")
    seed, threads = plan_predictions(
        fit, seed=seed, max_minutes=max_minutes, parallel_chains=parallel_chains
    )
    target = _target_for(fit, target, data, show_progress)
    if target.column_names == target.names:
        blocks = ("transformed parameters", "generated quantities")
        written = any(block(target.program.code, name).strip() for name in blocks)
        why = "are missing: add a block `generated quantities`"
        if target.described:
            why = "are missing, as of every density in Python: compute them from the draws"
        elif written:
            why = "have no elements under these data, or are excluded: check the data"
        raise StanadaptError(
            "nothing_to_generate",
            f"there is nothing to compute: the {' and '.join(blocks)} of {target.name} {why}.",
        )
    values = parameter_draws(target, fit)
    _require_finite(values)
    origin = json.dumps([target.program.hash, target.data_hash, target.backend, seed])
    earlier = _earlier(fit, origin, values.shape)
    first = 0 if earlier is None else earlier.sizes["draw"]
    found = compute(
        target, lambda chain, rows: _positions(target, values[chain, rows]), values.shape[1],
        streams(seed, STREAM, len(values)), first=first, max_minutes=max_minutes,
        threads=threads, show_progress=show_progress,
    )  # fmt: skip
    with uninterrupted():
        dims, coords = target.labels.dims, target.labels.coords
        named = results.variables(target.column_names, found.columns, target.program.integers)
        computed = {name: x for name, x in named.items() if name not in target.parameters}
        group = draws_dataset(computed, dims, coords)
        if earlier is not None:
            group = xr.concat([earlier, group], "draw")
        draws = group.sizes["draw"]
        posterior = results.dataset(fit, "posterior")
        labels = {"chain": posterior["chain"], "draw": posterior["draw"][:draws]}
        group = group.assign_coords(labels).assign_attrs(origin=origin)
        of_data = draws_dataset(target.checked.arrays, dims, coords, leading=())
        results.add_groups(fit, {GROUP: group, OF_DATA: of_data})
        for note in _notes(found, draws, values.shape):
            warn(note)
            results.add_notes(fit, [note])
    return fit


def plan_predictions(
    fit: Fit, *, seed: Any, max_minutes: Any, parallel_chains: Any = None, **others: Any
) -> tuple[int, int]:
    """Return the seed and the number of threads: all numbers are checked, which needs no target."""
    require_limits(None, None, max_minutes, None)
    chosen = int(results.attribute(fit, "seed", 0)) % LARGEST_SEED if seed is None else seed
    threads = usable_cores() if parallel_chains is None else parallel_chains
    return (
        require_whole("seed", chosen, 0, LARGEST_SEED),
        require_whole("parallel_chains", threads, 1),
    )


def on_backend_of(fit: Fit, make: Callable[..., Target]) -> Target:
    """Return a target that is made on the backend that drew a fit, or on another one.

    `make` takes the name of a `backend`. The embedded backend refuses data and programs that
    compiled code takes, and predictions may be for other ones than those of the fit.
    """
    drew = results.attribute(fit, "backend")
    if drew not in BACKENDS:
        return make(backend="auto")
    backend = BACKENDS[drew]
    usable, why = backend.availability()
    problem = f"cannot be used here: {why}"
    if usable:
        try:
            return make(backend=drew)
        except StanadaptError as error:
            if backend.native:
                raise
            refusal = error
        try:
            target = make(backend="auto")
        except StanadaptError:
            raise refusal from None
        problem = f"refuses the program or the data: {refusal.message.rstrip('.')}"
    else:
        target = make(backend="auto")
    text = f"the fit was drawn with the backend {drew}, which {problem}."
    warn(Message("other_backend", f"{text} Another one computes the predictions."))
    return target


def _target_for(fit: Fit, target: Any, data: Data, show_progress: bool) -> Target:
    """Return the target that computes the quantities, to which the fit may belong."""
    if target is None:
        return on_backend_of(
            fit, partial(Target.of_fit, fit, None, data, show_progress=show_progress)
        )
    target = require_target(target, empty=True)
    _require_same_density(fit, target)
    return target if data is None else target.with_data(data)


def _require_same_density(fit: Fit, target: Target) -> None:
    """Raise StanadaptError if the fit is one of another program; generated quantities may differ.

    Fits of other packages do not have their program: only names and sizes can be compared.
    """
    code, ours = results.attribute(fit, "program"), target.program
    if code is None or ours.hash == results.attribute(fit, "program_hash"):
        return
    for name in ("parameters", "transformed parameters", "model"):
        then, now = ([*map(str, tokens(block(text, name)))] for text in (code, ours.code))
        if now != then and (now or name == "parameters"):
            raise StanadaptError(
                "fit_of_another_target",
                f"the fit is one of another program: its block {name} is not that of {ours.name}. "
                "Only functions, data and generated quantities may differ. Move new transformed "
                "parameters to the generated quantities.",
            )


def _require_finite(values: np.ndarray) -> None:
    """Raise StanadaptError unless draws, shape (chain, draw, parameter), are finite."""
    lost = np.argwhere(~np.isfinite(values).all(axis=-1))
    if len(lost):
        chain, draw = lost[0] + 1
        raise StanadaptError(
            "invalid_position",
            f"{len(lost)} of {values[..., 0].size:,} draws of the fit are not finite; the first is "
            f"draw {draw} of chain {chain}. Leave out such draws or chains.",
        )


def _positions(target: Target, rows: np.ndarray) -> np.ndarray:
    positions = target.unconstrain_rows(rows)
    if np.isnan(positions).any():
        lost = int(np.isnan(positions).any(axis=1).sum())
        raise StanadaptError(
            "invalid_position",
            f"draws are no values of the parameters of {target.name}: {lost} of the {len(rows)} "
            "tried first violate a constraint. Give the target of the fit.",
        )
    return positions


def _earlier(fit: Fit, origin: str, shape: tuple[int, ...]) -> xr.Dataset | None:
    """Return the predictions of an equal call that ended early, if the fit has them."""
    if GROUP not in results.group_names(fit):
        return None
    group = results.dataset(fit, GROUP)
    same = group.attrs.get("origin") == origin and group.sizes["draw"] < shape[1]
    return group if same else None


def _notes(found: Any, draws: int, shape: tuple[int, ...]) -> list[Message]:
    notes = []
    if found.stopped:
        kept = f"predictions were {found.stopped}: they are those of the first {draws} of "
        kept += f"{shape[1]} draws per chain. The same call computes the others."
        notes.append(Message("predictions_incomplete", kept))
    return [*notes, *found.failure("draws", "Check the data for which to predict.")]
