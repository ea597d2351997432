"""What `sampler="auto"` stands for: the sampler that suits a target, and why."""

from typing import Any, NamedTuple

import numpy as np

from stanadapt.engine.registry import find
from stanadapt.errors import StanadaptError, warn
from stanadapt.runs.gradient_check import gradient_problem
from stanadapt.samplers.initial_values import initial_positions
from stanadapt.targets.target import Samplable

AUTO, DEFAULT, WITHOUT_GRADIENT = "auto", "whitened_hmc", "am"
ABOUT_AUTO = (
    f"The default: {DEFAULT} where the density has a usable gradient, else {WITHOUT_GRADIENT}."
)
# the check has its own random numbers: those of the chains are not touched
CHECK_SEED, POSITIONS = 20_140, 3


class Choice(NamedTuple):
    """Name of the sampler or its Settings, and the reason as part of a sentence."""

    sampler: Any
    reason: str


def choose_sampler(target: Samplable, asked: Any = AUTO) -> Choice:
    """Return what was asked for; for "auto", find out what suits, and warn if not the default."""
    if not (isinstance(asked, str) and asked == AUTO):
        return Choice(asked, "asked for")
    choice = _suitable(target)
    if choice.sampler != DEFAULT:
        warn(f"{choice.sampler} was chosen, which needs no gradient: {choice.reason}.")
    return choice


def require_sampler(name: str, /, **settings: Any) -> None:
    """Raise StanadaptError for a name or a setting that does not exist, before anything runs."""
    find(DEFAULT if name == AUTO else name, **settings)


def names_of_settings(name: str) -> set[str]:
    """Names that settings of a sampler may have, those they had before among them."""
    sampler, settings = find(DEFAULT if name == AUTO else name)
    return {*settings._fields, *sampler.old_settings, *sampler.setting_aliases}


def without_gradient(target: Samplable) -> str:
    """Say why gradients of a density cannot be used; "" where they can, or could not be checked.

    About 100 evaluations at random positions near the origin.
    """
    noise = target.target.noise
    if noise:
        return f"the density is an estimate with noise {', '.join(noise)}"
    try:
        return gradient_problem(target, _positions(target))
    except StanadaptError:  # where chains start, this is said in full
        return ""


def _positions(target: Samplable) -> np.ndarray:
    rngs = [np.random.default_rng((CHECK_SEED, i)) for i in range(POSITIONS)]
    return np.array(initial_positions(target, None, rngs))


def _suitable(target: Samplable) -> Choice:
    if target.target.noise:
        return Choice(WITHOUT_GRADIENT, without_gradient(target))
    try:
        positions = _positions(target)
    except StanadaptError:
        return Choice(DEFAULT, "the gradient could not be checked at random positions")
    problem = gradient_problem(target, positions)
    if problem:
        return Choice(WITHOUT_GRADIENT, problem)
    return Choice(DEFAULT, "the density has a gradient")
