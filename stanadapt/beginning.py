"""How chains begin: from nothing, from the draws of an earlier fit, on a path that is given."""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from stanadapt import data as stan_data
from stanadapt import protocol
from stanadapt.errors import StanadaptError
from stanadapt.inits import past_positions
from stanadapt.reference_law import ReferenceLaw
from stanadapt.target import Samplable, Target
from stanadapt.tempered_path import LAW, PRIOR, Path


class Beginning(NamedTuple):
    """How every chain begins.

    init
        In place of the sampler's own `init`, where it is not None.
    description
        Attributes of the result.

    """

    init: Callable | None
    description: dict[str, Any]


def beginning(
    target: Samplable, found: protocol.Sampler, past: Any, law: Any, prior_data: Any
) -> Beginning:
    """Check what `sample` was given to begin with, of which it takes one at most."""
    given = {"past": past, "reference_law": law, "prior_data": prior_data}
    named = [name for name, value in given.items() if value is not None]
    if len(named) > 1:
        raise StanadaptError("settings", f"give only one of {' and '.join(named)}.")
    if past is not None:
        return _with_past(target, found, past)
    if named and found.init_on is None:
        able = [name for name, s in protocol.registered().items() if s.init_on is not None]
        raise StanadaptError(
            "settings",
            f"{found.name} has no use for {named[0]}, as {', '.join(able)} have, which temper: "
            "leave it out.",
        )
    if law is not None:
        return _with_law(target, found, law)
    if prior_data is not None:
        return _with_prior(target, found, prior_data)
    return Beginning(None, {"past_draws": 0})


def _with_past(target: Samplable, found: protocol.Sampler, past: Any) -> Beginning:
    if target.target is not target:
        raise StanadaptError(
            "settings",
            f"{target!r} has no earlier positions of its own: leave `past` out. (`inits` may be "
            "an earlier fit of its program.)",
        )
    if found.recall is None:
        able = [name for name, s in protocol.registered().items() if s.recall is not None]
        raise StanadaptError(
            "settings",
            f"{found.name} does not learn from a past, as {', '.join(able)} does: "
            "leave `past` out. (`inits` may be an earlier fit for every sampler.)",
        )
    positions = past_positions(target, past)

    def init(density: Any, settings: Any, position: np.ndarray, rng: Any) -> Any:
        state = found.init(density, settings, position, rng)
        return found.recall(density, settings, state, positions, rng)

    return Beginning(init, {"past_draws": len(positions)})


def _with_law(target: Samplable, found: protocol.Sampler, law: Any) -> Beginning:
    if not isinstance(law, ReferenceLaw):
        raise StanadaptError(
            "settings", f"reference_law must be a ReferenceLaw(mean, sd), got {law!r}."
        )
    law.law(target.dim)  # raises, where the size is wrong

    def init(density: Any, settings: Any, position: np.ndarray, rng: Any) -> Any:
        path = Path(density, law.law(target.dim), LAW, 0)
        return found.init_on(density, settings, position, rng, path, False)

    return Beginning(init, {"past_draws": 0, "reference_law": repr(law)})


def _with_prior(target: Samplable, found: protocol.Sampler, data: Any) -> Beginning:
    if not isinstance(target, Target):
        raise StanadaptError(
            "settings", f"prior_data are an option of {target!r} itself: give them there."
        )
    prior = target.with_prior_data(data)
    rest = ReferenceLaw(np.zeros(target.dim), sd=1.0)  # the path has a place for one

    def init(density: Any, settings: Any, position: np.ndarray, rng: Any) -> Any:
        path = Path(density, rest.law(target.dim), PRIOR, prior.density().handle)
        return found.init_on(density, settings, position, rng, path, False)

    digest = stan_data.digest(prior.data)
    return Beginning(init, {"past_draws": 0, "prior_data_hash": digest})
