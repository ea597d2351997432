"""Check the statistics of a sampler: warm-up, acceptance, divergences, tree depth and energy.

References
----------
Betancourt (2016), arXiv 1604.00695: the energy's Bayesian fraction of missing information (E-BFMI)
is low below 0.3.
"""

import json
from collections.abc import Iterator, Mapping
from functools import cached_property
from typing import Any

import numpy as np

from stanadapt import results
from stanadapt.diagnostics import reasons
from stanadapt.diagnostics.ranked import FEW_DRAWS, MANY_CHAINS
from stanadapt.engine.every_iteration import REJECTED
from stanadapt.results import Fit
from stanadapt.results.attributes import IN_PYTHON

# smallest E-BFMI without a warning
BFMI = 0.3
# an acceptance rate is off its target a below FAR_BELOW * a and above 1 - FAR_ABOVE * (1 - a): in
# NUTS, the mean over few leapfrog steps ends well above its target without harm
FAR_BELOW, FAR_ABOVE = 0.5, 0.125
# shares of rejected fixed trajectories that are worth a remark, and that suggest a region which
# trajectories enter too rarely
REMARKABLE, MOST_REJECTED = 0.005, 0.025
# A share of divergences up to this is only a remark: no fit with as few was wrong in
# `workflows.benchmarks.verdict_study`. Of 70 other NUTS fits with two to eight of 8,000 draws, and
# no other objection, 7 missed a point at 1, 5, 95 or 99 %: the places of the divergences did not
# distinguish them from the others.
FEW_DIVERGENCES = 0.001
# Monte Carlo errors by which the share of draws at hard edges may exceed that of all iterations
ALLOWED_ERRORS = 3.0

Found = Mapping[str, Any]


def check_sampler_statistics(fit: Fit) -> Iterator[reasons.Reason]:
    """Yield the problems that the statistics of a fit show."""
    sampled = _Sampled(fit)
    for needed, checks in CHECKS:
        if not needed or needed in sampled.stats:
            yield from reasons.find_problems(checks, sampled)


def check_ends(fit: Fit, ends: Mapping[str, str]) -> Iterator[reasons.Reason]:
    """Yield the problems of ends of the density that a fit does not record, as its attributes."""
    sampled = _Sampled(fit)
    for name in ("hard_edges", "cut_tails"):
        setattr(sampled, name, json.loads(ends.get(name, "[]")))
    yield from reasons.find_problems(ENDS, sampled)


def divergent_share(fit: Fit) -> float:
    """Return the share of draws from divergent trajectories that did not end at hard edges.

    NaN if the fit does not record divergences. If draws lack some iterations, the share is the
    smallest that agrees with their record; see `_Sampled.most_at_edges`.
    """
    sampled = _Sampled(fit)
    return _divergences(sampled)["value"] if "diverging" in sampled.stats else np.nan


class _Sampled(reasons.Judged):
    """A fit with what its sampler recorded."""

    @cached_property
    def settings(self) -> dict[str, Any]:
        return results.from_json(self.fit, "settings", {})

    @property
    def unsettled(self) -> str:
        return self.attribute("unsettled", "")

    @cached_property
    def rates(self) -> np.ndarray:
        """The mean acceptance rate of each chain."""
        return self.of_chains("acceptance_rate", self.stats["acceptance_rate"].mean(axis=1))

    @cached_property
    def every(self) -> dict[str, np.ndarray]:
        """Totals of all iterations, by chain, if the draws are not all of them."""
        recorded = results.from_json(self.fit, "every_iteration", {})
        return {name: np.asarray(values, float) for name, values in recorded.items()}

    def of_chains(self, name: str, of_draws: np.ndarray) -> np.ndarray:
        """Return a number of each chain: that of all iterations, or else that of the draws."""
        values = self.every.get(name, of_draws)
        return values if len(values) == len(of_draws) else of_draws

    def counted(self, name: str, of_draws: np.ndarray) -> tuple[float, int, str]:
        """Return the share of iterations for which something is true, their number, and a noun.

        `of_draws` has a truth value for each draw, or NaN; it counts if not all are recorded.
        """
        if name in self.every:
            iterations = int(self.every["iterations"].sum())
            return float(self.every[name].sum()) / max(iterations, 1), iterations, "iterations"
        return float(np.nanmean(of_draws)), int(np.isfinite(of_draws).sum()), "draws"

    @cached_property
    def hard_edges(self) -> list[str]:
        return results.from_json(self.fit, "hard_edges", [])

    @cached_property
    def cut_tails(self) -> list[str]:
        return results.from_json(self.fit, "cut_tails", [])

    @cached_property
    def share_at_edges(self) -> float:
        """The share of trajectories that ended at hard edges of the density."""
        return float(self.attribute("share_at_edges", 0.0))

    @property
    def unseen(self) -> int:
        """The number of iterations per draw, if nothing is known of those between; otherwise 0."""
        thin = int(self.attribute("thin", 1))
        recorded = self.stats.keys() & {"diverging", "energy"}
        return thin if thin > 1 and recorded and not self.every else 0

    def most_at_edges(self, draws: int) -> float:
        """Return the largest share of some draws whose trajectories may have ended at hard edges.

        `share_at_edges` counts all iterations. The share among draws that were thinned, or cut to
        the length of other chains, differs from it by chance: without an allowance for this
        difference, which is often far above `FEW_DIVERGENCES`, it would pass for other divergences.
        """
        share = self.share_at_edges
        if not share or self.every or self._has_all_iterations():
            return share
        return share + ALLOWED_ERRORS * float(np.sqrt(max(share * (1.0 - share), 0.0) / draws))

    def _has_all_iterations(self) -> bool:
        """Whether no iteration of the run is missing among the draws, as far as is recorded."""
        sizes = results.dataset(self.fit, "posterior").sizes
        kept = self.attribute("chains_kept", range(sizes["chain"]))
        return (
            int(self.attribute("thin", 1)) == 1
            and not self.attribute("interrupted", 0)
            and sizes["draw"] >= int(self.attribute("iter_sampling", 0))
            and sizes["chain"] == np.size(kept)
        )


