"""Reference distributions for tempering, from Pathfinder or from an earlier fit.

A reference must cover every mode. It has the mean and the covariance of all paths of Pathfinder
together, each with the same weight, or those of all draws of a fit, and is then inflated.
Importance weights are not used: they leave one path where modes differ, and the modes of the others
would lie outside. Paths that ended in a place of no mass are left out by their evidence lower
bounds (ELBO).
"""

import math
import time
from typing import Any, NamedTuple

import numpy as np

from stanadapt import results
from stanadapt.engine.console import slow_step
from stanadapt.engine.density import FAILED_CALLS, GRADIENT_CALLS, VALUE_CALLS
from stanadapt.errors import StanadaptError, warn
from stanadapt.samplers.initial_values import initial_positions, positions_of_fit
from stanadapt.samplers.tempering.reference_distribution import ReferenceDistribution
from stanadapt.samplers.tempering.warmup_rounds import INFLATION_2D
from stanadapt.samplers.variational.gaussian import Gaussian
from stanadapt.samplers.variational.methods import (
    PATHFINDER,
    PathfinderSettings,
    fit_pathfinder,
    gaussians_of,
)
from stanadapt.samplers.variational.pathfinder import mixture_log_density
from stanadapt.targets.target import Samplable

# more than `approximate` has: here a mode that no path reaches is lost
PATHS = 16
# a path counts unless its ELBO lies below the best by more than LEAST_GAP and 1 a parameter: by as
# much a Gaussian may miss the shape of a mode that has its share of the mass
LEAST_GAP, GAP_PER_PARAMETER = 20.0, 1.0
# parameters up to which correlations are kept, each evaluation taking their square; a fit must have
# so many draws for each parameter
LARGEST_DENSE, DRAWS_PER_PARAMETER = 100, 10
FEWEST_DRAWS = 20
# randomness of its own, apart from that of chains
STREAM = 2**20
# by how much log densities at the draws of an approximation may differ, relative to their size
AGREEMENT = 1e-4


class FittedReference(NamedTuple):
    """A reference distribution, what it was made from, and what that cost.

    description
        In words, for the result.
    calls
        Values, gradients, failures, shape (3,).
    seconds, processor_seconds, compile_seconds
        Of the fit; the second of all its threads.

    """

    distribution: ReferenceDistribution
    description: str
    calls: np.ndarray = np.zeros(3, np.int64)
    seconds: float = 0.0
    processor_seconds: float = 0.0
    compile_seconds: float = 0.0


class Moments(NamedTuple):
    """Mean, shape (dim,), and covariance, shape (dim, dim), or variances, shape (dim,)."""

    mean: np.ndarray
    covariance: np.ndarray


def reference_from(
    target: Samplable,
    source: Any,
    inflation: float,
    degrees: float,
    seed: int | None,
    show_progress: bool,
) -> FittedReference:
    """`fit_reference` with arguments that were checked, a fit that was read, and what it cost."""
    if isinstance(source, str) and source == PATHFINDER:
        with slow_step(show_progress, f"Fitting the reference to {target.name} by {PATHFINDER}"):
            moments, words, spent = _of_pathfinder(target, seed)
    else:
        (moments, words), spent = _of_fit(target, source), {}
    factor = inflation or INFLATION_2D ** math.sqrt(2.0 / target.dim)
    mean, covariance = moments.mean, moments.covariance * factor**2
    if covariance.ndim == 1:
        distribution = ReferenceDistribution(mean, sd=np.sqrt(covariance), degrees=degrees)
    else:
        distribution = ReferenceDistribution(mean, covariance=covariance, degrees=degrees)
    return FittedReference(distribution, f"{words}, inflated by {factor:.3g}", **spent)


def _of_pathfinder(target: Samplable, seed: int | None) -> tuple[Moments, str, dict[str, Any]]:
    program = target.target
    if program.noise:
        raise StanadaptError(
            "settings",
            f"reference_distribution='{PATHFINDER}' follows gradients, but the density of "
            f"{program.name} is an estimate with noise {', '.join(program.noise)}: give a "
            "ReferenceDistribution, or leave it out, and it is learned during warm-up.",
        )
    sources = np.random.SeedSequence(seed, spawn_key=(STREAM,)).spawn(PATHS)
    rngs = [np.random.default_rng(one) for one in sources]
    starts = initial_positions(target, None, rngs)
    settings, began = PathfinderSettings(paths=PATHS), time.perf_counter()
    try:  # compile, with a climb of one step
        one = [np.random.default_rng(0)]
        fit_pathfinder(target, settings._replace(max_iterations=1), starts[:1], one)
    except StanadaptError:
        pass  # the climbs themselves will say why
    compiled, used = time.perf_counter(), time.process_time()
    fitted = fit_pathfinder(target, settings, starts, rngs)
    for sentence in fitted.remarks:
        warn(f"reference_distribution: {sentence}")
    highest = fitted.elbo.max(axis=1, where=np.isfinite(fitted.elbo), initial=-np.inf)
    # paths without a Gaussian have no ELBO either
    kept = parts_of_mass(fitted.parts, highest[np.isfinite(highest)])
    every = [VALUE_CALLS, GRADIENT_CALLS, FAILED_CALLS]
    spent = {
        "calls": np.sum([density.calls[every] for density in fitted.densities], axis=0),
        "seconds": time.perf_counter() - compiled,
        "processor_seconds": time.process_time() - used,
        "compile_seconds": compiled - began,
    }
    words = f"{PATHFINDER}: {len(kept)} of {PATHS} paths"
    return pooled_moments(kept), words, spent


