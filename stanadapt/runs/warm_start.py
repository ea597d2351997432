"""How chains begin: afresh, from an earlier fit's draws, on a path or with a network."""

from collections.abc import Callable
from os import PathLike
from typing import Any, NamedTuple

import numpy as np

from stanadapt import results
from stanadapt.engine.plan import Plan
from stanadapt.engine.protocol import Sampler
from stanadapt.engine.registry import names_of
from stanadapt.errors import StanadaptError, warn
from stanadapt.runs.pooled_reference import FittedReference, reference_from
from stanadapt.samplers.initial_values import positions_of_fit
from stanadapt.samplers.nice.network import Network
from stanadapt.samplers.tempering.path import DISTRIBUTION, PRIOR, TemperingPath
from stanadapt.samplers.tempering.reference_distribution import ReferenceDistribution
from stanadapt.samplers.tempering.settings import DEGREES, ReferenceFamily
from stanadapt.targets.stan import data as stan_data
from stanadapt.targets.target import Samplable

# added to the words on a reference that comes from a fit to begin with
KEPT = ", kept from warm_start"


class GivenStart(NamedTuple):
    """What the user gave chains to begin with, of which at most one may be given.

    Except that samplers that temper may be given a warm_start and a reference_distribution.

    warm_start
        An earlier fit, for samplers that learn from draws.
    reference_distribution, prior_data
        The hot end of a tempering path: see `fit_reference` for what the first may be. Under
        prior_data, every sampler's results have a prior.
    network
        A trained `Network`, or its file.

    """

    warm_start: Any = None
    reference_distribution: Any = None
    prior_data: Any = None
    network: Any = None


class ChainInit(NamedTuple):
    """How every chain begins.

    init
        In place of the sampler's own `init`, where it is not None.
    description
        Attributes of the result.
    prior_data
        As JSON: the program under these data is the prior, and the reference where there is one.
    fitted
        What making the reference has cost.

    """

    init: Callable | None
    description: dict[str, Any]
    prior_data: str | None = None
    fitted: FittedReference | None = None


def choose_chain_init(
    target: Samplable, sampler: Sampler, settings: Any, plan: Plan, given: GivenStart
) -> ChainInit:
    """Check what `sample` was given to begin with, and return how chains begin."""
    if sampler.tempering is None and given.prior_data is not None:
        without = given._replace(prior_data=None)
        begun = choose_chain_init(target, sampler, settings, plan, without)
        prior = target.with_prior_data(given.prior_data)
        described = {**begun.description, "prior_data_hash": stan_data.digest(prior.data)}
        return ChainInit(begun.init, described, prior.data)
    named = [name for name, value in given._asdict().items() if value is not None]
    if sampler.tempering is not None and named == ["warm_start", "reference_distribution"]:
        start = _with_warm_start(target, sampler, given.warm_start)
        begun = _with_reference(target, sampler, settings, plan, given.reference_distribution)
        return begun._replace(description={**begun.description, **start.description})
    if len(named) > 1:
        raise StanadaptError("settings", f"give only one of {' and '.join(named)}.")
    if not named:
        return ChainInit(None, {"warm_start_draws": 0})
    if given.warm_start is not None:
        return _with_warm_start(target, sampler, given.warm_start)
    if given.network is not None:
        return _with_network(target, sampler, given.network)
    if sampler.tempering is None:
        able = names_of(lambda s: s.tempering)
        raise StanadaptError(
            "settings",
            f"{sampler.name} has no use for {named[0]}, which is for samplers that temper "
            f"({able}): leave it out.",
        )
    if given.reference_distribution is not None:
        return _with_reference(target, sampler, settings, plan, given.reference_distribution)
    if sampler.tempering.draws_reference:
        able = names_of(lambda s: s.tempering and not s.tempering.draws_reference)
        raise StanadaptError(
            "settings",
            f"{sampler.name} begins with independent draws of the reference, which a program with "
            "prior-only data cannot give: leave prior_data out, give a reference_distribution, or "
            f"use {able}.",
        )
    return _with_prior_data(target, sampler.tempering.init_from_path, given.prior_data)


def _with_warm_start(target: Samplable, sampler: Sampler, fit: Any) -> ChainInit:
    if not target.moves_parameters:
        raise StanadaptError(
            "settings",
            f"{target!r} has no earlier positions of its own: leave `warm_start` out. (`inits` may "
            "be an earlier fit of its program.)",
        )
    if sampler.init_from_draws is None:  # its scales are used: see `scales_of_fit`
        return ChainInit(None, {"warm_start_draws": len(positions_of_fit(target.target, fit))})
    positions, init_from_draws = positions_of_fit(target.target, fit), sampler.init_from_draws

    def init(density: Any, settings: Any, position: np.ndarray, rng: Any) -> Any:
        state = sampler.init(density, settings, position, rng)
        return init_from_draws(density, settings, state, positions, rng)

    return ChainInit(init, {"warm_start_draws": len(positions)})


def starting_values(inits: Any, sampler: Sampler, given: GivenStart) -> Any:
    """Return where chains start: where nothing else is said, at draws of the fit in `warm_start`.

    Not those of samplers that learn from these draws, unless their traits say so.
    """
    learns = sampler.init_from_draws is not None and not sampler.traits.starts_at_draws
    return inits if inits is not None or learns else given.warm_start