def _not_recorded(fit: _Sampled) -> Found:
    """Name the statistics that fits by other libraries lack."""
    library = results.dataset(fit.fit, "posterior").attrs.get("inference_library", "stanadapt")
    theirs = library != "stanadapt" or results.has_other_names(fit.fit)
    if not theirs or fit.attribute("sampler") or not fit.stats.keys() & {"diverging", "energy"}:
        return {}
    known = {
        "divergences": "diverging" in fit.stats,
        "energies": "energy" in fit.stats,
        "which trees reached the maximum depth": "reached_max_treedepth" in fit.stats
        or "max_treedepth" in fit.settings,
    }
    missing = [name for name, present in known.items() if not present]
    return {"value": len(missing), "names": ", ".join(missing)}


def _if_cut_short(fit: _Sampled) -> str:
    # R-hat and effective sample sizes show whether it mattered
    return reasons.TOO_SHORT if fit.attribute("warmup_cut_short", 0) == 1 else reasons.FINE


def _moves(fit: _Sampled) -> Found:
    moves, reached = (int(fit.attribute(name, 0)) for name in ("warmup_moves", "climbs_there"))
    found = f"{reached} climbs or chains" if reached > 1 else "one climb or chain"
    return {"value": moves, "chains": "chain" if moves == 1 else "chains", "found": found}


def _first(failed: np.ndarray) -> Found:
    """Name the first chain of those that failed."""
    return {"value": failed.any(), "chain": np.argmax(failed) + 1}


def _rejected_trajectories(fit: _Sampled) -> Found:
    rejected = fit.stats["acceptance_rate"] < REJECTED
    if not fit.attribute("fixed_trajectories", False):
        return {}
    share, known, noun = fit.counted("rejected", rejected)
    share -= fit.most_at_edges(rejected.size)
    return {"value": share, "draws": reasons.count_draws(share, known, noun)}


def _rate_off_target(fit: _Sampled) -> Found:
    target, low, high = _expected_rate(fit)
    # a trajectory that ends at an edge is rejected for any step size
    if not target or fit.hard_edges:
        return {}
    far = ~((low <= fit.rates) & (fit.rates <= high))
    chain = int(np.argmax(np.where(far, np.abs(fit.rates - target), -1.0)))
    return {"value": far.any(), "chain": chain + 1, "rate": fit.rates[chain], "target": target}


def _expected_rate(fit: _Sampled) -> tuple[float, float, float]:
    """Return the target of the acceptance rate and its acceptable range; target 0 if unknown."""
    target = fit.attribute("acceptance_target")
    if target is not None:  # the sampler chose its target itself
        low, high = fit.attribute("acceptance_range")
        return float(target), float(low), float(high)
    stans = fit.settings.get("adapt_delta", 0.0)
    target = fit.settings.get("target_accept", stans)
    return target, FAR_BELOW * target, 1.0 - FAR_ABOVE * (1.0 - target)


def _lost(failed: np.ndarray) -> Found:
    """Count the draws for which a statistic, shape (chain, draw), is not a number."""
    draws, chains = reasons.count_draws(failed.mean(), failed.size), failed.any(axis=1)
    return {"value": chains.any(), "draws": draws, "chains": reasons.numbers_of(chains)}


