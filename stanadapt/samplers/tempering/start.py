"""The hot end of a path that the user gives: `reference_distribution`, `prior_data` of `sample`."""

import os
from collections.abc import Callable
from os import PathLike
from typing import Any

import numpy as np

from stanadapt import results
from stanadapt.engine.plan import Plan
from stanadapt.engine.protocol import Sampler
from stanadapt.engine.registry import names_of
from stanadapt.engine.starts import PRIOR_HANDLES, ChainInit, Cost, StartOption, register_start
from stanadapt.errors import StanadaptError
from stanadapt.samplers.tempering.path import DISTRIBUTION, PRIOR, TemperingPath
from stanadapt.samplers.tempering.pooled_reference import FittedReference, reference_from
from stanadapt.samplers.tempering.reference_distribution import (
    ReferenceDistribution,
    recorded_reference,
)
from stanadapt.samplers.tempering.settings import DEGREES, ReferenceFamily
from stanadapt.samplers.variational.methods import PATHFINDER
from stanadapt.targets.target import Samplable

# added to the description of a reference that comes from the fit in warm_start
KEPT = ", kept from warm_start"
TEMPERING: dict[str, Any] = {
    "used_by": lambda sampler: sampler.tempering is not None, "users": "tempering samplers",
}  # fmt: skip


# --- a reference distribution ---------------------------------------------------------------------


def is_fit_file(source: Any) -> bool:
    """Whether the source of a reference is the file or the run folder of a fit."""
    # os.path.exists is False for names that the system rejects
    is_file = isinstance(source, str) and source != PATHFINDER and os.path.exists(source)
    return is_file or isinstance(source, PathLike)


def kept_reference(fit: Any) -> FittedReference | None:
    """Return the reference that the fit in `warm_start` was given.

    A reference that was learned during warm-up is not used again: it is learned from more draws.
    """
    if not results.is_fit(fit) or results.attribute(fit, "reference_distribution") is None:
        return None
    if "tempering" not in results.group_names(fit):
        return None
    group = results.dataset(fit, "tempering").isel(chain=0)
    kept = recorded_reference(group)
    words = results.attribute(fit, "reference_distribution").removesuffix(KEPT) + KEPT
    return FittedReference(kept, words)


def _with_reference(
    target: Samplable, sampler: Sampler, settings: Any, plan: Plan, source: Any
) -> ChainInit:
    cost = Cost()
    if isinstance(source, ReferenceDistribution):
        reference = source
        description = {"reference_distribution": repr(reference)}
    elif isinstance(source, FittedReference):
        reference = source.distribution
        description = {"reference_distribution": source.description}
    else:
        if settings.reference_family == ReferenceFamily.power:
            raise StanadaptError(
                "no_reference",
                f"{sampler.name}: reference_family=power has no reference: leave "
                "reference_distribution out, or use reference_family=gaussian.",
            )
        degrees = DEGREES if settings.reference_family == ReferenceFamily.student_t else np.inf
        fitted = reference_from(
            target, source, settings.inflation, degrees, plan.seed, plan.show_progress
        )
        reference, cost = fitted.distribution, fitted.cost
        description = {"reference_distribution": f"{reference!r}, of {fitted.description}"}
    reference.compiled(target.dim)  # raises if the size is wrong
    return ChainInit(_on_path(target, sampler, reference), description, cost=cost)


def _on_path(
    target: Samplable, sampler: Sampler, reference: ReferenceDistribution, prior: Any = None
) -> Callable[..., Any]:
    """Return the `init` of chains on a path from a reference, or from a target under prior data."""
    assert sampler.tempering is not None
    init_from_path, kind = sampler.tempering.init_from_path, PRIOR if prior else DISTRIBUTION

    def init(density: Any, settings: Any, position: np.ndarray, rng: Any) -> Any:
        handle = prior.density().handle if prior else 0
        path = TemperingPath(density, reference.compiled(target.dim), kind, handle)
        return init_from_path(density, settings, position, rng, path, False)

    return init


# --- the program under prior-only data ------------------------------------------------------------


def _with_prior_data(
    target: Samplable, sampler: Sampler, settings: Any, plan: Plan, data: Any
) -> ChainInit:
    assert sampler.tempering is not None
    if sampler.tempering.draws_reference:
        able = names_of(lambda s: s.tempering and not s.tempering.draws_reference)
        raise StanadaptError(
            "no_reference",
            f"{sampler.name} begins with independent draws from the reference, and the program "
            "under prior-only data cannot provide them: leave prior_data out, give a "
            f"reference_distribution, or use {able}.",
        )
    prior = target.with_prior_data(data)
    # the path has a field for a reference
    init = _on_path(target, sampler, _round_reference(target.dim), prior)
    return ChainInit(init, {"prior_data_hash": prior.data_hash}, prior.data)


def _round_reference(dim: int) -> ReferenceDistribution:
    return ReferenceDistribution(np.zeros(dim), sd=1.0)


register_start(
    "reference_distribution",
    StartOption(
        _with_reference, **TEMPERING, is_fit_file=is_fit_file, joins_warm_start=True,
        kept=kept_reference, make=lambda *given: reference_from(*given).distribution,
        trial=lambda target: _round_reference(target.target.dim),
    ),
)  # fmt: skip
register_start("prior_data", StartOption(_with_prior_data, **TEMPERING))
PRIOR_HANDLES[TemperingPath] = "prior_handle"
