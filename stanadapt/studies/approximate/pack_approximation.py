"""The ArviZ object of an approximation: groups, attributes, warnings."""

import copy
import json
from typing import Any, NamedTuple

import numpy as np
import xarray as xr

from stanadapt import results
from stanadapt.diagnostics.importance import meaning
from stanadapt.diagnostics.verdict import judge
from stanadapt.engine.density import FAILED_CALLS, GRADIENT_CALLS, VALUE_CALLS
from stanadapt.engine.plan import Plan
from stanadapt.engine.settings import as_chosen
from stanadapt.errors import Message, first_of, warn
from stanadapt.results.attributes import origin
from stanadapt.results.labels import phase_groups
from stanadapt.runs.failures import quoted
from stanadapt.samplers.variational.methods import Fitted
from stanadapt.studies.approximate.importance_draws import Draws, describe_draws
from stanadapt.targets.target import Samplable

STATISTICS = ("lp", "lp_approx", "log_weight")
CHECKED = 5  # draws; a coordinate is flat if its gradient is zero at all of them
NAMED = 3  # coordinates that a message lists


class ApproximationRecord(NamedTuple):
    """The settings and the times of an approximation."""

    method: str
    settings: Any
    plan: Plan
    quantities: int  # seed of Stan's generator for generated quantities
    compile_seconds: float
    fit_seconds: float
    draw_seconds: float


def pack_approximation(
    target: Samplable,
    run: ApproximationRecord,
    fitted: Fitted,
    draws: Draws,
    save_unconstrained: bool,
) -> Any:
    """Return the ArviZ object of an approximation, and warn of its problems."""
    program = target.target
    columns = np.empty((len(draws.positions), len(program.column_names)))
    constrain = target.constrainer(run.quantities)
    failed = constrain(np.ascontiguousarray(draws.positions), columns)
    notes = [
        *fitted.remarks,
        *describe_draws(draws, len(fitted.parts)),
        *_flat_coordinates(target, draws),
    ]
    if failed:
        text = f"generated quantities failed at {failed} draws, and are NaN there"
        text += quoted(constrain.explain())
        notes.append(Message("failed_quantities", text))
    values = (draws.log_density, draws.log_approximation, draws.log_weight)
    stats = dict(zip(STATISTICS, values, strict=True))
    drawn = results.variables(program.column_names, columns[None], program.program.integers)
    groups = phase_groups(
        program.labels, "", drawn, {name: values[None] for name, values in stats.items()},
    )  # fmt: skip
    if save_unconstrained:
        position = target.original(draws.positions)[None]
        groups["unconstrained_posterior"] = {"position": position}
    groups["approximation"] = _gaussians(target, fitted)
    groups |= copy.deepcopy(program.data_groups)
    for note in notes:
        warn(note)
    attributes = {**_attributes(target, run, fitted, draws), "n_failed_quantities": failed}
    return judge(results.build(groups, {**attributes, "notes": notes}))


def _gaussians(target: Samplable, fitted: Fitted) -> xr.Dataset:
    parts = fitted.parts
    # those of low rank may have fewer rows than others, or than a dense one
    shapes = [part.factor.shape for part in parts]
    factors = np.zeros((len(parts), *np.max(shapes, axis=0)))
    for padded, part in zip(factors, parts, strict=True):
        padded[: len(part.factor), : part.factor.shape[1]] = part.factor
    variables = {
        "location": (("part", "coordinate"), np.stack([part.location for part in parts])),
        "sd": (("part", "coordinate"), np.stack([part.sd() for part in parts])),
        "factor": (("part", "factor_row", "factor_column"), factors),
    }
    if fitted.elbo.size:
        variables["elbo"] = (("path", "iteration"), fitted.elbo)
    return xr.Dataset(variables, {"coordinate": target.coordinate_names})


def _flat_coordinates(target: Samplable, draws: Draws) -> list[Message]:
    """Name the coordinates in which the log density has no slope at any of some draws."""
    positions = draws.positions[np.isfinite(draws.log_density)][:CHECKED]
    gradients = np.array([target.evaluate(position)[1] for position in positions])
    flat = np.flatnonzero(~np.any(gradients, axis=0))
    if not len(flat):
        return []
    names = target.coordinate_names
    text = (
        f"the log density has no slope in {first_of((names[i] for i in flat), NAMED)}: it is "
        "constant in these directions, or changes in jumps, so their approximation is arbitrary. "
        "Give these parameters a prior, or use a sampler without gradients."
    )
    return [Message("flat_coordinate", text)]


def _attributes(
    target: Samplable, run: ApproximationRecord, fitted: Fitted, draws: Draws
) -> dict[str, Any]:
    program, each = target.target, target.evaluations_per_call
    calls = np.sum([density.calls for density in fitted.densities], axis=0)
    final = fitted.elbo[np.isfinite(fitted.elbo)] if fitted.elbo.size else np.empty(0)
    return {
        **origin(program, run.plan),
        **target.description,
        "sampler": run.method,
        "exact": False,
        "settings": json.dumps(as_chosen(run.settings)),
        "pareto_k": draws.pareto_k,
        "pareto_k_meaning": meaning(draws.pareto_k, draws.judged),
        "pareto_k_draws": draws.judged,
        "highest_elbo": float(final.max()) if final.size else float("nan"),
        "backend": program.backend,
        "backend_reason": program.backend_reason,
        "backend_version": program.backend_version,
        "warmup_seconds": [run.fit_seconds],
        "sampling_seconds": [run.draw_seconds],
        "compile_seconds": run.compile_seconds + program.compile_seconds,
        "n_gradients": each * int(calls[GRADIENT_CALLS]),
        "n_gradients_warmup": each * int(calls[GRADIENT_CALLS]),
        "n_density": each * int(calls[VALUE_CALLS]),
        "n_density_warmup": each * int(calls[VALUE_CALLS]) - each * draws.judged,
        "n_failed": int(calls[FAILED_CALLS]),
        "n_stopped": 0,
        "interrupted": False,
        "chains_kept": [1],
    }