def _at_hard_edges(fit: _Sampled) -> Found:
    if not fit.hard_edges or not fit.counted("diverging", fit.stats["diverging"])[0]:
        return {}
    edges = f"ended at hard edges of the density ({'; '.join(fit.hard_edges)})"
    what = f"Trajectories that diverged may have {edges}"
    if share := fit.share_at_edges:  # of the samplers that count them
        what = f"{share:.0%} of the trajectories {edges}, and were rejected: the draws are right, "
        what += "but cost more than without such edges"
    cure = "Declare the bounds in the parameters block, as in real<lower=0, upper=1>."
    if str(fit.attribute("program", "")).startswith(IN_PYTHON):
        cure = "Transform the parameters to all real numbers, with the Jacobian in the density."
    return {"value": True, "what": what, "cure": cure}


def _cut_tails(fit: _Sampled) -> Found:
    return {"value": bool(fit.cut_tails), "names": ", ".join(fit.cut_tails)}


def _faulty(fit: _Sampled) -> Found:
    text = fit.attribute("density_raised", "")
    return {"value": bool(text), "text": text}


def _divergences(fit: _Sampled) -> Found:
    diverging = fit.stats["diverging"]
    share, known, noun = fit.counted("diverging", diverging)
    share = max(share - fit.most_at_edges(diverging.size), 0.0)
    return {
        "value": share,
        "draws": reasons.count_draws(share, known, noun),
        "setting": _setting_of_steps(fit),
    }


def _setting_of_steps(fit: _Sampled) -> str:
    """Name the setting with which the sampler of a fit takes shorter steps."""
    settings, fixed = fit.settings, fit.attribute("fixed_trajectories", False)
    if "adapt_delta" in settings or ("nuts_target_accept" in settings and not fixed):
        return "adapt_delta"
    if "target_accept" in settings:
        return "target_accept"
    return "adapt_delta (target_accept for the sampler nuts)"


def _cut_trees(fit: _Sampled) -> Found:
    cut, deepest = fit.stats.get("reached_max_treedepth"), fit.settings.get("max_treedepth")
    if cut is None and deepest and "tree_depth" in fit.stats:
        cut = fit.stats["tree_depth"] >= deepest
    if cut is None:
        return {}
    share, known, noun = fit.counted("cut_trees", cut == 1)
    return {"value": share, "draws": reasons.count_draws(share, known, noun)}


def _lost_energies(fit: _Sampled) -> Found:
    energy = fit.stats["energy"]
    if energy.shape[1] <= 2:
        return {}
    return _lost(~np.isfinite(energy) & ~np.isnan(energy).all(axis=1, keepdims=True))


def _low_bfmi(fit: _Sampled) -> Found:
    energy = fit.stats["energy"]
    if energy.shape[1] <= 2 or fit.unseen:
        return {}
    with np.errstate(divide="ignore", invalid="ignore"):
        steps, spread = np.mean(np.diff(energy, axis=1) ** 2, axis=1), np.var(energy, axis=1)
        chains, draws = energy.shape
        if chains >= MANY_CHAINS and draws < FEW_DRAWS:
            # of few draws the spread is a guess: that of all chains
            steps, spread = np.nanmean(steps), np.full(len(spread), np.nanvar(energy))
        fraction = steps / spread
        fraction = fit.of_chains("bfmi", fraction)
    # chains without energies, with those reported above, or with a constant energy
    fraction = np.where(np.isnan(fraction), np.inf, fraction)
    chain = int(np.argmin(fraction))
    return {"value": BFMI - fraction[chain], "chain": chain + 1, "fraction": fraction[chain]}


def _by_record(fit: _Sampled) -> str:
    # effective sample sizes count the slow mixing. Regions that cannot be entered show as
    # divergences: no fit with few of these and no other fault was wrong in
    # `workflows.benchmarks.verdict_study`. Without a record of them the two look alike
    return reasons.FINE if "diverging" in fit.stats else reasons.SUSPECT


