"""Whether a fit can be used: fine, not exact, too short, or not to be used; why, and what to try.

References
----------
Vehtari, Gelman, Simpson, Carpenter and Bürkner (2021), Rank-normalization, folding, and
localization: an improved R-hat, Bayesian Analysis 16: R-hat below 1.01, 100 effective draws per
chain in the bulk and in the tails. Betancourt (2016), arXiv 1604.00695: the energy's Bayesian
fraction of missing information, low below 0.3. What cannot be computed is a failure, not a pass.

What a user may try whose chains do not mix: samplers other than the one that they used.

Which of several chains is the one that disagrees, where it is one.

Can this fit be trusted? Its verdict in words, with what to try.

"""

import json
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
from rich.console import Console

from stanadapt import results
from stanadapt.diagnostics.importance import (
    GOOD,
    UNSEEN_BIAS,
    is_approximation,
    is_exact,
    is_usable,
    meaning,
)
from stanadapt.diagnostics.mixing import Efficiency, Mixing, efficiency, of_columns, worst_columns
from stanadapt.errors import ConvergenceWarning, require_flag, warn
from stanadapt.results import arviz_module


def another_sampler(fit: Any) -> str:
    """Return what else to use, and for which posteriors, as part of a sentence."""
    if "tempering" in results.group_names(fit):
        return "another sampler (the default, or sampler='nuts', where there is one mode)"
    used, modes = results.attribute(fit, "sampler"), "'parallel_tempering' for many modes"
    if used == "whitened_hmc":  # the default
        return f"another sampler ({modes}) or parameterization"
    if used == "nuts":  # Stan's, or ours
        return f"another sampler (the default for smooth posteriors; {modes}) or parameterization"
    return f"another sampler (the default, or sampler='nuts', for smooth posteriors; {modes})"


# a mean stands out from that of the other chains beyond these joint Monte Carlo errors, if no other
# chain's does half as far
FEWEST_ERRORS, SECOND = 5.0, 0.5
# without the chain that disagrees, R-hat keeps less than this of its excess over 1
EXCESS_LEFT = 0.25


def outlying_chain(draws: np.ndarray, r_hat: float) -> str:
    """Say which chain of a column stands out; "" where none or several do.

    Parameters
    ----------
    draws
        Shape (chain, draw).
    r_hat
        That of all chains.

    """
    if len(draws) < 3 or not np.isfinite(r_hat):
        return ""
    without = _r_hat_without(draws)
    chain = _by_mean(draws)
    if chain is None:
        chain = _by_r_hat(without, r_hat)
    if chain is None:
        return ""
    others = np.delete(draws, chain, axis=0)
    return (
        f"Chain {chain + 1} stands out: its mean is {draws[chain].mean():.4g}, that of the others "
        f"{others.mean():.4g}, and without it R-hat is {without[chain]:.3f}. "
    )


def _r_hat_without(draws: np.ndarray) -> np.ndarray:
    arviz = arviz_module()
    return np.array([float(arviz.rhat(np.delete(draws, c, axis=0))) for c in range(len(draws))])


def _by_mean(draws: np.ndarray) -> int | None:
    """Find the chain whose mean alone lies far from that of the others.

    Among the others of any other chain is the one that stands out: their effective sample size is
    small, and their Monte Carlo error large.
    """
    apart = np.empty(len(draws))
    for c in range(len(draws)):
        others = np.delete(draws, c, axis=0)
        error = np.hypot(_error(draws[c : c + 1]), _error(others))
        apart[c] = np.abs(draws[c].mean() - others.mean()) / error
    second, first = np.argsort(apart)[-2:]
    alone = apart[first] > FEWEST_ERRORS and apart[second] < SECOND * apart[first]
    return int(first) if alone else None


def _error(draws: np.ndarray) -> float:
    return draws.std(ddof=1) / np.sqrt(float(arviz_module().ess(draws, method="mean")))


def _by_r_hat(without: np.ndarray, r_hat: float) -> int | None:
    """Find the chain without which the others agree: it may differ in its spread alone."""
    agree = without - 1.0 < EXCESS_LEFT * (r_hat - 1.0)
    return int(np.argmax(agree)) if agree.sum() == 1 else None


