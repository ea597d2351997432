"""The coordinates in which chains run, and their starting positions.

A pre-run learns location and scales: chains of a sampler that learns them together
(`Warmup.for_scales`) run from the initial values until they are known. The sampler itself
then runs in standardized coordinates (`targets/standardized.py`), from where these chains ended.
Samplers with gradients learn from gradients, those without from values alone, so that a density
without a usable gradient can be sampled.

If a pre-run is asked to straighten the posterior, it also learns a triangular map, if one brings
the posterior nearer to a Gaussian, and the sampler runs in the coordinates of the map.

Alternatively, location and scales come from the draws of an earlier fit, possibly under other data.
At draws of its own posterior, the mean of -g_i (x_i - E x_i) is 1 for every coordinate i, where g
is the gradient of the log density (integrate by parts). If it is far from 1 at the earlier draws,
the posterior's scales have changed, and they are learned again.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from stanadapt.engine.chain import Chain, ChainDesign, compiled_functions
from stanadapt.engine.compilation_progress import compiling
from stanadapt.engine.plan import Plan
from stanadapt.engine.protocol import Sampler
from stanadapt.engine.registry import find
from stanadapt.errors import Message, StanadaptError
from stanadapt.runs.chains import COUNTED, Start, bounds_for
from stanadapt.runs.warm_start import GivenStart
from stanadapt.samplers.whitened.findings import straightening
from stanadapt.samplers.whitened.fisher_metric import (
    diagonal_metric,
    fisher_metric,
    use_standard_deviations,
)
from stanadapt.samplers.whitened.straightened import UNCHANGED
from stanadapt.targets.standardized import Standardized
from stanadapt.targets.target import Samplable, Target

FULL, DIAGONAL, NO, STRAIGHTEN = "full", "diagonal", "no", "straighten"
# the sampler that learns, with gradients and without, and its settings by the coordinates to learn
WITH_GRADIENTS, WITHOUT = "whitened_hmc", "pooled_am"
LEARNERS: dict[tuple[str, str], dict[str, Any]] = {
    (WITH_GRADIENTS, FULL): {"straighten": False},
    (WITH_GRADIENTS, DIAGONAL): {"straighten": False, "metric": "diagonal"},
    (WITH_GRADIENTS, STRAIGHTEN): {},
    (WITHOUT, FULL): {},
    (WITHOUT, DIAGONAL): {"diagonal": True},
}
# fewest iterations of warm-up for a pre-run, and the number above which it gains little
FEWEST, MOST_GRADIENTS = 50, 2000
# a pre-run of fewer iterations is not expected to settle
USUAL_LENGTH = 500
MOST_VALUES, VALUES_PER_DIMENSION, FEWEST_VALUES = 20_000, 300, 3000
# draws of an earlier fit at which gradients are evaluated, evenly spaced; and the fewest of use
DRAWS, FEWEST_DRAWS = 400, 20
# the largest factor by which the mean above may differ from 1
LARGEST_FACTOR = 5.0


def as_given(target: Samplable, positions: list[np.ndarray], why: str) -> Start:
    """Return a Start in the target's own coordinates; attributes record why."""
    return Start.free(target, positions, {"standardized": f"no: {why}"})


class Scales(NamedTuple):
    """Location and scales from an earlier fit."""

    # m and L of standardized coordinates; see `targets/standardized.py`. None if they do not fit
    location: np.ndarray | None
    factor: np.ndarray | None
    evaluations: int  # number of gradients that this took
    misfit: Message | None = None  # a note on why the draws do not fit, if they do not


class CoordinateChoice(NamedTuple):
    """In which coordinates chains are to run."""

    kind: str  # FULL, DIAGONAL, STRAIGHTEN or NO
    why: str  # the reason for NO
    scales: Scales | None = None  # of an earlier fit, in place of a pre-run


def require_kind(standardize: Any) -> None:
    """Raise StanadaptError for a value of `standardize` other than its four."""
    if isinstance(standardize, str) and standardize == STRAIGHTEN:
        return
    if standardize is not None and not isinstance(standardize, bool | np.bool_):
        raise StanadaptError(
            "cannot_standardize",
            f'standardize must be True, False, "{STRAIGHTEN}" or None, got {standardize!r}.',
        )


