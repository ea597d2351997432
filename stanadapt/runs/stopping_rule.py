"""When a run has enough draws, and how many iterations it needs otherwise.

A run of default length continues until its fit is usable, if that is within reach; a run with
`until_ess` until the smallest effective sample size is reached and R-hat is below its limit, one
with `until_mcse` until means with control variates are precise as well.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from stanadapt.diagnostics.control_variates.tail_shape import tail_shape
from stanadapt.diagnostics.mixing import (
    R_HAT,
    Mixing,
    limits,
    measure_mixing,
    measure_worst,
    mixing,
)
from stanadapt.diagnostics.screening import is_constant
from stanadapt.engine.chain import Chain
from stanadapt.engine.plan import Plan
from stanadapt.engine.protocol import Sampler
from stanadapt.errors import StanadaptError, is_real
from stanadapt.runs.controlled import worst_mean
from stanadapt.runs.progress import parameters_so_far
from stanadapt.runs.workers import require_executor
from stanadapt.targets.target import Target

# growth of a run in one step, and the margin added to what seems to be missing
LEAST_GROWTH, MOST_GROWTH, MARGIN = 1.2, 3.0, 1.1
# the most iterations of a run of default length, in units of that length
MOST_BY_DEFAULT = 4
# a run comes no closer to its target if after this many extensions it still lacks more than this
# share of the draws that it lacked before them
STALLED_AFTER, LEFT = 3, 0.9
# iterations with which a run with `until_mcse` begins, unless a number is given
FIRST_LENGTH = 100
# draws per chain to which a run extends for the errors of means, once it has been extended
MOST_FOR_MEANS = 100_000
NO_MEAN = 0.7  # shape of a tail from which draws cannot estimate a mean


class Shortfall(NamedTuple):
    """What a run lacks."""

    # per chain, in all, that should suffice; the plan's own number if the draws do, or if more of
    # them would not help
    iter_sampling: int
    reason: str  # the shortage, for a message
    missing: float = 1.0  # how many times as many draws the run needs; inf if that is not known
    of_means: bool = False  # whether only the errors of means are too large


def with_stopping_rule(
    plan: Plan, until_ess: float | None, until_mcse: float | None, of_default_length: Sampler | None
) -> Plan:
    """Return the plan with a target for the effective sample size, and for the errors of means.

    It is the one that the user gave, if any. Otherwise a run `of_default_length`, whose number of
    iterations the user left to this sampler, grows until the verdict finds enough draws, or is too
    far from that.
    """
    usable = limits(plan.chains)[1]
    if until_ess is not None or until_mcse is not None:
        size, error = float(until_ess or usable), float(until_mcse or 0.0)
        return plan._replace(until_ess=size, until_mcse=error, most_iterations=0)
    sampler = of_default_length
    if not (sampler and sampler.exact and sampler.extends):
        return plan
    most = MOST_BY_DEFAULT * plan.iter_sampling
    return plan._replace(until_ess=usable, most_iterations=most)


def shortfall(target: Target, chains: list[Chain]) -> Shortfall:
    """Compare the draws of finished chains with the plan's target."""
    plan, running = chains[0].plan, [chain for chain in chains if not chain.stopped]
    if not plan.until_ess or not running:
        return Shortfall(plan.iter_sampling, "")
    draws = parameters_so_far(target, running)
    found = lacking(plan, draws)
    if not plan.until_mcse or found.iter_sampling > plan.iter_sampling:
        return found
    return lacking_precision(plan, draws, running)