# from best to worst; no fit of a sampler that is not exact is fine, however well its chains mix
FINE, NOT_EXACT, TOO_SHORT, DO_NOT_USE = "fine", "not exact", "too short", "do not use"
ORDER = [FINE, NOT_EXACT, TOO_SHORT, DO_NOT_USE]
NOT_JUDGED = "not judged"
R_HAT, R_HAT_APART, ESS_PER_CHAIN, BFMI = 1.01, 1.05, 100, 0.3
# the acceptance rate is far from its target a below a / 2, and above 1 - (1 - a) / 8: the mean of
# few leapfrogs ends well above its target in NUTS, without harm
FAR_BELOW, FAR_ABOVE = 0.5, 0.125
# share of iterations at which a chain may stay where it is
LONGEST_STAY = 0.5
# shares of fixed trajectories with next to no chance to be accepted that are told of, and that mean
# a region which these enter too seldom
NO_CHANCE, TOLD_WITHOUT, MOST_WITHOUT = 0.01, 0.005, 0.025
NAMED = 3  # variables that a sentence lists


class Reason(NamedTuple):
    """One thing that is wrong with a fit: how bad it is, and a sentence or two."""

    verdict: str
    sentence: str


class Verdict(NamedTuple):
    """The worst of all reasons, and all of their sentences."""

    verdict: str
    sentences: list[str]


def verdict(fit: Any) -> Verdict:
    """Judge a fit by its draws and statistics.

    Parameters
    ----------
    fit
        A result of `sample` or `stan_nuts`, or any ArviZ object with a posterior. Its parameters
        are judged where the attribute `parameters` names them, else all variables. A result of
        `approximate` is judged by the Pareto k of its importance weights. Of a sampler that is not
        exact it is "not exact" at best: how large the bias is the draws cannot tell.

    Raises
    ------
    StanadaptError
        Stage "settings", for anything else.

    """
    results.require_draws(fit, "the fit")
    if is_approximation(fit):
        return _of_approximation(fit)
    stats = _statistics(fit)
    columns, constant = _parameters(fit)
    other = another_sampler(fit)
    stuck = _stuck_chains(columns, other)
    reasons = [*stuck, *_adaptation(fit), *_acceptance(fit, stats, other)]
    reasons += _trajectories(fit, stats)
    if not stuck:
        thin = int(results.attribute(fit, "thin", 1))
        reasons += [*_convergence(columns, thin, other), *_never_moved(constant)]
    if not is_exact(fit):
        reasons.append(Reason(NOT_EXACT, UNSEEN_BIAS))
    worst = max((r.verdict for r in reasons), key=ORDER.index, default=FINE)
    return Verdict(worst, [reason.sentence for reason in reasons])


def _of_approximation(fit: Any) -> Verdict:
    """Judge independent draws of an approximation by their importance weights."""
    k = float(results.attribute(fit, "pareto_k", np.nan))
    draws = int(results.attribute(fit, "pareto_k_draws", 0))
    if is_usable(k, draws):
        return Verdict(FINE, [] if k <= GOOD else [meaning(k, draws)])
    return Verdict(DO_NOT_USE, [meaning(k, draws)])


def judged(fit: Any) -> Any:
    """Record the verdict in the attributes of a fit, warn of its reasons, and return the fit.

    Ctrl-C ends the judging only, since the draws must not be lost.
    """
    try:
        return recorded(fit, verdict(fit))
    except KeyboardInterrupt:
        return not_judged(fit)


def not_judged(fit: Any) -> Any:
    """Record that there was no time to judge a fit."""
    said = "Not judged, since it was interrupted: stanadapt.verdict does it."
    return recorded(fit, Verdict(NOT_JUDGED, [said]))


def recorded(fit: Any, found: Verdict) -> Any:
    """Record a verdict, warn of its reasons, and return the fit."""
    fit.attrs["verdict"] = found.verdict
    fit.attrs["verdict_reasons"] = json.dumps(found.sentences)
    for sentence in found.sentences:
        warn(sentence, ConvergenceWarning)
    return fit


def _statistics(fit: Any) -> dict[str, np.ndarray]:
    if "sample_stats" not in results.group_names(fit):
        return {}
    variables = results.dataset(fit, "sample_stats").data_vars
    return {str(n): v.values for n, v in variables.items() if v.values.ndim == 2}


def _parameters(fit: Any) -> tuple[dict[str, np.ndarray], list[str]]:
    """Columns of the parameters, shape (chain, draw), and variables that are constant.

    A column that has one value in all chains may be so by nature: an entry of a Cholesky factor, a
    size. It is left out, and named where it is a whole variable.
    """
    columns = results.columns(fit, wanted=results.parameters(fit))
    columns = {name: np.asarray(x, dtype=float) for name, x in columns.items()}
    moving = {name: x for name, x in columns.items() if not _is_constant(x)}
    if not moving:
        return columns, []
    variables = {name.split("[")[0]: None for name in columns}
    return moving, [name for name in variables if name not in {n.split("[")[0] for n in moving}]


