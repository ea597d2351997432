"""The hot end of a path that the user gives: `reference_distribution`, `prior_data` of `sample`.

A reference may be fitted by Pathfinder, or to an earlier fit, and must cover every mode. Its mean
and covariance are those of the mixture of all paths of Pathfinder, with equal weights, or those of
all draws of a fit; its covariance is then inflated. Importance weights are not used: if modes
differ, they select one path, and the reference would not cover the modes of the others. Paths that
ended in a region without mass are excluded by their evidence lower bounds (ELBO).
"""

import math
import os
import time
from collections.abc import Callable
from os import PathLike
from typing import Any, NamedTuple, cast

import numpy as np

from stanadapt import results
from stanadapt.engine.console import slow_step
from stanadapt.engine.density import FAILED_CALLS, GRADIENT_CALLS, VALUE_CALLS
from stanadapt.engine.plan import Plan
from stanadapt.engine.protocol import Sampler
from stanadapt.engine.registry import names_of
from stanadapt.engine.starts import PRIOR_HANDLES, ChainInit, Cost, StartOption, register_start
from stanadapt.errors import Message, StanadaptError, warn
from stanadapt.samplers.initial_values import initial_positions, positions_of_fit
from stanadapt.samplers.tempering.path import DISTRIBUTION, PRIOR, TemperingPath
from stanadapt.samplers.tempering.reference_distribution import (
    ReferenceDistribution,
    recorded_reference,
)
from stanadapt.samplers.tempering.settings import DEGREES, ReferenceFamily
from stanadapt.samplers.tempering.warmup_rounds import INFLATION_2D
from stanadapt.samplers.variational.gaussian import Gaussian
from stanadapt.samplers.variational.methods import (
    PATHFINDER,
    PathfinderSettings,
    fit_pathfinder,
    gaussians_of,
)
from stanadapt.samplers.variational.pathfinder import mixture_log_density
from stanadapt.targets.target import Samplable, require_exact_density

# added to the description of a reference that comes from the fit in warm_start
KEPT = ", kept from warm_start"
TEMPERING: dict[str, Any] = {
    "used_by": lambda sampler: sampler.tempering is not None, "users": "tempering samplers",
}  # fmt: skip


# --- Pathfinder, or an earlier fit, as a reference ------------------------------------------------

# more than the default of `approximate`, because a mode that no path reaches is lost
PATHS = 16
# a path is excluded if its ELBO is below the best by more than LEAST_GAP + 1 per parameter; a
# Gaussian can fall short by that much in a mode with its share of the mass, because of its shape
LEAST_GAP, GAP_PER_PARAMETER = 20.0, 1.0
# correlations are used up to this number of parameters, since an evaluation costs its square, and
# if a fit has this number of draws per parameter
LARGEST_DENSE, DRAWS_PER_PARAMETER = 100, 10
FEWEST_DRAWS = 20
# key of a random stream that is independent of the chains' streams
STREAM = 2**20
# largest difference of log densities at the draws of an approximation, relative to their size
AGREEMENT = 1e-4


class FittedReference(NamedTuple):
    """A reference distribution, its origin in words for the result's attributes, and its cost."""

    distribution: ReferenceDistribution
    description: str
    cost: Cost = Cost()


# mean, shape (dim,), and covariance, shape (dim, dim), or variances, shape (dim,)
Moments = tuple[np.ndarray, np.ndarray]


def reference_from(
    target: Samplable,
    source: Any,
    inflation: float,
    degrees: float,
    seed: int | None,
    show_progress: bool,
) -> FittedReference:
    """Fit a reference as `fit_reference` does, from checked arguments, and record the cost."""
    if isinstance(source, str) and source == PATHFINDER:
        with slow_step(show_progress, f"Fitting the reference to {target.name} by {PATHFINDER}"):
            moments, description, cost = _from_pathfinder(target, seed)
    else:
        (moments, description), cost = _from_fit(target, source), Cost()
    factor = inflation or INFLATION_2D ** math.sqrt(2.0 / target.dim)
    mean, covariance = moments[0], moments[1] * factor**2
    dense = covariance.ndim == 2
    spread: dict[str, Any] = {"covariance": covariance} if dense else {"sd": np.sqrt(covariance)}
    distribution = ReferenceDistribution(mean, degrees=degrees, **spread)
    return FittedReference(distribution, f"{description}, inflated by {factor:.3g}", cost)


def _from_pathfinder(target: Samplable, seed: int | None) -> tuple[Moments, str, Cost]:
    program = target.target
    require_exact_density(
        program, "estimated_density",
        f"reference_distribution='{PATHFINDER}' follows gradients, but ",
        "give a ReferenceDistribution, or leave it out to learn one during warm-up.",
    )  # fmt: skip
    sources = np.random.SeedSequence(seed, spawn_key=(STREAM,)).spawn(PATHS)
    rngs = [np.random.default_rng(source) for source in sources]
    starts = initial_positions(target, None, rngs)
    settings, began = PathfinderSettings(paths=PATHS), time.perf_counter()
    # compile, with a climb of one step
    once = settings._replace(max_iterations=1)
    once.find(target.density(), starts[0], np.random.default_rng(0))
    compiled, used = time.perf_counter(), time.process_time()
    fitted = fit_pathfinder(target, settings, starts, rngs)
    for remark in fitted.remarks:
        warn(cast(Message, remark).extended(prefix="reference_distribution: "))
    parts = parts_of_mass(fitted.parts, highest_elbos(fitted.elbo))
    every = [VALUE_CALLS, GRADIENT_CALLS, FAILED_CALLS]
    cost = Cost(
        calls=np.sum([density.calls[every] for density in fitted.densities], axis=0),
        seconds=time.perf_counter() - compiled,
        processor_seconds=time.process_time() - used,
        compile_seconds=compiled - began,
    )
    return pooled_moments(parts), f"{PATHFINDER}: {len(parts)} of {PATHS} paths", cost


