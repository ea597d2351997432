"""How chains begin: from random positions, an earlier fit, or an argument of a family."""

from collections.abc import Mapping
from os import PathLike
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np

from stanadapt import results
from stanadapt.diagnostics.importance import is_exact
from stanadapt.engine.plan import Plan
from stanadapt.engine.protocol import Sampler
from stanadapt.engine.registry import names_of
from stanadapt.engine.starts import START_OPTIONS, ChainInit, StartOption
from stanadapt.errors import Message, StanadaptError
from stanadapt.runs.load import load, with_run_loaded
from stanadapt.samplers.initial_values import positions_of_fit
from stanadapt.targets.target import Samplable


class GivenStart(NamedTuple):
    """The arguments from which chains begin, read once."""

    warm_start: Any = None  # an earlier fit
    draws: np.ndarray | None = None  # its unconstrained draws, shape (n, dim)
    options: Mapping[str, Any] = MappingProxyType({})  # by the keywords in `START_OPTIONS`

    @property
    def named(self) -> list[str]:
        """Names of the arguments that were given, warm_start first."""
        options = [name for name, value in self.options.items() if value is not None]
        first = [] if self.warm_start is None else ["warm_start"]
        return [*first, *options]


def read_start(
    target: Samplable, sampler: Sampler, warm_start: Any, options: Mapping[str, Any]
) -> GivenStart:
    """Read the arguments from which chains begin: files, fits and their draws.

    At most one of them may be given, except for options that join a warm_start; see
    `StartOption.joins_warm_start`. With a warm_start alone, chains begin from what that fit was
    given too.
    """
    if isinstance(warm_start, str | PathLike):
        warm_start = load(warm_start)
    read = {
        name: load(value) if START_OPTIONS[name].is_fit_file(value) else value
        for name, value in options.items()
    }
    named = GivenStart(warm_start, None, read).named
    joined = [name for name in named if name != "warm_start"]
    options_joined = [START_OPTIONS[name] for name in joined]
    may_join = all(one.joins_warm_start and one.used_by(sampler) for one in options_joined)
    if len(joined) > 1 or (joined != named and not may_join):
        raise StanadaptError("conflicting_starts", f"give only one of {' and '.join(named)}.")
    if warm_start is None:
        return GivenStart(None, None, read)
    if not target.moves_parameters:
        raise StanadaptError(
            "option_not_used",
            f"warm_start does not apply to {target!r}: leave it out. (`inits` may be an earlier "
            "fit of its program.)",
        )
    if not joined:
        read |= {
            name: option.kept(warm_start)
            for name, option in START_OPTIONS.items()
            if option.kept is not None and option.used_by(sampler)
        }
    return GivenStart(warm_start, positions_of_fit(target.target, warm_start), read)


def choose_chain_init(
    target: Samplable, sampler: Sampler, settings: Any, plan: Plan, given: GivenStart
) -> ChainInit:
    """Return how chains begin; StanadaptError for an argument that the sampler does not use."""
    begun = _with_draws(sampler, given.draws)
    fit = given.warm_start if results.is_fit(given.warm_start) else None
    # approximations, and draws that are not exact, are no more than starts anyway
    if fit is not None and is_exact(fit) and results.attribute(fit, "verdict") == "do not use":
        text = (
            "the verdict on the fit in warm_start is 'do not use': where it is wrong, this run may "
            "begin wrong. Sample without warm_start if its verdict is not fine either."
        )
        begun = begun._replace(notes=(Message("doubtful_warm_start", text),))
    for name in given.named:
        if name != "warm_start":
            option = _option_for(name, sampler)
            start = option.chain_init(target, sampler, settings, plan, given.options[name])
            begun = start._replace(
                description={**begun.description, **start.description},
                notes=(*begun.notes, *start.notes),
            )
    return begun


def _option_for(name: str, sampler: Sampler) -> StartOption:
    option = START_OPTIONS[name]
    if option.used_by(sampler):
        return option
    able = names_of(option.used_by)
    users = f"{option.users} ({able})" if option.users else able
    raise StanadaptError(
        "option_not_used", f"{name} applies only to {users}; {sampler.name} does not use it."
    )


def _with_draws(sampler: Sampler, draws: np.ndarray | None) -> ChainInit:
    """Return how chains of a sampler that learns from draws begin; others use their scales."""
    description = {"warm_start_draws": 0 if draws is None else len(draws)}
    init_from_draws = sampler.init_from_draws
    if draws is None or init_from_draws is None:
        return ChainInit(None, description)

    def init(density: Any, settings: Any, position: np.ndarray, rng: Any) -> Any:
        state = sampler.init(density, settings, position, rng)
        return init_from_draws(density, settings, state, draws, rng)

    return ChainInit(init, description)


def starting_values(inits: Any, sampler: Sampler, given: GivenStart) -> Any:
    """Return the starting values: by default, draws of the fit in `warm_start`.

    Samplers that learn from these draws start elsewhere, unless a flag of theirs is set.
    """
    learns = sampler.init_from_draws is not None and not sampler.starts_at_draws
    return with_run_loaded(inits) if inits is not None or learns else given.warm_start
