"""Check the statistics of a sampler: warm-up, acceptance, divergences, tree depth and energy.

References
----------
Betancourt (2016), arXiv 1604.00695: the energy's Bayesian fraction of missing information (E-BFMI)
is low below 0.3.

"""

import contextlib
from collections.abc import Iterator

import numpy as np

from stanadapt import results
from stanadapt.diagnostics.reasons import (
    DO_NOT_USE,
    FINE,
    SUSPECT,
    TOO_SHORT,
    Reason,
    another_sampler,
    count_draws,
    reason,
)
from stanadapt.results import Fit

# smallest E-BFMI without a warning
BFMI = 0.3
# an acceptance rate is off its target a below FAR_BELOW * a and above 1 - FAR_ABOVE * (1 - a): in
# NUTS, the mean over few leapfrog steps ends well above its target without harm
FAR_BELOW, FAR_ABOVE = 0.5, 0.125
# a fixed trajectory with a smaller acceptance probability counts as rejected; shares of these that
# are worth a remark, and that suggest a region which trajectories enter too rarely
REJECTED, REMARKABLE, MOST_REJECTED = 0.01, 0.005, 0.025
# a share of divergences up to this is only a remark: no fit with so few was wrong in
# `workflows.benchmarks.verdict_study`
FEW_DIVERGENCES = 0.001
# Monte Carlo errors by which the share of draws at hard edges may exceed that of all iterations
ALLOWED_ERRORS = 3.0

Statistics = dict[str, np.ndarray]


def check_sampler_statistics(fit: Fit) -> Iterator[Reason]:
    """Yield the problems that the statistics of a fit show."""
    stats = _statistics(fit)
    yield from _check_warmup(fit)
    yield from _check_acceptance(fit, stats)
    yield from _check_divergences(fit, stats)
    yield from _check_gradient(fit)
    yield from _check_tree_depth(fit, stats)
    yield from _check_energy(stats)


def _statistics(fit: Fit) -> Statistics:
    """Return the statistics with a number for each draw, as floats of shape (chain, draw).

    Those that other libraries leave empty, with NaN throughout, are left out.
    """
    if "sample_stats" not in results.group_names(fit):
        return {}
    found = {}
    for name, variable in results.dataset(fit, "sample_stats").data_vars.items():
        if set(variable.dims) != {"chain", "draw"}:
            continue
        values = variable.transpose("chain", "draw").values  # other libraries use other orders
        # truth values of which some are missing are objects
        with contextlib.suppress(TypeError, ValueError):
            values = values.astype(float)
            if not np.isnan(values).all():
                found[str(name)] = values
    return found


def _check_warmup(fit: Fit) -> Iterator[Reason]:
    """Report a warm-up that the sampler itself marked as unsettled."""
    unsettled = results.attribute(fit, "unsettled")
    if unsettled:
        # R-hat and effective sample sizes show whether it mattered
        cut_short = results.attribute(fit, "warmup_cut_short", 0) == 1
        level = TOO_SHORT if cut_short else FINE
        yield reason(level, "warmup_not_settled", str(unsettled))


def _check_acceptance(fit: Fit, stats: Statistics) -> Iterator[Reason]:
    rates = stats.get("acceptance_rate")
    if rates is None:
        return
    means = rates.mean(axis=1)
    if np.isnan(means).any():
        yield reason(
            DO_NOT_USE,
            "not_finite",
            f"The acceptance rate of chain {int(np.argmax(np.isnan(means))) + 1} is not a number "
            "at some draws: its trajectories failed. Start elsewhere (inits), or use "
            f"{another_sampler(fit)}.",
        )
        return
    worst = int(np.argmin(means))
    if not means[worst] > 0.0:
        yield reason(
            DO_NOT_USE,
            "nothing_accepted",
            f"Chain {worst + 1} accepted no proposal: its step size is too large, or the density "
            "fails everywhere around it. Lengthen warm-up (iter_warmup), or use "
            f"{another_sampler(fit)}.",
        )
        return
    yield from _check_fixed_trajectories(fit, rates)
    target, low, high = _expected_acceptance(fit)
    # a trajectory that ends at an edge is rejected, whatever the step size
    if not target or _hard_edges(fit):
        return
    far = [c for c in range(len(means)) if not low <= means[c] <= high]
    if far:
        c = max(far, key=lambda c: abs(means[c] - target))
        yield reason(
            TOO_SHORT,
            "acceptance_off_target",
            f"The acceptance rate of chain {c + 1} is {means[c]:.2f}, far from its target "
            f"{target:g}: the step size was not adapted well. Lengthen warm-up (iter_warmup).",
        )