REPEATED = (
    "{draws} repeat the previous one because a trajectory of fixed length had an acceptance "
    f"probability below {REJECTED:.0%}: regions of higher curvature may be underrepresented. Use "
    "trajectory='nuts'."
)
WARMUP = (
    reasons.Check(
        "warmup_not_settled",  # the sampler itself reports it
        lambda fit: {"value": bool(fit.unsettled), "text": fit.unsettled},
        _if_cut_short, "{text}",
    ),
    reasons.Check(
        "minor_mode_left", _moves, reasons.FINE,
        "{value} {chains} began in a mode of little mass, and moved to one of far more mass, which "
        "{found} had found. Other modes may be as rare to find: compare fits from other seeds.",
    ),
)  # fmt: skip
ACCEPTANCE = (
    reasons.Check(
        "not_finite", lambda fit: _first(np.isnan(fit.rates)), reasons.DO_NOT_USE,
        "The acceptance rate of chain {chain} is not a number at some draws: its trajectories "
        "failed. Start elsewhere (inits), or use {other}.",
        ends=True,
    ),
    reasons.Check(
        "nothing_accepted", lambda fit: _first(~(fit.rates > 0.0)), reasons.DO_NOT_USE,
        "Chain {chain} accepted no proposal: its step size is too large, or the density fails "
        "everywhere around it. Lengthen warm-up (iter_warmup), or use {other}.",
        ends=True,
    ),
    reasons.Check(
        "rejected_trajectories", _rejected_trajectories, reasons.FINE, REPEATED, REMARKABLE,
        reasons.Worse(MOST_REJECTED, reasons.SUSPECT, REPEATED),
    ),
    reasons.Check(
        "acceptance_off_target", _rate_off_target, reasons.TOO_SHORT,
        "The acceptance rate of chain {chain} is {rate:.2f}, far from its target {target:g}: the "
        "step size was not adapted well. Lengthen warm-up (iter_warmup).",
    ),
)  # fmt: skip
ENDS = (
    reasons.Check("hard_edges", _at_hard_edges, reasons.FINE, "{what}. {cure}"),
    reasons.Check(
        "cut_tail", _cut_tails, reasons.SUSPECT,
        "The density of {names} has not become small where numbers end, close to a declared bound: "
        "the posterior is improper, or draws lack what lies closer to the bound. Give {names} a "
        "prior that falls toward its bounds, or declare it on another scale, such as a logarithm.",
    ),
)  # fmt: skip
DIVERGENCES = (
    reasons.Check(
        "not_finite", lambda fit: _lost(np.isnan(fit.stats["diverging"])), reasons.SUSPECT,
        "diverging is not a number for {draws}, in chain {chains}: divergences may have gone "
        "unnoticed. Use a fit with complete statistics.",
    ),
    ENDS[0],
    reasons.Check(
        "divergences", _divergences, reasons.FINE,
        "{draws} come from trajectories that diverged: too few to indicate an underrepresented "
        "region. A higher {setting} avoids most of them.",
        worse=reasons.Worse(
            FEW_DIVERGENCES, reasons.SUSPECT,
            "{draws} come from trajectories that diverged: regions of high curvature may be "
            "underrepresented. Raise {setting}, or reparameterize the model.",
        ),
    ),
)  # fmt: skip
OBSTACLES = (
    reasons.Check(
        "check_failed",  # before the verdict
        lambda fit: {"value": bool(text := fit.attribute("check_failed", "")), "text": text},
        reasons.SUSPECT, "{text}",
    ),
    reasons.Check(
        "density_raised", _faulty, reasons.DO_NOT_USE,
        "{text}: such points were rejected as if they were outside the support. Correct the "
        "function, and make the Density again.",
    ),
    reasons.Check(
        "no_gradient",  # in a region that draws belong to, and lack
        lambda fit: {"value": float(fit.attribute("share_without_gradient", 0.0))},
        reasons.SUSPECT,
        "{value:.2g} evaluations per iteration failed, some of them where the density is finite "
        "and only its gradient is not: the draws lack that region. Use a sampler that needs no "
        "gradient (am), or correct the gradient.",
        above=FEW_DIVERGENCES,
    ),
    ENDS[1],
    reasons.Check(
        "max_treedepth", _cut_trees, reasons.FINE,
        "{draws} come from trajectories that reached the maximum tree depth: the chains mix more "
        "slowly than they could. Raise max_treedepth, or reparameterize the model.",
    ),
)  # fmt: skip
ENERGY = (
    reasons.Check(
        "not_finite", _lost_energies, _by_record,
        "The energy of {draws} is not a finite number, in chain {chains}: E-BFMI cannot be "
        "computed. Use a fit with complete statistics.",
    ),
    reasons.Check(
        "low_bfmi", _low_bfmi, _by_record,
        f"E-BFMI of chain {{chain}} is {{fraction:.2f}}, below {BFMI:g}: the chain explores the "
        "energies of this posterior slowly, so more iterations are needed for the same number of "
        "effective draws. Reparameterize the model.",
    ),
)  # fmt: skip
RECORD = (
    reasons.Check(
        "thinned_statistics",
        lambda fit: {"value": fit.unseen, "thin": fit.unseen},
        reasons.FINE,
        "Only one of {thin} iterations is recorded: divergences, trees of the maximum depth and "
        "energies between the draws are unknown, and so is E-BFMI. Sample with thin=1 to see them.",
    ),
    reasons.Check(
        "not_recorded", _not_recorded, reasons.FINE,
        "The fit does not record {names}, so this verdict cannot take them into account.",
    ),
)  # fmt: skip
# lists of rows, with the statistic that they need
CHECKS = (
    ("", RECORD), ("", WARMUP), ("acceptance_rate", ACCEPTANCE), ("diverging", DIVERGENCES),
    ("", OBSTACLES), ("energy", ENERGY),
)  # fmt: skip
