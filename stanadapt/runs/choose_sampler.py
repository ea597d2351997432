"""The sampler that suits a target, and whether one that was asked for does.

`sampler="auto"` is the default sampler unless `gradient_check` finds a fault of the gradient.
"""

from typing import Any, NamedTuple

import numpy as np

from stanadapt.engine.plan import Plan
from stanadapt.engine.protocol import AUTO, KEEP_GRADIENT, PRESET, Sampler
from stanadapt.engine.registry import find, names_of
from stanadapt.errors import Message, StanadaptError, warn
from stanadapt.runs.gradient_check import gradient_problem
from stanadapt.samplers.initial_values import initial_positions
from stanadapt.targets.pseudo_samples import require_unreserved_names
from stanadapt.targets.target import Samplable, Target

DEFAULT, WITHOUT_GRADIENT = "whitened_hmc", "am"
ABOUT_AUTO = (
    f"The default: {DEFAULT} if the density has a usable gradient, {WITHOUT_GRADIENT} otherwise."
)
# the check has its own random numbers: those of the chains are not touched
CHECK_SEED, POSITIONS = 20_140, 3


class Choice(NamedTuple):
    """Name of the sampler, or its Settings, and the reason for a message."""

    sampler: Any
    reason: str


def choose_sampler(target: Samplable, asked: Any = AUTO, seed: int = CHECK_SEED) -> Choice:
    """Return the named sampler; for "auto", one that suits, with a warning if not the default."""
    if not (isinstance(asked, str) and asked == AUTO):
        return Choice(asked, "asked for")
    choice = _suitable(target, seed)
    if choice.sampler != DEFAULT:
        text = f"{choice.sampler} was chosen, which needs no gradient: {choice.reason}."
        warn(Message("sampler_chosen", text))
    return choice


def require_sampler(name: str, /, **settings: Any) -> None:
    """Raise StanadaptError for a name or a setting that does not exist, before anything runs."""
    find(DEFAULT if name == AUTO else name, **settings)


def names_of_settings(name: str) -> set[str]:
    """Names that settings of a sampler may be given by, `preset` included if it has presets."""
    sampler, settings = find(DEFAULT if name == AUTO else name)
    return {*settings._fields, *sampler.setting_aliases, *([PRESET] if sampler.presets else [])}


def without_gradient(target: Samplable) -> str:
    """Return why gradients of a density cannot be used; "" if they can, or were not checked.

    About 100 evaluations at random positions near the origin.
    """
    return "" if (choice := _suitable(target)).sampler == DEFAULT else choice.reason


def _suitable(target: Samplable, seed: int = CHECK_SEED) -> Choice:
    noise = target.target.noise
    if noise:
        return Choice(WITHOUT_GRADIENT, f"the density is an estimate with noise {', '.join(noise)}")
    rngs = [np.random.default_rng((seed, i)) for i in range(POSITIONS)]
    try:
        positions = np.array(initial_positions(target, None, rngs))
    except StanadaptError:  # reported in full when chains start
        return Choice(DEFAULT, "the gradient could not be checked at random positions")
    problem = gradient_problem(target, positions)
    if problem:
        return Choice(WITHOUT_GRADIENT, problem)
    return Choice(DEFAULT, "the density has a gradient")


def require_suitable(
    target: Samplable, sampler: Sampler, settings: Any, plan: Plan, saves_pseudo: bool
) -> None:
    """Raise StanadaptError if the sampler, or a request to it, does not suit the target."""
    _require_exact(target.target, sampler)
    if target.in_batches and not sampler.samples_batches:
        raise StanadaptError(
            "sampler_not_for_target",
            f"{sampler.name} needs the density of all rows, but {target!r} estimates it from some: "
            f"sample the Target itself, or use {names_of(lambda s: s.samples_batches)}.",
        )
    _require_threads(sampler, settings, plan.threads_per_chain)
    if not saves_pseudo:
        return
    if not target.has_pseudo_samples and sampler.extra_output in (None, KEEP_GRADIENT):
        raise StanadaptError(
            "option_not_used",
            f"save='pseudo' keeps pseudo-samples, but {sampler.name} has none for {target.name}: "
            "leave it out, sample Extended(target), or use the sampler pseudo_extended.",
        )
    require_unreserved_names(target.target)


def require_gradients(sampler: Sampler, of_program: bool, request: str) -> None:
    """Raise StanadaptError unless the sampler has gradients of the density of the program."""
    if sampler.extra_output is not KEEP_GRADIENT:
        problem = f"{sampler.name} has none that it could keep"
    elif not of_program:
        problem = f"{sampler.name} has those of other coordinates here (see standardize)"
    else:
        return
    raise StanadaptError(
        "option_not_used",
        f"{request} needs the gradients that a sampler has at its draws, but {problem}: leave it "
        "out; `expectations` evaluates them after the run.",
    )


def _require_exact(target: Target, sampler: Sampler) -> None:
    """Raise StanadaptError if the noise of an estimated density would bias the sampler."""
    obstacle = ""
    if sampler.uses_gradient:
        obstacle = "follows gradients"
    elif sampler.tempering is not None:
        obstacle = "raises the density to powers"
    elif not sampler.exact_on_estimates:
        obstacle = "evaluates the density several times in one move"
    if target.noise and obstacle:
        usable = names_of(lambda s: s.uses_gradient is False and s.exact_on_estimates)
        raise StanadaptError(
            "sampler_not_for_target",
            f"{sampler.name} {obstacle}, but the density of {target.name} is an estimate "
            f"with noise {', '.join(target.noise)}. Use a sampler that is exact on estimates "
            f"({usable}), or make the target without `noise` to sample both.",
        )


def _require_threads(sampler: Sampler, settings: Any, threads: int) -> None:
    """Raise StanadaptError if there are more threads per chain than moves to share."""
    if threads == 1:
        return
    most = 1 if sampler.threading is None else sampler.threading.max_threads(settings)
    if threads <= most:
        return
    why = f"{sampler.name} with these settings has {most} moves per iteration: use no more threads"
    if sampler.threading is None:
        why = (
            f"{sampler.name} makes one move at a time, so a chain can use only one thread. Use "
            "more chains, or a sampler with several moves per iteration "
            f"({names_of(lambda s: s.threading)})"
        )
    raise StanadaptError("too_many_threads", f"threads_per_chain is {threads}, but {why}.")