def parts_of_mass(parts: list[Gaussian], elbo: np.ndarray) -> list[Gaussian]:
    """Exclude Gaussians with negligible mass according to their ELBOs, shape (part,)."""
    if len(elbo) != len(parts):  # another method, with ELBOs that are not those of the parts
        return parts
    lowest = elbo.max() - (LEAST_GAP + GAP_PER_PARAMETER * parts[0].dim)
    return [part for part, bound in zip(parts, elbo, strict=True) if bound >= lowest]


def highest_elbos(elbo: np.ndarray) -> np.ndarray:
    """Return the highest ELBO of each path that has one, from an array of shape (path, iteration).

    A path that failed has neither an ELBO nor a Gaussian.
    """
    highest = np.max(elbo, axis=1, where=np.isfinite(elbo), initial=-np.inf)
    return highest[np.isfinite(highest)]


def pooled_moments(parts: list[Gaussian]) -> Moments:
    """Moments of the equally weighted mixture of Gaussians: spread within and between them."""
    locations = np.stack([part.location for part in parts])
    mean = locations.mean(axis=0)
    between = locations - mean
    if len(mean) > LARGEST_DENSE:
        within = np.mean([part.sd() ** 2 for part in parts], axis=0)
        return mean, within + np.mean(between**2, axis=0)
    within = np.mean([part.covariance() for part in parts], axis=0)
    covariance = within + between.T @ between / len(parts)
    return mean, (covariance + covariance.T) / 2.0


def _from_fit(target: Samplable, fit: Any) -> tuple[Moments, str]:
    program = target.target
    if not results.is_fit(fit):
        raise StanadaptError(
            "not_a_reference",
            f"reference_distribution must be a ReferenceDistribution(mean, sd), '{PATHFINDER}', an "
            f"earlier fit or approximation, or its file, got {fit!r}.",
        )
    if program is not target:
        raise StanadaptError(
            "reference_coordinates",
            f"reference_distribution: the coordinates of {target!r} are not those of a fit of "
            f"{program.name}: give a ReferenceDistribution, or '{PATHFINDER}'.",
        )
    draws = positions_of_fit(program, fit, "reference_distribution")
    name = results.attribute(fit, "sampler", "Stan")
    if "approximation" in results.group_names(fit):
        parts = gaussians_of(fit)
        _require_coordinates(program.name, fit, parts, draws)
        elbo = results.dataset(fit, "approximation").get("elbo")
        parts = parts_of_mass(parts, np.empty(0) if elbo is None else highest_elbos(elbo.values))
        return pooled_moments(parts), f"an approximation by {name}: {len(parts)} Gaussians"
    draws = draws[np.isfinite(draws).all(axis=1)]
    if len(draws) < FEWEST_DRAWS or not np.all(np.ptp(draws, axis=0) > 0.0):
        raise StanadaptError(
            "reference_draws",
            f"reference_distribution: the fit has {len(draws)} finite draws, or a parameter that "
            f"never moved; estimating a spread takes at least {FEWEST_DRAWS} different draws.",
        )
    n, dim = draws.shape
    dense = dim <= LARGEST_DENSE and n >= DRAWS_PER_PARAMETER * dim
    spread = np.cov(draws, rowvar=False).reshape(dim, dim) if dense else draws.var(axis=0, ddof=1)
    return (draws.mean(axis=0), spread), f"{n} draws of a fit by {name}"


def _require_coordinates(name: str, fit: Any, parts: list[Gaussian], draws: np.ndarray) -> None:
    """Raise StanadaptError unless an approximation's coordinates are those of the target.

    Coordinates depend on Stan's version (simplexes) and on bounds, which data may set. The
    approximate log densities in the result are computed again at its draws, and must agree.
    """
    recorded = results.dataset(fit, "sample_stats")["lp_approx"].values[0]
    recorded = recorded[np.linspace(0, len(recorded) - 1, len(draws)).astype(int)]
    if parts[0].dim == draws.shape[1] and len(draws):
        difference = np.abs(mixture_log_density(parts, draws) - recorded)
        if np.nanmedian(difference / (1.0 + np.abs(recorded))) < AGREEMENT:
            return
    raise StanadaptError(
        "reference_coordinates",
        "reference_distribution: the unconstrained coordinates of the approximation are not those "
        f"of {name}: it has another target or version of Stan, or its data set other bounds. "
        "Approximate this target.",
    )


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
    if isinstance(source, ReferenceDistribution):
        found = FittedReference(source, repr(source))
    elif isinstance(source, FittedReference):
        found = source
    else:
        if settings.reference_family == ReferenceFamily.power:
            raise StanadaptError(
                "no_reference",
                f"{sampler.name}: reference_family=power has no reference: leave "
                "reference_distribution out, or use reference_family=gaussian.",
            )
        degrees = DEGREES if settings.reference_family == ReferenceFamily.student_t else np.inf
        found = reference_from(
            target, source, settings.inflation, degrees, plan.seed, plan.show_progress
        )
        found = found._replace(description=f"{found.distribution!r}, of {found.description}")
    found.distribution.compiled(target.dim)  # raises if the size is wrong
    init = _on_path(target, sampler, found.distribution)
    return ChainInit(init, {"reference_distribution": found.description}, cost=found.cost)


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
