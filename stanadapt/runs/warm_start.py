"""How chains begin: from random positions, an earlier fit, or what a family of samplers takes."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np

from stanadapt.engine.plan import Plan
from stanadapt.engine.protocol import Sampler
from stanadapt.engine.registry import names_of
from stanadapt.engine.starts import START_OPTIONS, ChainInit, StartOption
from stanadapt.errors import StanadaptError
from stanadapt.samplers.initial_values import positions_of_fit
from stanadapt.targets.target import Samplable


class GivenStart(NamedTuple):
    """The arguments from which chains begin; at most one of them may be given.

    Exception: some options may be given with a warm_start; see `StartOption.joins_warm_start`.

    warm_start
        An earlier fit.
    options
        Values of the keywords in `START_OPTIONS`.

    """

    warm_start: Any = None
    options: Mapping[str, Any] = MappingProxyType({})

    @property
    def named(self) -> list[str]:
        """Names of the arguments that were given, warm_start first."""
        options = [name for name, value in self.options.items() if value is not None]
        first = [] if self.warm_start is None else ["warm_start"]
        return [*first, *options]


def choose_chain_init(
    target: Samplable, sampler: Sampler, settings: Any, plan: Plan, given: GivenStart
) -> ChainInit:
    """Check the arguments of `sample` from which chains begin, and return how they begin."""
    named, begun = given.named, ChainInit(None, {"warm_start_draws": 0})
    if len(named) > 1 and not _may_be_joined(named, sampler):
        raise StanadaptError("conflicting_starts", f"give only one of {' and '.join(named)}.")
    if given.warm_start is not None:
        begun = _with_warm_start(target, sampler, given.warm_start)
    for name in named:
        if name != "warm_start":
            option = _option_for(name, sampler)
            start = option.chain_init(target, sampler, settings, plan, given.options[name])
            begun = start._replace(description={**begun.description, **start.description})
    return begun


def _may_be_joined(named: list[str], sampler: Sampler) -> bool:
    """Whether a warm_start and an option may be given together."""
    if len(named) != 2 or named[0] != "warm_start":
        return False
    option = START_OPTIONS[named[1]]
    return bool(option.joins_warm_start and option.used_by(sampler))


def _option_for(name: str, sampler: Sampler) -> StartOption:
    """Return the option of this name; StanadaptError if the sampler does not use it."""
    option = START_OPTIONS[name]
    if option.used_by(sampler):
        return option
    able = names_of(option.used_by)
    users = f"{option.users} ({able})" if option.users else able
    raise StanadaptError(
        "option_not_used", f"{name} applies only to {users}; {sampler.name} does not use it."
    )


def _with_warm_start(target: Samplable, sampler: Sampler, fit: Any) -> ChainInit:
    if not target.moves_parameters:
        raise StanadaptError(
            "option_not_used",
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

    Samplers that learn from these draws start elsewhere, unless they say otherwise.
    """
    learns = sampler.init_from_draws is not None and not sampler.starts_at_draws
    return inits if inits is not None or learns else given.warm_start


def with_kept_options(sampler: Sampler, given: GivenStart) -> GivenStart:
    """Add what the fit in `warm_start` was given to begin from, if nothing else is given."""
    if given.named != ["warm_start"]:
        return given
    found = {
        name: option.kept(given.warm_start)
        for name, option in START_OPTIONS.items()
        if option.kept is not None and option.used_by(sampler)
    }
    return given._replace(options={**given.options, **found})