def _is_constant(x: np.ndarray) -> bool:
    return bool(np.isfinite(x.flat[0]) and np.all(x == x.flat[0]))


def _never_moved(constant: list[str]) -> Iterator[Reason]:
    if constant:
        more = f" and {len(constant) - NAMED} more" if len(constant) > NAMED else ""
        yield Reason(
            FINE,
            f"Not judged, since all draws are equal: {', '.join(constant[:NAMED])}{more}. What "
            "should vary was not sampled: look at the program, or give other inits.",
        )


def _stuck_chains(columns: dict[str, np.ndarray], other: str) -> list[Reason]:
    """Chains of which no parameter moves, or which repeat one draw for most of their length."""
    if not columns:
        return []
    first, *others = columns.values()
    draws = first.shape[1]
    if draws < 2:
        return [Reason(TOO_SHORT, "One draw per chain cannot be judged: raise iter_sampling.")]
    same = first[:, 1:] == first[:, :-1]
    for x in others:
        if not same.any():
            break
        same &= x[:, 1:] == x[:, :-1]
    frozen = [str(c + 1) for c in np.flatnonzero(same.all(axis=1))]
    if frozen:
        return [
            Reason(
                DO_NOT_USE,
                f"Chain {', '.join(frozen)} never moved: all of its draws are the same. Start "
                f"elsewhere (inits), lengthen warm-up, or use {other}.",
            )
        ]
    stays = [_longest_run(row) / draws for row in same]
    worst = int(np.argmax(stays))
    if draws >= 10 and stays[worst] > LONGEST_STAY:
        return [
            Reason(
                DO_NOT_USE,
                f"Chain {worst + 1} repeats one draw for {stays[worst]:.0%} of its length: it was "
                f"stuck. Lengthen warm-up, or use {other}.",
            )
        ]
    return []


def _longest_run(same: np.ndarray) -> int:
    """Length of the longest run of True."""
    ends = np.flatnonzero(np.diff(np.concatenate([[0], same.astype(np.int8), [0]])))
    return int(np.max(ends[1::2] - ends[::2], initial=0))


def _adaptation(fit: Any) -> Iterator[Reason]:
    """What a sampler with a warm-up that tells says of it."""
    unsettled = results.attribute(fit, "unsettled")
    if unsettled:
        # whether it mattered, R-hat and effective sample sizes tell
        cut_short = results.attribute(fit, "warmup_cut_short", 0) == 1
        yield Reason(TOO_SHORT if cut_short else FINE, str(unsettled))


def _acceptance(fit: Any, stats: dict[str, np.ndarray], other: str) -> Iterator[Reason]:
    rates = stats.get("acceptance_rate")
    if rates is None or np.isnan(rates).all():  # other libraries leave it empty
        return
    means = rates.mean(axis=1)
    if np.isnan(means).any():
        yield Reason(
            DO_NOT_USE,
            f"The acceptance rate of chain {int(np.argmax(np.isnan(means))) + 1} is not a number "
            f"at some draws: its trajectories failed. Start elsewhere (inits), or use {other}.",
        )
        return
    worst = int(np.argmin(means))
    if not means[worst] > 0.0:
        yield Reason(
            DO_NOT_USE,
            f"Chain {worst + 1} accepted nothing: its step size is too large, or its density fails "
            f"everywhere around it. Lengthen warm-up, or use {other}.",
        )
        return
    yield from _without_a_chance(fit, rates)
    target, low, high = _expected_acceptance(fit)
    if not target:
        return
    far = [c for c in range(len(means)) if not low <= means[c] <= high]
    if far:
        c = max(far, key=lambda c: abs(means[c] - target))
        yield Reason(
            TOO_SHORT,
            f"The acceptance rate of chain {c + 1} is {means[c]:.2f}, far from its target "
            f"{target:g}: the step size was not learned. Lengthen warm-up (iter_warmup).",
        )


def _expected_acceptance(fit: Any) -> tuple[float, float, float]:
    """Target of the acceptance rate, and the range that is not far from it; 0 without a target."""
    target = results.attribute(fit, "acceptance_target")
    if target is not None:  # a sampler that chose its target itself
        low, high = results.attribute(fit, "acceptance_range")
        return float(target), float(low), float(high)
    settings = results.from_json(fit, "settings", {})
    target = settings.get("target_accept", settings.get("adapt_delta", 0.0))  # the latter is Stan's
    return target, FAR_BELOW * target, 1.0 - FAR_ABOVE * (1.0 - target)