def _expected_acceptance(fit: Fit) -> tuple[float, float, float]:
    """Return the target of the acceptance rate and its acceptable range; target 0 if unknown."""
    target = results.attribute(fit, "acceptance_target")
    if target is not None:  # the sampler chose its target itself
        low, high = results.attribute(fit, "acceptance_range")
        return float(target), float(low), float(high)
    settings = results.from_json(fit, "settings", {})
    target = settings.get("target_accept", settings.get("adapt_delta", 0.0))  # the latter is Stan's
    return target, FAR_BELOW * target, 1.0 - FAR_ABOVE * (1.0 - target)


def _check_fixed_trajectories(fit: Fit, rates: np.ndarray) -> Iterator[Reason]:
    if not results.attribute(fit, "fixed_trajectories", False):
        return
    rejected = rates < REJECTED
    share = rejected.mean() - _most_at_edges(fit, rejected.size)
    if share > REMARKABLE:
        yield reason(
            SUSPECT if share > MOST_REJECTED else FINE,
            "rejected_trajectories",
            f"{count_draws(share, rejected.size)} repeat the previous one because a trajectory of "
            f"fixed length had an acceptance probability below {REJECTED:.0%}: regions of higher "
            "curvature may be underrepresented. Use trajectory='nuts'.",
        )


def _hard_edges(fit: Fit) -> list[str]:
    return results.from_json(fit, "hard_edges", [])


def _share_at_edges(fit: Fit) -> float:
    """Return the share of trajectories that ended at hard edges of the density."""
    return float(results.attribute(fit, "share_at_edges", 0.0))


def _most_at_edges(fit: Fit, draws: int) -> float:
    """Return the largest share of some draws whose trajectories may have ended at hard edges.

    `share_at_edges` counts all iterations. The share among draws that were thinned, or cut to the
    length of other chains, differs from it by chance: without an allowance for this difference,
    which is often far above `FEW_DIVERGENCES`, it would pass for other divergences.
    """
    share = _share_at_edges(fit)
    if not share or _has_all_iterations(fit):
        return share
    return share + ALLOWED_ERRORS * float(np.sqrt(max(share * (1.0 - share), 0.0) / draws))


def _has_all_iterations(fit: Fit) -> bool:
    """Whether no iteration of the run is missing among the draws, as far as is recorded."""
    sizes = results.dataset(fit, "posterior").sizes
    return (
        int(results.attribute(fit, "thin", 1)) == 1
        and not results.attribute(fit, "interrupted", 0)
        and sizes["draw"] >= int(results.attribute(fit, "iter_sampling", 0))
        and sizes["chain"] == np.size(results.attribute(fit, "chains_kept", range(sizes["chain"])))
    )


def divergent_share(fit: Fit) -> float:
    """Return the share of draws from divergent trajectories that did not end at hard edges.

    NaN if the fit does not record divergences. If draws lack some iterations, the share is the
    smallest that agrees with their record; see `_most_at_edges`.
    """
    diverging = _statistics(fit).get("diverging")
    if diverging is None:
        return np.nan
    return max(float(np.nanmean(diverging)) - _most_at_edges(fit, diverging.size), 0.0)