def lacking_precision(
    plan: Plan, draws: Mapping[str, np.ndarray], chains: list[Chain]
) -> Shortfall:
    """Compare the errors of means with control variates with the plan's target."""
    moving = {name: x for name, x in draws.items() if not is_constant(x)}
    if not moving:
        return Shortfall(plan.iter_sampling, "")
    rows = next(iter(moving.values())).shape[1]
    positions = np.stack([np.asarray(chain.sampling.unconstrained)[:rows] for chain in chains])
    gradients = np.stack([chain.sampling.extra[:rows] for chain in chains])
    name, error = worst_mean(positions, gradients, moving)
    if error <= plan.until_mcse:
        return Shortfall(plan.iter_sampling, "")
    missing = MARGIN * (error / plan.until_mcse) ** 2
    reason = f"the standard error of the mean of {name} was {error:.2g} standard deviations"
    shape = tail_shape(moving[name].reshape(-1, 1))[0]
    if shape >= NO_MEAN:
        missing = np.inf
        reason = (
            f"the tails of {name} are so heavy (Pareto k = {shape:.2f}) that it has no mean, or "
            "none that draws can estimate"
        )
    growth = float(np.clip(missing, LEAST_GROWTH, MOST_GROWTH))
    return Shortfall(_rounded(plan, growth), reason, float(missing), True)


def lacking(
    plan: Plan, draws: Mapping[str, np.ndarray], measure: Callable[[np.ndarray], Mixing] = mixing
) -> Shortfall:
    """Compare draws of parameters, by name and of shape (chain, draw), with the plan's target.

    The smallest bulk and tail effective sample size must be `until_ess`, and R-hat below its limit;
    both R-hat - 1 and the inverse of a size fall with the number of draws.
    """
    enough = Shortfall(plan.iter_sampling, "")
    columns = {name: x for name, x in draws.items() if not is_constant(x)}
    if not columns:
        return enough
    # of hundreds of columns, measure the few that the verdict will measure
    measured = (
        measure_worst(columns, measure=measure)
        if plan.most_iterations
        else measure_mixing(columns, measure)
    )
    r_hats, bulks, tails = np.array(list(measured.values())).T
    smallest = min(bulks.min(), tails.min())
    r_hat = r_hats.max() if len(next(iter(columns.values()))) > 1 else 1.0
    if smallest >= plan.until_ess and r_hat < R_HAT:
        return enough
    missing = MARGIN * max(plan.until_ess / smallest, (r_hat - 1.0) / (R_HAT - 1.0))
    if not np.isfinite(missing):  # a chain that did not move
        missing = np.inf
    if plan.most_iterations and missing * plan.iter_sampling > plan.most_iterations:
        return enough
    reason = f"the smallest bulk or tail ESS was {smallest:.0f}, the largest R-hat {r_hat:.3f}"
    growth = float(np.clip(missing, LEAST_GROWTH, MOST_GROWTH))
    return Shortfall(_rounded(plan, growth), reason, float(missing))


def is_out_of_reach(missing: Sequence[float], length: int = 0) -> bool:
    """Whether a run comes no closer to its target, from its shortfall before each extension.

    If chains stay in separate modes, or one does not move, no number of draws is enough. With a
    length, that of a run which lacks only precise means, neither are more than `MOST_FOR_MEANS`.
    """
    if len(missing) >= STALLED_AFTER and missing[-1] * length > MOST_FOR_MEANS:
        return True
    before, after = missing[:-STALLED_AFTER], missing[-STALLED_AFTER:]
    return len(before) > 0 and not min(after) < LEFT * min(before)


def _rounded(plan: Plan, growth: float) -> int:
    """Length of a run that grows, rounded up to two digits, within the limit of its plan."""
    longer = growth * plan.iter_sampling
    unit = 10 ** max(int(np.log10(longer)) - 1, 0)
    longer = unit * int(np.ceil(longer / unit))
    return min(longer, plan.most_iterations) if plan.most_iterations else longer


def require_limits(until_ess: Any, until_mcse: Any, max_minutes: Any, executor: Any) -> None:
    """Raise StanadaptError unless the arguments that end a run, or run it, are of their kinds."""
    limits = {"until_ess": until_ess, "until_mcse": until_mcse, "max_minutes": max_minutes}
    for name, value in limits.items():
        if value is not None and not (is_real(value) and 0 < value < np.inf):
            raise StanadaptError(
                "out_of_range", f"{name} must be a positive number, got {value!r}."
            )
    if until_mcse is not None and until_mcse >= 1:
        raise StanadaptError(
            "out_of_range",
            f"until_mcse is a share of a standard deviation, below 1, got {until_mcse!r}.",
        )
    require_executor(executor)