def choose_coordinates(
    standardize: bool | str | None,
    target: Samplable,
    sampler: Sampler,
    plan: Plan,
    given: GivenStart,
) -> CoordinateChoice:
    """Choose between the program's own coordinates and standardized ones.

    Raises StanadaptError: "cannot_standardize", if it was asked for.
    """
    if isinstance(standardize, str) and standardize == STRAIGHTEN:
        _require_straightening(target, sampler, plan, given)
        return CoordinateChoice(STRAIGHTEN, "")
    require_kind(standardize)
    if not standardize and standardize is not None:
        return CoordinateChoice(NO, "asked for")
    many_modes = sampler.standardize == DIAGONAL or sampler.tempering is not None
    kind = DIAGONAL if many_modes else FULL
    scales = None
    if len(given.named) > 1:  # chains start at the draws of warm_start alone
        given = given._replace(warm_start=None)
    if given.warm_start is not None and given.draws is not None and not sampler.init_from_draws:
        gradient = bool(sampler.uses_gradient)
        # a sampler that learns correlations from all chains needs units alone; rotated coordinates
        # would hide a funnel from the map that it may learn
        diagonal = many_modes or sampler.learns_scales
        scales = scales_of_fit(target.target, given.draws, gradient, diagonal)
        if not scales.misfit:
            return CoordinateChoice(DIAGONAL if diagonal else FULL, "", scales)
        given = given._replace(warm_start=None)
    obstacle = _obstacle(target, sampler, given)
    if obstacle and standardize:
        raise StanadaptError("cannot_standardize", f"standardize: {obstacle}. Leave it out.")
    if standardize is None and sampler.standardize == NO:
        return CoordinateChoice(NO, f"{sampler.name} learns scales on its own", scales)
    if obstacle:
        return CoordinateChoice(NO, obstacle, scales)
    if plan.iter_warmup < FEWEST:
        return CoordinateChoice(NO, f"iter_warmup is below {FEWEST}", scales)
    return CoordinateChoice(kind, "", scales)


def _require_straightening(
    target: Samplable, sampler: Sampler, plan: Plan, given: GivenStart
) -> None:
    """Raise StanadaptError unless a map can be learned for this sampler."""
    obstacle = _obstacle(target, sampler, given)
    if not obstacle and target.target.noise:
        obstacle = "a map is learned from gradients, which an estimated density does not have"
    if not obstacle and plan.iter_warmup < FEWEST:
        obstacle = f"iter_warmup is {plan.iter_warmup}, and at least {FEWEST} are needed"
    if obstacle:
        raise StanadaptError(
            "cannot_standardize", f'standardize="{STRAIGHTEN}": {obstacle}. Leave it out.'
        )


def _obstacle(target: Samplable, sampler: Sampler, given: GivenStart) -> str:
    if not target.moves_parameters:
        return f"{target!r} has other coordinates than its program"
    if given.named:
        return f"{given.named[0]} is given, in the program's own coordinates"
    if sampler.learns_scales:
        return f"{sampler.name} learns scales on its own"
    return ""


def in_scales_of(target: Samplable, scales: Scales, positions: list[np.ndarray]) -> Start:
    """Return a Start in the coordinates that an earlier fit standardizes."""
    assert scales.location is not None
    assert scales.factor is not None
    standardized = Standardized(target, scales.location, scales.factor)
    z = [standardized.standardized(position) for position in positions]
    start = Start.free(standardized, z, {"standardized": f"{standardized.kind}, by warm_start"})
    start.calls[0, 1] = scales.evaluations
    return start


