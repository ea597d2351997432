"""Whether a run may end, with enough effective draws and chains that agree; else, how it grows."""

from typing import Any, NamedTuple

import numpy as np

from stanadapt.diagnostics.mixing import of_columns
from stanadapt.diagnostics.screening import worst_columns
from stanadapt.diagnostics.verdict import ESS_PER_CHAIN, R_HAT
from stanadapt.engine.chain import Chain
from stanadapt.engine.plan import Plan
from stanadapt.engine.protocol import Sampler
from stanadapt.errors import StanadaptError, is_real
from stanadapt.runs.progress import parameters_so_far
from stanadapt.targets.target import Target

# by how much a run grows at a time, and how much more than what seems to be missing
LEAST_GROWTH, MOST_GROWTH, MARGIN = 1.2, 3.0, 1.1
# the most iterations that a run of default length grows to by itself, in units of that length
MOST_BY_DEFAULT = 4


class Shortfall(NamedTuple):
    """What a run lacks.

    iter_sampling
        How many iterations per chain, in all, should do; those of the plan where they suffice, or
        where more would be in vain.
    reason
        What is not enough yet, as part of a sentence.

    """

    iter_sampling: int
    reason: str


def until(plan: Plan, until_ess: float | None, of_default_length: Sampler | None) -> Plan:
    """Return a plan that grows as was asked for; else until it is usable, if the sampler may."""
    if until_ess is not None:
        return plan._replace(until_ess=float(until_ess))
    sampler = of_default_length
    return until_usable(plan) if sampler and sampler.exact and sampler.draws_on else plan


def until_usable(plan: Plan) -> Plan:
    """Return a plan that grows until the verdict finds enough draws, or is too far from that."""
    most = MOST_BY_DEFAULT * plan.iter_sampling
    return plan._replace(until_ess=float(ESS_PER_CHAIN * plan.chains), most_iterations=most)


def shortfall(target: Target, chains: list[Chain]) -> Shortfall:
    """Compare the draws of chains that are done with what their plan wants of them.

    The smallest bulk and tail effective sample size of the parameters must be `until_ess`, and
    R-hat below 1.01; both R-hat - 1 and the inverse of a size fall with the number of draws.
    """
    plan, kept = chains[0].plan, [chain for chain in chains if not chain.stopped]
    enough = Shortfall(plan.iter_sampling, "")
    if not plan.until_ess or not kept:
        return enough
    columns = parameters_so_far(target, kept)
    columns = {name: x for name, x in columns.items() if not np.all(x == x.flat[0])}
    if plan.most_iterations:  # no more is measured than the verdict will: of hundreds, a few
        columns = {name: columns[name] for name in worst_columns(columns)}
    if not columns:
        return enough
    r_hats, bulks, tails = np.array(list(of_columns(columns).values())).T
    smallest = min(bulks.min(), tails.min())
    r_hat = r_hats.max() if len(kept) > 1 else 1.0
    if smallest >= plan.until_ess and r_hat < R_HAT:
        return enough
    missing = MARGIN * max(plan.until_ess / smallest, (r_hat - 1.0) / (R_HAT - 1.0))
    if not np.isfinite(missing):  # a chain that did not move
        missing = np.inf
    if plan.most_iterations and missing * plan.iter_sampling > plan.most_iterations:
        return enough
    reason = f"effective sample sizes down to {smallest:.0f}, R-hat up to {r_hat:.3f}"
    return Shortfall(_rounded(plan, float(np.clip(missing, LEAST_GROWTH, MOST_GROWTH))), reason)


def _rounded(plan: Plan, growth: float) -> int:
    """Return the length of a run that grows, in two digits, within what its plan allows."""
    longer = growth * plan.iter_sampling
    unit = 10 ** max(int(np.log10(longer)) - 1, 0)
    longer = unit * int(np.ceil(longer / unit))
    return min(longer, plan.most_iterations) if plan.most_iterations else longer


def require_limits(until_ess: Any, max_minutes: Any) -> None:
    """Raise StanadaptError, stage "settings", unless they are None or numbers above zero."""
    for name, value in (("until_ess", until_ess), ("max_minutes", max_minutes)):
        if value is not None and not (is_real(value) and 0 < value < np.inf):
            raise StanadaptError("settings", f"{name} must be a number above zero, got {value!r}.")