def _without_a_chance(fit: Any, rates: np.ndarray) -> Iterator[Reason]:
    if not results.attribute(fit, "fixed_trajectories", False):
        return
    without = rates < NO_CHANCE
    if without.mean() > TOLD_WITHOUT:
        yield Reason(
            TOO_SHORT if without.mean() > MOST_WITHOUT else FINE,
            f"{_share(without)} are repeated because trajectories of fixed length had no chance: "
            "there are regions of higher curvature, which may be underrepresented. Use "
            "trajectory='nuts'.",
        )


def _trajectories(fit: Any, stats: dict[str, np.ndarray]) -> Iterator[Reason]:
    """Divergences, tree depth and energy: of our samplers and of Stan's NUTS alike."""
    diverging = stats.get("diverging")
    if diverging is not None and diverging.any():
        yield Reason(
            TOO_SHORT,
            f"{_share(diverging)} come from trajectories that diverged: regions of high curvature "
            "may be underrepresented. Raise target_accept (adapt_delta of Stan's NUTS), or "
            "reparameterize the model.",
        )
    cut = stats.get("reached_max_treedepth")
    deepest = results.from_json(fit, "settings", {}).get("max_treedepth")
    if cut is None and deepest and "tree_depth" in stats:
        cut = stats["tree_depth"] >= deepest
    if cut is not None and cut.any():
        yield Reason(
            FINE,
            f"{_share(cut)} come from trajectories that reached the maximum tree depth: the chains "
            "move less than they could. Raise max_treedepth, or reparameterize the model.",
        )
    energy = stats.get("energy")
    if energy is not None and energy.shape[1] > 2:
        with np.errstate(divide="ignore", invalid="ignore"):
            fraction = np.mean(np.diff(energy, axis=1) ** 2, axis=1) / np.var(energy, axis=1)
        fraction = np.where(np.isnan(fraction), np.inf, fraction)
        chain = int(np.argmin(fraction))
        if fraction[chain] < BFMI:
            yield Reason(
                TOO_SHORT,
                f"E-BFMI of chain {chain + 1} is {fraction[chain]:.2f}, below {BFMI:g}: momenta "
                "explore the energies of this posterior too slowly. Reparameterize the model, or "
                "run longer (iter_sampling).",
            )


def _share(where: np.ndarray) -> str:
    return f"{int(where.sum())} of {where.size} draws ({where.mean():.2%})"


def _convergence(columns: dict[str, np.ndarray], thin: int, other: str) -> Iterator[Reason]:
    """R-hat and effective sample sizes of the columns that a cheap screening finds worst."""
    if not columns:
        return
    bad = [name for name, x in columns.items() if not np.isfinite(x).all()]
    if bad:
        missing = ~np.isfinite(columns[bad[0]])
        chains_of = ", ".join(str(c + 1) for c in np.flatnonzero(missing.any(axis=1)))
        yield Reason(
            DO_NOT_USE,
            f"{bad[0]} has draws that are not finite: {_share(missing)}, in chain {chains_of}. "
            "Check that the data or a prior bounds it, or start elsewhere (inits).",
        )
        return
    chains, draws = next(iter(columns.values())).shape
    if draws < 4:
        yield Reason(TOO_SHORT, f"{draws} draws per chain cannot be judged: raise iter_sampling.")
        return
    chosen = {name: columns[name] for name in worst_columns(columns)}
    mixed = of_columns(chosen)
    if chains > 1:
        r_hat = {name: found.r_hat for name, found in mixed.items()}
        yield from _disagreement(chosen, r_hat, R_HAT, "the chains disagree", other)
    else:
        yield Reason(
            FINE,  # as far as can be said: its halves are held against each other
            "There is one chain: whether chains from other starts would agree is not known. Run "
            "several (chains=4).",
        )
        if draws >= 8:
            half = draws // 2
            halves = {n: x[0, : 2 * half].reshape(2, half) for n, x in chosen.items()}
            # of few draws, R-hat may be above the lower limit by chance
            r_hat = {n: float(results.arviz_module().rhat(x)) for n, x in halves.items()}
            what = "the halves of the chain disagree"
            yield from _disagreement(halves, r_hat, R_HAT_APART, what, other)
    yield from _too_few(chosen, mixed, thin)


def _disagreement(
    columns: dict[str, np.ndarray], r_hat: dict[str, float], limit: float, what: str, other: str
) -> Iterator[Reason]:
    # what is not a number is the worst
    worst = max(r_hat, key=lambda name: np.inf if np.isnan(r_hat[name]) else r_hat[name])
    if r_hat[worst] <= limit:
        return
    apart = not r_hat[worst] <= R_HAT_APART
    yield Reason(
        DO_NOT_USE if apart else TOO_SHORT,
        f"R-hat of {worst} is {r_hat[worst]:.3f}, above {limit:g}: {what}. "
        + outlying_chain(columns[worst], r_hat[worst])
        + (f"Lengthen warm-up, or use {other}." if apart else "Run longer (iter_sampling)."),
    )


