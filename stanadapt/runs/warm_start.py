"""How chains begin: from random positions, an earlier fit, a reference distribution, a network."""

from collections.abc import Callable
from os import PathLike
from typing import Any, NamedTuple

import numpy as np

from stanadapt import results
from stanadapt.engine.plan import Plan
from stanadapt.engine.protocol import Sampler
from stanadapt.engine.registry import names_of
from stanadapt.errors import Message, StanadaptError, warn
from stanadapt.runs.messages import (
    CONFLICTING_STARTS,
    OPTION_NOT_USED,
)
from stanadapt.samplers.initial_values import positions_of_fit
from stanadapt.samplers.nice.messages import NETWORK_OTHER_DATA, WRONG_NETWORK
from stanadapt.samplers.nice.network import Network
from stanadapt.samplers.tempering.messages import NO_REFERENCE
from stanadapt.samplers.tempering.path import DISTRIBUTION, PRIOR, TemperingPath
from stanadapt.samplers.tempering.pooled_reference import FittedReference, reference_from
from stanadapt.samplers.tempering.reference_distribution import ReferenceDistribution
from stanadapt.samplers.tempering.settings import DEGREES, ReferenceFamily
from stanadapt.targets.stan import data as stan_data
from stanadapt.targets.target import Samplable

# added to the description of a reference that comes from the fit in warm_start
KEPT = ", kept from warm_start"


class GivenStart(NamedTuple):
    """The arguments from which chains begin; at most one of them may be given.

    Exception: tempering samplers may be given both a warm_start and a reference_distribution.

    warm_start
        An earlier fit.
    reference_distribution, prior_data
        The hot end of a tempering path: see `fit_reference` for the forms of the first.
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
        Used in place of the sampler's own `init`, unless it is None.
    description
        Attributes of the result.
    prior_data
        JSON: the program under these data is the reference.
    fitted
        The fitted reference, with the cost of making it.

    """

    init: Callable | None
    description: dict[str, Any]
    prior_data: str | None = None
    fitted: FittedReference | None = None


def choose_chain_init(
    target: Samplable, sampler: Sampler, settings: Any, plan: Plan, given: GivenStart
) -> ChainInit:
    """Check the arguments of `sample` from which chains begin, and return how they begin."""
    named = [name for name, value in given._asdict().items() if value is not None]
    if sampler.tempering is not None and named == ["warm_start", "reference_distribution"]:
        start = _with_warm_start(target, sampler, given.warm_start)
        begun = _with_reference(target, sampler, settings, plan, given.reference_distribution)
        return begun._replace(description={**begun.description, **start.description})
    if len(named) > 1:
        raise StanadaptError(CONFLICTING_STARTS, f"give only one of {' and '.join(named)}.")
    if not named:
        return ChainInit(None, {"warm_start_draws": 0})
    if given.warm_start is not None:
        return _with_warm_start(target, sampler, given.warm_start)
    if given.network is not None:
        return _with_network(target, sampler, given.network)
    if sampler.tempering is None:
        able = names_of(lambda s: s.tempering)
        raise StanadaptError(
            OPTION_NOT_USED,
            f"{named[0]} applies only to tempering samplers ({able}); {sampler.name} does not use "
            "it.",
        )
    if given.reference_distribution is not None:
        return _with_reference(target, sampler, settings, plan, given.reference_distribution)
    if sampler.tempering.draws_reference:
        able = names_of(lambda s: s.tempering and not s.tempering.draws_reference)
        raise StanadaptError(
            NO_REFERENCE,
            f"{sampler.name} begins with independent draws from the reference, and the program "
            "under prior-only data cannot provide them: leave prior_data out, give a "
            f"reference_distribution, or use {able}.",
        )
    return _with_prior_data(target, sampler.tempering.init_from_path, given.prior_data)


def _with_warm_start(target: Samplable, sampler: Sampler, fit: Any) -> ChainInit:
    if not target.moves_parameters:
        raise StanadaptError(
            OPTION_NOT_USED,
            f"warm_start does not apply to {target!r}: leave it out. (`inits` may be an earlier "
            "fit of its program.)",
        )
    if sampler.init_from_draws is None:  # its scales are used: see `scales_of_fit`
        return ChainInit(None, {"warm_start_draws": len(positions_of_fit(target.target, fit))})
    positions, init_from_draws = positions_of_fit(target.target, fit), sampler.init_from_draws

    def init(density: Any, settings: Any, position: np.ndarray, rng: Any) -> Any:
        state = sampler.init(density, settings, position, rng)
        return init_from_draws(density, settings, state, positions, rng)

    return ChainInit(init, {"warm_start_draws": len(positions)})


def starting_values(inits: Any, sampler: Sampler, given: GivenStart) -> Any:
    """Return the starting values: by default, draws of the fit in `warm_start`.

    Samplers that learn from these draws start elsewhere, unless their traits say otherwise.
    """
    learns = sampler.init_from_draws is not None and not sampler.traits.starts_at_draws
    return inits if inits is not None or learns else given.warm_start


def with_kept_reference(sampler: Sampler, given: GivenStart) -> GivenStart:
    """Add the reference that the fit in `warm_start` was given, unless another is given.

    A reference that was learned during warm-up is not used again: it is learned from more draws.
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
    reference.compiled(target.dim)  # raises if the size is wrong

    def init(density: Any, settings: Any, position: np.ndarray, rng: Any) -> Any:
        path = TemperingPath(density, reference.compiled(target.dim), DISTRIBUTION, 0)
        return init_from_path(density, settings, position, rng, path, False)

    return ChainInit(init, {"warm_start_draws": 0, **description}, fitted=fitted)


def _fitted(
    target: Samplable, sampler: Sampler, settings: Any, plan: Plan, source: Any
) -> FittedReference:
    """Fit the reference, with the family and the inflation of the settings."""
    family = settings.reference_family
    if family == ReferenceFamily.power:
        raise StanadaptError(
            NO_REFERENCE,
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
            Message(
                NETWORK_OTHER_DATA,
                f"the network was trained on {target.name} under other data: draws are exact, but "
                "may be far less efficient. If they are, train it again.",
            )
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
            OPTION_NOT_USED, f"network applies only to {able}; {sampler.name} does not use it."
        )
    if not isinstance(network, Network):
        raise StanadaptError(
            WRONG_NETWORK, f"network must be a Network, or the file of one, got {network!r}."
        )
    moved = target.dim - target.target.noise_size
    if network.dim != moved:
        raise StanadaptError(
            WRONG_NETWORK,
            f"the network moves {network.dim} parameters, but {target.name} has {moved} on the "
            "unconstrained scale: train one for it.",
        )
    ours = target.target.program.hash
    theirs = network.description.get("program_hash", ours)
    if not target.moves_parameters or theirs != ours:
        raise StanadaptError(
            WRONG_NETWORK,
            f"the network was trained for {network.description.get('program', 'another program')} "
            f"(hash {theirs}), not for {target!r} (hash {ours}): train one for it.",
        )