def with_kept_reference(sampler: Sampler, given: GivenStart) -> GivenStart:
    """Add the reference that the fit in `warm_start` was given, if another is not given now.

    A reference that was learned during warm-up is not kept: it is learned again, from more draws.
    """
    fit, named = given.warm_start, (given.reference_distribution, given.prior_data)
    if sampler.tempering is None or fit is None or named != (None, None):
        return given
    if not results.is_fit(fit) or results.attribute(fit, "reference_distribution") is None:
        return given
    if "tempering" not in results.group_names(fit):
        return given
    group = results.dataset(fit, "tempering").isel(chain=0)
    degrees = float(group["reference_degrees"]) if "reference_degrees" in group else np.inf
    name = "covariance" if "reference_covariance" in group else "sd"
    kept = ReferenceDistribution(
        group["reference_mean"].values,
        degrees=degrees,
        **{name: group[f"reference_{name}"].values},
    )
    words = results.attribute(fit, "reference_distribution").removesuffix(KEPT) + KEPT
    return given._replace(reference_distribution=FittedReference(kept, words))


def _with_reference(
    target: Samplable, sampler: Sampler, settings: Any, plan: Plan, source: Any
) -> ChainInit:
    init_from_path: Any = sampler.tempering and sampler.tempering.init_from_path
    fitted = None
    if isinstance(source, ReferenceDistribution):
        reference = source
        description = {"reference_distribution": repr(reference)}
    elif isinstance(source, FittedReference):
        reference = source.distribution
        description = {"reference_distribution": source.description}
    else:
        fitted = _fitted(target, sampler, settings, plan, source)
        reference = fitted.distribution
        description = {"reference_distribution": f"{reference!r}, of {fitted.description}"}
    reference.compiled(target.dim)  # raises where the size is wrong

    def init(density: Any, settings: Any, position: np.ndarray, rng: Any) -> Any:
        path = TemperingPath(density, reference.compiled(target.dim), DISTRIBUTION, 0)
        return init_from_path(density, settings, position, rng, path, False)

    return ChainInit(init, {"warm_start_draws": 0, **description}, fitted=fitted)


def _fitted(
    target: Samplable, sampler: Sampler, settings: Any, plan: Plan, source: Any
) -> FittedReference:
    """Make the reference, of the family and the spread that the settings ask for."""
    family = settings.reference_family
    if family == ReferenceFamily.power:
        raise StanadaptError(
            "settings",
            f"{sampler.name}: reference_family=power has no reference: leave "
            "reference_distribution out, or use reference_family=gaussian.",
        )
    degrees = DEGREES if family == ReferenceFamily.student_t else np.inf
    return reference_from(
        target, source, settings.inflation, degrees, plan.seed, plan.show_progress
    )


def _with_prior_data(target: Samplable, init_from_path: Callable, data: Any) -> ChainInit:
    prior = target.with_prior_data(data)
    unused = ReferenceDistribution(np.zeros(target.dim), sd=1.0)  # the path has a field for one

    def init(density: Any, settings: Any, position: np.ndarray, rng: Any) -> Any:
        path = TemperingPath(density, unused.compiled(target.dim), PRIOR, prior.density().handle)
        return init_from_path(density, settings, position, rng, path, False)

    digest = stan_data.digest(prior.data)
    description = {"warm_start_draws": 0, "prior_data_hash": digest}
    return ChainInit(init, description, prior.data)


def _with_network(target: Samplable, sampler: Sampler, given: Any) -> ChainInit:
    network = Network.load(given) if isinstance(given, str | PathLike) else given
    _require_use(target, sampler, network)
    trained, compiled = network.description, network.compiled()
    data = stan_data.digest(target.target.data)
    if trained.get("data_hash", data) != data:
        warn(
            f"the network was trained on {target.name} under other data: draws are exact, but "
            "may be far less efficient. If they are, train it anew."
        )
    init_from_network: Any = sampler.init_from_network

    def init(density: Any, settings: Any, position: np.ndarray, rng: Any) -> Any:
        return init_from_network(density, settings, position, rng, compiled)

    return ChainInit(init, {"warm_start_draws": 0, "network": repr(network)})


def _require_use(target: Samplable, sampler: Sampler, network: Any) -> None:
    """Raise StanadaptError unless a network is one, for this program, and the sampler uses it."""
    if sampler.init_from_network is None:
        able = names_of(lambda s: s.init_from_network)
        raise StanadaptError(
            "settings",
            f"{sampler.name} has no use for a network, which is for {able}: leave it out.",
        )
    if not isinstance(network, Network):
        raise StanadaptError(
            "settings", f"network must be a Network, or the file of one, got {network!r}."
        )
    moved = target.dim - target.target.noise_size
    if network.dim != moved:
        raise StanadaptError(
            "settings",
            f"the network moves {network.dim} parameters, but {target.name} has {moved} on the "
            "unconstrained scale: train one for it.",
        )
    ours = target.target.program.hash
    theirs = network.description.get("program_hash", ours)
    if not target.moves_parameters or theirs != ours:
        raise StanadaptError(
            "settings",
            f"the network was trained for {network.description.get('program', 'another program')} "
            f"(hash {theirs}), not for {target!r} (hash {ours}): train one for it.",
        )