def learn_scales(
    target: Samplable,
    sampler: Sampler,
    kind: str,
    plan: Plan,
    positions: list[np.ndarray],
    rngs: list[np.random.Generator],
    advance: Callable[[list[Chain], ChainDesign], None],
) -> Start:
    """Run chains from these positions until scales are known, and a map if there is to be one.

    `sampler` and `plan` are those of the run for which scales are learned; the generators are used
    only here; `advance` runs chains of a design to their end.
    """
    gradient = bool(sampler.uses_gradient) or kind == STRAIGHTEN
    learned_of = target.target if target.moves_parameters else target
    design = _learning_design(learned_of, gradient, kind, plan)
    with compiling(plan.show_progress, "the pre-run", compiled_functions(design.sampler)):
        chains = []
        for i, (position, rng) in enumerate(zip(positions, rngs, strict=True)):

            def constrain(warming_up: bool, number: int = i) -> Any:
                # nothing is recorded, but workers make their chains with constrainers too
                return learned_of.constrainer(0, number)

            chains.append(Chain(design, learned_of.density(i), position, rng, constrain))
        compile_seconds = chains[0].compile()
    advance(chains, design)
    start = _start(target, kind, positions, chains, sampler.kept_ratio)
    calls = np.array([chain.density.calls[COUNTED] for chain in chains])
    seconds = np.array([[c.warmup_seconds, c.warmup_processor_seconds] for c in chains])
    return start._replace(calls=calls, seconds=seconds, compile_seconds=compile_seconds)


def _learning_design(target: Samplable, gradient: bool, kind: str, plan: Plan) -> ChainDesign:
    name = WITH_GRADIENTS if gradient else WITHOUT
    learner, settings = find(name, **LEARNERS[name, kind])
    assert learner.warmup is not None
    warmup = learner.warmup._replace(revise=learner.warmup.for_scales)
    values = int(np.clip(VALUES_PER_DIMENSION * target.dim, FEWEST_VALUES, MOST_VALUES))
    ceiling = min(plan.iter_warmup, MOST_GRADIENTS if gradient else values)
    plan = plan._replace(iter_warmup=ceiling, iter_sampling=0, save_warmup=False)
    columns = len(target.target.column_names)
    learner = learner._replace(warmup=warmup)
    bounds = bounds_for(target, learner)
    return ChainDesign(learner, settings, plan, columns, bounds=bounds)


def _start(
    target: Samplable, kind: str, positions: list, chains: list[Chain], kept_ratio: float
) -> Start:
    """Start at the ends of these chains; at their beginnings if the sampler looks for modes."""
    running = [chain for chain in chains if not chain.stopped]
    if not running:
        return as_given(target, positions, "every evaluation of the pre-run failed")
    progress = running[0].progress.learned
    if not (np.isfinite(progress.location).all() and np.isfinite(progress.metric.factor).all()):
        return as_given(target, positions, "no finite scales were found")
    factor = progress.metric.factor
    if kind == DIAGONAL:
        factor = np.maximum(factor, _spread(positions, chains, progress.location.size))
        factor = keep_ratios(factor, kept_ratio)
    found = progress.straightened if kind == STRAIGHTEN else UNCHANGED
    rows, _, block = found.straightening
    standardized = Standardized(target, progress.location, factor, rows, block)
    if kind != DIAGONAL:
        positions = [chain.state.current.position for chain in chains]
    iterations = max(chain.n_done for chain in chains)
    description = {"standardized": standardized.kind, "standardization_iterations": iterations}
    description |= straightening(found, target.coordinate_names)
    notes = () if kind == DIAGONAL else _unsettled(chains[0], progress)
    z = [standardized.standardized(position) for position in positions]
    return Start.free(standardized, z, description)._replace(notes=notes)


def keep_ratios(scales: np.ndarray, kept_ratio: float) -> np.ndarray:
    """Return scales to divide by, such that relative scales up to `kept_ratio` remain.

    It is the largest factor, at least 1, between a scale and the geometric mean that remains.
    """
    middle = np.exp(np.mean(np.log(scales)))
    return scales / np.clip(scales / middle, 1.0 / kept_ratio, kept_ratio)


def _spread(positions: list, chains: list[Chain], dim: int) -> np.ndarray:
    """Return how far apart chains began and ended, shape (1, dim): modes may be as far apart.

    Scales learned within modes are those of the modes; a sampler that looks for modes finds fewer
    if it starts within a few of these.
    """
    ends = [chain.state.current.position for chain in chains]
    return np.std([position[:dim] for position in [*positions, *ends]], axis=0)[None]