def parts_of_mass(parts: list[Gaussian], elbo: np.ndarray) -> list[Gaussian]:
    """Leave out Gaussians whose ELBO says that they hold no mass that counts; shape (part,)."""
    if len(elbo) != len(parts):  # the ELBO of a method with other rows
        return parts
    gap = LEAST_GAP + GAP_PER_PARAMETER * parts[0].dim
    return [part for part, own in zip(parts, elbo, strict=True) if own >= elbo.max() - gap]


def pooled_moments(parts: list[Gaussian]) -> Moments:
    """Moments of the mixture of Gaussians with equal weights: spread within and between them."""
    locations = np.stack([part.location for part in parts])
    mean = locations.mean(axis=0)
    between = locations - mean
    if len(mean) > LARGEST_DENSE:
        within = np.mean([part.sd() ** 2 for part in parts], axis=0)
        return Moments(mean, within + np.mean(between**2, axis=0))
    within = np.mean([part.covariance() for part in parts], axis=0)
    covariance = within + between.T @ between / len(parts)
    return Moments(mean, (covariance + covariance.T) / 2.0)


def _of_fit(target: Samplable, fit: Any) -> tuple[Moments, str]:
    program = target.target
    if not results.is_fit(fit):
        raise StanadaptError(
            "settings",
            f"reference_distribution must be a ReferenceDistribution(mean, sd), '{PATHFINDER}', an "
            f"earlier fit or approximation, or its file, got {fit!r}.",
        )
    if program is not target:
        raise StanadaptError(
            "settings",
            f"reference_distribution: {target!r} has coordinates of its own, in which no fit of "
            f"{program.name} is: give a ReferenceDistribution, or '{PATHFINDER}'.",
        )
    draws = positions_of_fit(program, fit, "reference_distribution")
    name = results.attribute(fit, "sampler", "Stan")
    if "approximation" in results.group_names(fit):
        parts = gaussians_of(fit)
        _require_coordinates(program.name, fit, parts, draws)
        elbo = results.dataset(fit, "approximation").get("elbo")
        rows = np.empty(0) if elbo is None else np.nanmax(elbo.values, axis=1)
        kept = parts_of_mass(parts, rows)
        return pooled_moments(kept), f"an approximation by {name}: {len(kept)} Gaussians"
    draws = draws[np.isfinite(draws).all(axis=1)]
    if len(draws) < FEWEST_DRAWS or not np.all(np.ptp(draws, axis=0) > 0.0):
        raise StanadaptError(
            "settings",
            f"reference_distribution: the fit has {len(draws)} finite draws, or a parameter that "
            f"never moved; at least {FEWEST_DRAWS} different ones are needed for a spread.",
        )
    n, dim = draws.shape
    dense = dim <= LARGEST_DENSE and n >= DRAWS_PER_PARAMETER * dim
    spread = np.cov(draws, rowvar=False).reshape(dim, dim) if dense else draws.var(axis=0, ddof=1)
    return Moments(draws.mean(axis=0), spread), f"{n} draws of a fit by {name}"


def _require_coordinates(name: str, fit: Any, parts: list[Gaussian], draws: np.ndarray) -> None:
    """Raise StanadaptError unless an approximation's coordinates are those of the target.

    They depend on Stan's version (simplexes) and on bounds, which data may set. The log densities
    that the result holds tell: at its own draws they must come out again.
    """
    own = results.dataset(fit, "sample_stats")["lp_approx"].values[0]
    chosen = np.linspace(0, len(own) - 1, len(draws)).astype(int)
    if parts[0].dim == draws.shape[1] and len(draws):
        difference = np.abs(mixture_log_density(parts, draws) - own[chosen])
        if np.nanmedian(difference / (1.0 + np.abs(own[chosen]))) < AGREEMENT:
            return
    raise StanadaptError(
        "settings",
        f"reference_distribution: the unconstrained coordinates of the approximation are not those "
        f"of {name} (it is of another target, version of Stan, or of data that set other bounds): "
        "approximate this target anew.",
    )