def _check_divergences(fit: Fit, stats: Statistics) -> Iterator[Reason]:
    diverging = stats.get("diverging")
    if diverging is None:
        return
    unknown = np.isnan(diverging)
    if unknown.any():
        yield reason(
            SUSPECT,
            "not_finite",
            f"diverging is not a number for {count_draws(unknown.mean(), unknown.size)}, "
            f"{_in_chains(unknown)}: divergences may have gone unnoticed. Use a fit with complete "
            "statistics.",
        )
    if not np.nansum(diverging):
        return
    at_edges = _share_at_edges(fit)
    if at_edges:
        edges = "; ".join(_hard_edges(fit))
        yield reason(
            FINE,
            "hard_edges",
            f"{at_edges:.0%} of the trajectories ended at hard edges of the density ({edges}), and "
            "were rejected: the draws are right, but cost more than with declared bounds. Declare "
            "the bounds in the parameters block, as in real<lower=0, upper=1>.",
        )
    share = divergent_share(fit)
    if share > 0.0:
        yield reason(
            SUSPECT if share > FEW_DIVERGENCES else FINE,
            "divergences",
            f"{count_draws(share, int((~unknown).sum()))} come from trajectories that diverged: "
            + (
                "regions of high curvature may be underrepresented. Raise "
                f"{_target_setting(fit)}, or reparameterize the model."
                if share > FEW_DIVERGENCES
                else "too few to indicate an underrepresented region. A higher "
                f"{_target_setting(fit)} avoids most of them."
            ),
        )


def _target_setting(fit: Fit) -> str:
    """Name the setting with which the sampler of a fit takes shorter steps."""
    settings = results.from_json(fit, "settings", {})
    fixed = results.attribute(fit, "fixed_trajectories", False)
    if "adapt_delta" in settings or ("nuts_target_accept" in settings and not fixed):
        return "adapt_delta"
    if "target_accept" in settings:
        return "target_accept"
    return "adapt_delta (target_accept for the sampler nuts)"


def _check_gradient(fit: Fit) -> Iterator[Reason]:
    """Yield a region that draws belong to, and lack since the gradient is not finite there."""
    share = float(results.attribute(fit, "share_without_gradient", 0.0))
    if share > FEW_DIVERGENCES:
        yield reason(
            SUSPECT,
            "no_gradient",
            f"{share:.2g} evaluations per iteration failed, some of them where the density is "
            "finite and only its gradient is not: the draws lack that region. Use a sampler that "
            "needs no gradient (am), or correct the gradient.",
        )


def _check_tree_depth(fit: Fit, stats: Statistics) -> Iterator[Reason]:
    cut = stats.get("reached_max_treedepth")
    deepest = results.from_json(fit, "settings", {}).get("max_treedepth")
    if cut is None and deepest and "tree_depth" in stats:
        cut = stats["tree_depth"] >= deepest
    cut = None if cut is None else cut == 1
    if cut is not None and cut.any():
        yield reason(
            FINE,
            "max_treedepth",
            f"{count_draws(cut.mean(), cut.size)} come from trajectories that reached the maximum "
            "tree depth: the chains mix more slowly than they could. Raise max_treedepth, or "
            "reparameterize the model.",
        )


def _check_energy(stats: Statistics) -> Iterator[Reason]:
    energy = stats.get("energy")
    if energy is None or energy.shape[1] <= 2:
        return
    # effective sample sizes count the slow mixing. Regions that cannot be entered show as
    # divergences: no fit with few of these and no other fault was wrong in
    # `workflows.benchmarks.verdict_study`. Without a record of them the two look alike
    level = FINE if "diverging" in stats else SUSPECT
    empty = np.isnan(energy).all(axis=1, keepdims=True)
    lost = ~np.isfinite(energy) & ~empty
    if lost.any():
        yield reason(
            level,
            "not_finite",
            f"The energy of {count_draws(lost.mean(), lost.size)} is not a finite number, "
            f"{_in_chains(lost)}: E-BFMI cannot be computed. Use a fit with complete statistics.",
        )
    with np.errstate(divide="ignore", invalid="ignore"):
        fraction = np.mean(np.diff(energy, axis=1) ** 2, axis=1) / np.var(energy, axis=1)
    # chains without energies, with those reported above, or with a constant energy
    fraction = np.where(np.isnan(fraction), np.inf, fraction)
    chain = int(np.argmin(fraction))
    if fraction[chain] < BFMI:
        yield reason(
            level,
            "low_bfmi",
            f"E-BFMI of chain {chain + 1} is {fraction[chain]:.2f}, below {BFMI:g}: the chain "
            "explores the energies of this posterior slowly, so more iterations are needed for "
            "the same number of effective draws. Reparameterize the model, or run longer "
            "(iter_sampling).",
        )


def _in_chains(failed: np.ndarray) -> str:
    """Name the chains in which some draws failed; shape (chain, draw)."""
    return f"in chain {', '.join(str(c + 1) for c in np.flatnonzero(failed.any(axis=1)))}"