def _unsettled(chain: Chain, progress: Any) -> tuple[Message, ...]:
    """Return a note if scales are those of chains that had not arrived yet."""
    if progress.settled or chain.plan.iter_warmup < USUAL_LENGTH:
        return ()
    return (
        Message(
            "scales_not_settled",
            "the log density had not settled when the scales were learned: the chains may not "
            "have reached the posterior. Give inits, raise iter_warmup, or compare with "
            "standardize=False.",
        ),
    )


# --- scales of an earlier fit ---------------------------------------------------------------------


def scales_of_fit(target: Target, draws: np.ndarray, gradient: bool, diagonal: bool) -> Scales:
    """Learn from the draws of an earlier fit for the program under its present data.

    Draws are on the unconstrained scale, shape (n, dim). Without the gradient, correlations are
    those of the draws; `diagonal` scales have none.
    """
    if len(draws) < FEWEST_DRAWS:
        return _unusable(
            f"warm_start has {len(draws)} draws, but at least {FEWEST_DRAWS} are needed."
        )
    spread = draws.std(axis=0)
    if not gradient:
        return _checked(draws, spread[None] if diagonal else _shrunk_factor(draws), 0)
    chosen = draws[np.linspace(0, len(draws) - 1, min(len(draws), DRAWS)).astype(int)]
    evaluated = [target.evaluate(position) for position in chosen]
    gradients = np.array([gradient for _, gradient, _ in evaluated])
    fine = np.isfinite([value for value, _, _ in evaluated]) & np.isfinite(gradients).all(axis=1)
    misfit = _misfit(target, chosen[fine], gradients[fine], len(chosen))
    if misfit:
        return _unusable(misfit, len(chosen))
    if diagonal:
        metric = diagonal_metric(chosen[fine], gradients[fine], spread)
        metric = use_standard_deviations(metric, draws)
    else:
        metric = fisher_metric(chosen[fine], gradients[fine], spread)
    return _checked(draws, metric.factor, len(chosen))


def _unusable(why: str, evaluations: int = 0) -> Scales:
    return Scales(None, None, evaluations, Message("scales_changed", why))


def _checked(draws: np.ndarray, factor: np.ndarray, evaluations: int) -> Scales:
    location = draws.mean(axis=0)
    if not (np.isfinite(factor).all() and np.isfinite(location).all() and draws.std(axis=0).all()):
        return _unusable("the draws of warm_start have no finite scales.", evaluations)
    return Scales(location, factor, evaluations)


def _shrunk_factor(draws: np.ndarray) -> np.ndarray:
    """Cholesky factor of the covariance; correlations are shrunk if there are few draws."""
    n, dim = draws.shape
    scales = draws.std(axis=0)
    with np.errstate(divide="ignore", invalid="ignore"):
        correlations = np.nan_to_num(np.corrcoef(draws, rowvar=False)).reshape(dim, dim)
    correlations *= n / (n + dim)
    np.fill_diagonal(correlations, 1.0)
    return np.linalg.cholesky(correlations) * scales[:, None]


def _misfit(target: Target, draws: np.ndarray, gradients: np.ndarray, tried: int) -> str:
    """Return how the posterior differs from that of the draws; "" if they fit."""
    if 2 * len(draws) < tried:
        return (
            f"the log density is not finite at {tried - len(draws)} of {tried} draws of "
            "warm_start, so the scales are learned again."
        )
    with np.errstate(all="ignore"):
        means = -np.mean(gradients * (draws - draws.mean(axis=0)), axis=0)
    # infinite if it is negative or NaN: curved the other way
    factors = np.where(means > 0.0, np.maximum(means, 1.0 / means), np.inf)
    worst = int(np.argmax(factors))
    if factors[worst] <= LARGEST_FACTOR:
        return ""
    name = target.coordinate_names[worst]
    narrower = means[worst] > 1.0 or not means[worst] > 0.0
    return (
        f"the draws of warm_start do not fit: {name} has become "
        f"{'narrower' if narrower else 'wider'} by a factor of {np.sqrt(factors[worst]):.2g}, or "
        "has another shape. The scales are learned again."
    )