def _too_few(
    columns: dict[str, np.ndarray], mixed: dict[str, Mixing], thin: int
) -> Iterator[Reason]:
    least, what, ess = "", "", np.inf
    for name, found in mixed.items():
        for kind, value in (("bulk", found.ess_bulk), ("tail", found.ess_tail)):
            value = value if np.isfinite(value) else 0.0  # what is not a number is the worst
            if value < ess:
                least, what, ess = name, kind, value
    chains, draws = columns[least].shape
    if ess < ESS_PER_CHAIN * chains:
        times = int(np.ceil(ESS_PER_CHAIN * chains / max(ess, 1.0)))
        yield Reason(
            TOO_SHORT,
            f"The {what} effective sample size of {least} is {ess:.0f}, below {ESS_PER_CHAIN} per "
            f"chain: draw {times} times as many (iter_sampling={times * draws * thin}).",
        )


class Shown(Verdict):
    """A verdict that has been printed: at a prompt, its value does not say it all again."""

    __slots__ = ()

    def __repr__(self) -> str:
        return f"Verdict({self.verdict!r}, {len(self.sentences)} sentences)"


def diagnose(fit: Any, show: bool = True) -> Verdict:
    """Judge a fit, and say why and what to try.

    Parameters
    ----------
    fit
        A result of `sample` or `stan_nuts`, or any ArviZ object with a posterior. Parameters are
        judged; where these are not recorded, all variables.
    show
        Also print it: one line for a fit that is fine.

    Returns
    -------
    Verdict
        `verdict`: "fine", "not exact", "too short" or "do not use"; `sentences`: what is wrong,
        each with what to try, and what the run itself had to say.

    Raises
    ------
    StanadaptError
        Stage "settings", for anything but an ArviZ object with a posterior.

    """
    found, notes = verdict(fit), [*_interruption(fit), *results.from_json(fit, "notes", [])]
    sentences = [*found.sentences, *notes]
    if not require_flag("show", show):
        return Verdict(found.verdict, sentences)
    _show(fit, found, notes)
    return Shown(found.verdict, sentences)


def _interruption(fit: Any) -> Iterator[str]:
    if results.attribute(fit, "interrupted", 0) == 1:
        drawn = results.dataset(fit, "posterior").sizes["draw"]
        run = results.attribute(fit, "run")
        if run is not None:
            yield f"Interrupted after {drawn:,} draws per chain: stanadapt.resume({run!r}) goes on."
            return
        yield (
            f"Interrupted after {drawn:,} draws per chain: the same call with "
            f"seed={results.attribute(fit, 'seed')} draws these and the rest."
        )


def _show(fit: Any, found: Verdict, notes: list[str]) -> None:
    console = Console(soft_wrap=True)
    columns = results.columns(fit, wanted=results.parameters(fit))
    finite = {name: x.astype(float) for name, x in columns.items() if np.isfinite(x).all()}
    # of thousands, those that the verdict looked at
    measured = efficiency({name: finite[name] for name in worst_columns(finite)})
    reasons = [*found.sentences, *notes]
    figures = in_figures(measured, fit)
    style = "green" if found.verdict == FINE else "yellow"
    console.print(found.verdict, style=style, end=f": {figures}\n", highlight=False)
    for sentence in reasons:
        console.print(f"- {sentence}", markup=False, highlight=False)


def in_figures(measured: Efficiency, fit: Any) -> str:
    """Largest R-hat and smallest effective sample sizes, with the parameters they belong to."""
    sizes = results.dataset(fit, "posterior").sizes
    parts = [f"{sizes['chain']} x {sizes['draw']:,} draws"]
    if is_approximation(fit):
        k = float(results.attribute(fit, "pareto_k", np.nan))
        return f"{parts[0]} of an approximation ({results.made_by(fit)}); Pareto k {k:.2f}."
    if np.isfinite(measured.r_hat).any():
        worst = int(np.nanargmax(measured.r_hat))
        parts.append(f"largest R-hat {measured.r_hat[worst]:.3f} ({measured.names[worst]})")
    for kind, ess in (("bulk", measured.ess_bulk), ("tail", measured.ess_tail)):
        if np.isfinite(ess).any():
            worst = int(np.nanargmin(ess))
            parts.append(f"smallest {kind} ESS {ess[worst]:,.0f} ({measured.names[worst]})")
    return "; ".join(parts) + "."
