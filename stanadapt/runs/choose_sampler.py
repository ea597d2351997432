"""The sampler that suits a target, and whether one that was asked for does.

`sampler="auto"` checks the gradient at a few random positions. Along a random direction it must
agree with differences of the density, for at least one step size at one position: the best step
differs by many orders of magnitude between programs, and a wrong gradient agrees at none. Along the
line between two positions, integrals of the gradient must give the differences of the log density;
if they do not, the line is halved repeatedly, and a difference that remains is a jump. If a
coordinate's gradient is always zero, the density must not change with it: a staircase of small
steps passes the first two checks. Where the density is finite, the gradient must be so too.
"""

from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np

from stanadapt.engine.plan import Plan
from stanadapt.engine.protocol import AUTO, KEEP_GRADIENT, PRESET, Sampler
from stanadapt.engine.registry import find, names_of
from stanadapt.errors import Message, StanadaptError, warn
from stanadapt.samplers.initial_values import initial_positions
from stanadapt.targets.pseudo_samples import require_unreserved_names
from stanadapt.targets.target import Samplable, Target

# steps as shares of the distance between two positions, and how well one of them must agree
STEPS, AGREEMENT = 10.0 ** -np.arange(1.0, 8.0), 0.02
# parts of a line with integrals to be compared, and how often a part is halved at most
PARTS, HALVINGS = 8, 30
# a smaller jump does no harm; one this small against the log density may come from a solver of
# differential equations that takes another step
JUMP, SMALL_SHARE, ROUNDING = 0.5, 1e-3, 1e-13
# coordinates with a zero gradient that are looked at, and places along each
MOST_COORDINATES, PLACES = 20, 12
NODES, WEIGHTS = np.polynomial.legendre.leggauss(3)


class _End(NamedTuple):
    """A point of a line: its share of the way, the log density, and the slope per length."""

    share: float
    log_density: float
    slope: float


@np.errstate(all="ignore")  # comparisons with numbers that are not finite are false
def gradient_problem(target: Samplable, positions: np.ndarray) -> str:
    """Return the fault of the gradient; "" if nothing was found.

    At least two positions are needed, with finite densities, shape (n, dim).
    """
    ends = np.asarray(positions, dtype=float)
    lines = [_Line(target, one, other) for one, other in pairwise(ends)]
    # far from the posterior, a solver of differential equations may itself be inaccurate
    if not any(line.slope_agrees() for line in lines):
        return "the gradient does not agree with differences of the log density"
    cut_off = _without_gradient(lines)
    if cut_off:
        return cut_off
    jump = max((line.jump() for line in lines), key=abs)
    if jump:
        return f"the log density jumps (by {jump:.3g})"
    if _changes_without_gradient(target, ends):
        return "the gradient is zero where the log density is not constant"
    return ""


def _without_gradient(lines: list["_Line"]) -> str:
    """Return why samplers that follow gradients would leave out regions; "" if they would not.

    They reject each position at which the gradient is not finite. One such point on the lines may
    be an accident, of a function that is not differentiable there.
    """
    ends = lines[0].ends[:1] + [end for line in lines for end in line.ends[1:]]
    slopes = np.array([end.slope for end in ends if np.isfinite(end.log_density)])
    missing = np.count_nonzero(~np.isfinite(slopes))
    if missing < 2:
        return ""
    return (
        f"the gradient is not finite at {missing} of {slopes.size} random positions with a finite "
        "log density"
    )


def _changes_without_gradient(target: Samplable, ends: np.ndarray) -> bool:
    """Whether the density changes along a coordinate whose gradient is zero at all positions.

    A staircase may have the same height at two positions, so a dozen are compared.
    """
    gradients = np.array([target.evaluate(end)[1] for end in ends])
    here = target.evaluate(ends[0])[0]
    for i in np.flatnonzero(~gradients.any(axis=0))[:MOST_COORDINATES]:
        low, high = ends[:, i].min(), ends[:, i].max()
        spread = np.linspace(2 * low - high, 2 * high - low, PLACES)
        for place in [*ends[1:, i], *spread]:
            moved = ends[0].copy()
            moved[i] = place
            if np.isfinite(value := target.evaluate(moved)[0]) and value != here:
                return True
    return False


class _Line:
    """The log density and its slope from one position to another."""

    def __init__(self, target: Samplable, one: np.ndarray, other: np.ndarray) -> None:
        self.target, self.one, self.direction = target, one, other - one
        self.ends = [_End(share, *self.at(share)) for share in np.linspace(0.0, 1.0, PARTS + 1)]

    def at(self, share: float) -> tuple[float, float]:
        """Log density, and slope per length of the line."""
        value, gradient, _ = self.target.evaluate(self.one + share * self.direction)
        return value, float(gradient @ self.direction)

    def slope_agrees(self) -> bool:
        """Whether the slope at the beginning agrees with differences; also if none is finite."""
        _, here, slope = self.ends[0]
        compared = False
        for step in STEPS:
            high, low = self.at(step)[0], self.at(-step)[0]
            if not np.isfinite([high, low]).all():
                continue
            difference = (high - low) / (2.0 * step)
            rounding = ROUNDING * max(abs(here), abs(high), abs(low)) / step
            if abs(difference - slope) <= AGREEMENT * max(abs(slope), abs(difference)) + rounding:
                return True
            compared = True
        return not compared

    def jump(self) -> float:
        """Size of the largest jump that was found; 0.0 without any."""
        return max((self._jump_between(*part) for part in pairwise(self.ends)), key=abs)

    def _jump_between(self, one: _End, other: _End) -> float:
        missing = self._missing(one, other)
        for _ in range(HALVINGS):
            if not self._counts(missing, one, other):
                return 0.0
            share = 0.5 * (one.share + other.share)
            middle = _End(share, *self.at(share))
            left, right = self._missing(one, middle), self._missing(middle, other)
            if abs(left) > abs(right):
                other, missing = middle, left
            else:
                one, missing = middle, right
        return missing if self._counts(missing, one, other) else 0.0

    def _missing(self, one: _End, other: _End) -> float:
        """The rise from one end to the other without the integral of the slope."""
        half, middle = 0.5 * (other.share - one.share), 0.5 * (other.share + one.share)
        integral = half * sum(
            weight * self.at(middle + half * node)[1]
            for node, weight in zip(NODES, WEIGHTS, strict=True)
        )
        return other.log_density - one.log_density - integral

    def _counts(self, missing: float, one: _End, other: _End) -> bool:
        size = max(abs(one.log_density), abs(other.log_density))
        return bool(np.isfinite(missing) and abs(missing) > max(JUMP, SMALL_SHARE * size))


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
