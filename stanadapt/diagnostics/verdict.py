"""Judge whether a fit can be used: fine, not exact, too short, suspect, or do not use.

Each reason states the problem and a remedy. A diagnostic that cannot be computed counts as failed.

References
----------
Vehtari, Gelman, Simpson, Carpenter and Bürkner (2021), Rank-normalization, folding, and
localization: an improved R-hat, Bayesian Analysis 16: R-hat below 1.01, 100 effective draws per
chain in the bulk and in the tails.

"""

import json
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from stanadapt import results
from stanadapt.diagnostics.importance import (
    GOOD,
    UNSEEN_BIAS,
    is_approximation,
    is_exact,
    is_usable,
    meaning,
)
from stanadapt.diagnostics.mixing import (
    ESS_PER_CHAIN,
    R_HAT,
    R_HAT_UNUSABLE,
    Mixing,
    halves_r_hat,
    map_columns,
    measure_worst,
)
from stanadapt.diagnostics.reasons import (
    DO_NOT_USE,
    FINE,
    NOT_EXACT,
    NOT_JUDGED,
    ORDER,
    TOO_SHORT,
    Reason,
    another_sampler,
    count_draws,
    reason,
)
from stanadapt.diagnostics.sampler_checks import check_sampler_statistics
from stanadapt.diagnostics.screening import is_constant, screen
from stanadapt.errors import ConvergenceWarning, Message, codes_of, warn
from stanadapt.results import Fit, arviz_module

LONGEST_STAY = 0.5  # share of its length for which a chain may repeat one draw
NAMED = 3  # variables that a message lists
# a chain stands out if its mean differs from that of the others by more than FEWEST_ERRORS joint
# Monte Carlo errors, and that of no other chain by more than SECOND times as many
FEWEST_ERRORS, SECOND = 5.0, 0.5
# or if R-hat without the chain keeps less than this share of its excess over 1
EXCESS_LEFT = 0.25

Columns = dict[str, np.ndarray]


class Verdict(NamedTuple):
    """The worst verdict among all reasons, and their messages.

    verdict
        "fine", "not exact", "too short", "suspect" or "do not use"; "not judged" if there was no
        time.
    reasons
        Messages with codes: each states a problem and a remedy.

    """

    verdict: str
    reasons: list[Message]


@np.errstate(all="ignore")  # a number that cannot be computed is a reason, not a warning of NumPy
def verdict(fit: Fit) -> Verdict:
    """Judge a fit by its draws and statistics.

    Parameters
    ----------
    fit
        A result of `sample` or `stan_nuts`, or any ArviZ object with a posterior. The variables in
        the attribute `parameters` are judged; without it, all variables. A result of `approximate`
        is judged by the Pareto k of its importance weights. A fit of a sampler that is not exact is
        "not exact" at best, since draws do not show the size of the bias.

    Raises
    ------
    StanadaptError
        Stage "settings", if `fit` is not an ArviZ object with draws.

    """
    results.require_draws(fit, "the fit")
    if is_approximation(fit):
        return _judge_approximation(fit)
    columns, constant = _parameters(fit)
    other = another_sampler(fit)
    stuck = _check_moves(columns, other)
    reasons = [*stuck, *check_sampler_statistics(fit)]
    if not stuck:
        thin = int(results.attribute(fit, "thin", 1))
        reasons += [*_check_convergence(columns, thin, other), *_report_constant(constant)]
    if not is_exact(fit):
        reasons.append(reason(NOT_EXACT, "not_exact", UNSEEN_BIAS))
    worst = max((r.verdict for r in reasons), key=ORDER.index, default=FINE)
    return Verdict(worst, [r.message for r in reasons])


def judge(fit: Fit) -> Fit:
    """Record the verdict in the attributes of a fit, warn of its reasons, and return the fit.

    Ctrl-C only ends the diagnostics, so that no draws are lost.
    """
    try:
        return record_verdict(fit, verdict(fit))
    except KeyboardInterrupt:
        return skip_judging(fit)


def skip_judging(fit: Fit) -> Fit:
    """Record that diagnostics were interrupted, warn, and return the fit."""
    text = "Diagnostics were interrupted: call stanadapt.diagnose."
    return record_verdict(fit, Verdict(NOT_JUDGED, [Message("not_judged", text)]))


def record_verdict(fit: Fit, judgment: Verdict) -> Fit:
    """Record a verdict in the attributes of a fit, warn of its reasons, and return the fit.

    `verdict_reasons` holds the texts, and `verdict_codes` the codes, both as JSON.
    """
    fit.attrs["verdict"] = judgment.verdict
    fit.attrs["verdict_reasons"] = json.dumps(judgment.reasons)
    fit.attrs["verdict_codes"] = json.dumps(codes_of(judgment.reasons))
    for message in judgment.reasons:
        warn(message, ConvergenceWarning)
    return fit


def _judge_approximation(fit: Fit) -> Verdict:
    """Judge independent draws of an approximation by their importance weights."""
    k = float(results.attribute(fit, "pareto_k", np.nan))
    draws = int(results.attribute(fit, "pareto_k_draws", 0))
    message = Message("high_pareto_k", meaning(k, draws))
    if is_usable(k, draws):
        return Verdict(FINE, [] if k <= GOOD else [message])
    return Verdict(DO_NOT_USE, [message])


def _parameters(fit: Fit) -> tuple[Columns, list[str]]:
    """Return the columns of the parameters, shape (chain, draw), and variables that are constant.

    A column with a single value may be constant by nature, such as an entry of a Cholesky factor.
    It is left out, and reported only if the whole variable is constant.
    """
    columns = results.columns(fit, wanted=results.parameters(fit))
    columns = {name: np.asarray(x, dtype=float) for name, x in columns.items()}
    moving = {n: x for n, x in columns.items() if not (is_constant(x) and np.isfinite(x.flat[0]))}
    if not moving:
        return columns, []
    variables = {results.variable_of(name): None for name in columns}
    vary = set(map(results.variable_of, moving))
    return moving, [name for name in variables if name not in vary]


def _report_constant(constant: list[str]) -> Iterator[Reason]:
    if constant:
        more = f" and {len(constant) - NAMED} more" if len(constant) > NAMED else ""
        yield reason(
            FINE,
            "constant_variable",
            f"Not judged, since all draws are equal: {', '.join(constant[:NAMED])}{more}. If they "
            "should vary, check the program, or give other inits.",
        )


def _check_moves(columns: Columns, other: str) -> list[Reason]:
    """Report chains in which no parameter moves, or that repeat one draw for half their length."""
    if not columns:
        return []
    first, *others = columns.values()
    draws = first.shape[1]
    if draws < 2:
        text = "One draw per chain cannot be judged: raise iter_sampling."
        return [reason(TOO_SHORT, "too_few_draws", text)]
    same = first[:, 1:] == first[:, :-1]
    for x in others:
        # further parameters can only shorten a stay
        if max(_longest_run(row) for row in same) < min(LONGEST_STAY * draws, draws - 1):
            break
        same &= x[:, 1:] == x[:, :-1]
    frozen = [str(c + 1) for c in np.flatnonzero(same.all(axis=1))]
    if frozen:
        return [
            reason(
                DO_NOT_USE,
                "frozen_chain",
                f"Chain {', '.join(frozen)} never moved: all of its draws are the same. Start "
                f"elsewhere (inits), lengthen warm-up (iter_warmup), or use {other}.",
            )
        ]
    stays = [_longest_run(row) / draws for row in same]
    worst = int(np.argmax(stays))
    if draws >= 10 and stays[worst] > LONGEST_STAY:
        return [
            reason(
                DO_NOT_USE,
                "stuck_chain",
                f"Chain {worst + 1} repeats one draw for {stays[worst]:.0%} of its length: it got "
                f"stuck. Lengthen warm-up (iter_warmup), or use {other}.",
            )
        ]
    return []


def _longest_run(same: np.ndarray) -> int:
    """Return the length of the longest run of True."""
    ends = np.flatnonzero(np.diff(np.concatenate([[0], same.astype(np.int8), [0]])))
    return int(np.max(ends[1::2] - ends[::2], initial=0))


def _check_convergence(columns: Columns, thin: int, other: str) -> Iterator[Reason]:
    """Check R-hat and effective sample sizes of the columns that a fast screening ranks worst."""
    if not columns:
        return
    screened = screen(list(columns.values()))
    bad = [name for name, finite in zip(columns, screened.finite, strict=True) if not finite]
    if bad:
        failed = ~np.isfinite(columns[bad[0]])
        chains = ", ".join(str(c + 1) for c in np.flatnonzero(failed.any(axis=1)))
        yield reason(
            DO_NOT_USE,
            "not_finite",
            f"{bad[0]} has draws that are not finite: "
            f"{count_draws(failed.mean(), failed.size)}, in chain {chains}. "
            "Check that the data or a prior keep it within bounds, or start elsewhere (inits).",
        )
        return
    draws = next(iter(columns.values())).shape[1]
    if draws < 4:
        text = f"{draws} draws per chain cannot be judged: raise iter_sampling."
        yield reason(TOO_SHORT, "too_few_draws", text)
        return
    mixed = measure_worst(columns, screened)
    worst = {name: columns[name] for name in mixed}
    yield from _check_agreement(worst, mixed, other)
    yield from _check_size(worst, mixed, thin)


def _check_agreement(columns: Columns, mixed: dict[str, Mixing], other: str) -> Iterator[Reason]:
    """Check R-hat of several chains, or of the halves of a single one."""
    chains, draws = next(iter(columns.values())).shape
    if chains > 1:
        r_hat = {name: one.r_hat for name, one in mixed.items()}
        yield from _check_r_hat(columns, r_hat, R_HAT, "the chains disagree", other)
        return
    yield reason(
        FINE,
        "one_chain",
        "There is only one chain, so it is unknown whether chains from other starting points would "
        "agree. Run several chains (chains=4).",
    )
    if draws >= 8:
        half = draws // 2
        halves = {n: x[0, : 2 * half].reshape(2, half) for n, x in columns.items()}
        # with few draws, R-hat may exceed the lower limit by chance
        measured = map_columns(halves_r_hat, columns.values())
        r_hat = dict(zip(columns, measured, strict=True))
        problem = "the halves of the chain disagree"
        yield from _check_r_hat(halves, r_hat, R_HAT_UNUSABLE, problem, other)


def _check_r_hat(
    columns: Columns, r_hat: dict[str, float], limit: float, problem: str, other: str
) -> Iterator[Reason]:
    # NaN counts as the worst
    worst = max(r_hat, key=lambda name: np.inf if np.isnan(r_hat[name]) else r_hat[name])
    if r_hat[worst] <= limit:
        return
    unusable = not r_hat[worst] <= R_HAT_UNUSABLE
    remedy = "Run longer (iter_sampling)."
    if unusable:
        remedy = f"Lengthen warm-up (iter_warmup), or use {other}."
    yield reason(
        DO_NOT_USE if unusable else TOO_SHORT,
        "high_r_hat",
        f"R-hat of {worst} is {r_hat[worst]:.3f}, above {limit:g}: {problem}. "
        + describe_outlying_chain(columns[worst], r_hat[worst])
        + remedy,
    )


def _check_size(columns: Columns, mixed: dict[str, Mixing], thin: int) -> Iterator[Reason]:
    worst, part, ess = "", "", np.inf
    for name, one in mixed.items():
        for kind, value in (("bulk", one.ess_bulk), ("tail", one.ess_tail)):
            value = value if np.isfinite(value) else 0.0  # NaN counts as the worst
            if value < ess:
                worst, part, ess = name, kind, value
    chains, draws = columns[worst].shape
    if ess < ESS_PER_CHAIN * chains:
        times = int(np.ceil(ESS_PER_CHAIN * chains / max(ess, 1.0)))
        yield reason(
            TOO_SHORT,
            "low_ess",
            f"The {part} effective sample size of {worst} is {ess:.0f}, below {ESS_PER_CHAIN} per "
            f"chain. Draw {times} times as many (iter_sampling={times * draws * thin}).",
        )


def outlying_chain(draws: np.ndarray, r_hat: float) -> int | None:
    """Return the index of the one chain that disagrees with the others, if there is one.

    Parameters
    ----------
    draws
        A column, shape (chain, draw).
    r_hat
        R-hat of all chains.

    """
    if len(draws) < 3 or not np.isfinite(r_hat):
        return None
    chain = _outlier_by_mean(draws)
    return _outlier_by_r_hat(draws, r_hat) if chain is None else chain


def describe_outlying_chain(draws: np.ndarray, r_hat: float) -> str:
    """Describe the chain that disagrees with the others; "" if none or several do."""
    chain = outlying_chain(draws, r_hat)
    if chain is None:
        return ""
    others, left = np.delete(draws, chain, axis=0), _r_hat_without(draws, chain)
    rest = f"without it R-hat is {left:.3f}" if np.isfinite(left) else "none of these moved"
    return (
        f"Chain {chain + 1} stands out: its mean is {draws[chain].mean():.4g}, that of the others "
        f"{others.mean():.4g}, and {rest}. "
    )


def _r_hat_without(draws: np.ndarray, chain: int) -> float:
    with np.errstate(divide="ignore", invalid="ignore"):  # none of the others moved
        return float(arviz_module().rhat(np.delete(draws, chain, axis=0)))


def _outlier_by_mean(draws: np.ndarray) -> int | None:
    """Find the only chain with a mean far from that of the others.

    For any other chain, the others include the outlier: their effective sample size is small and
    their Monte Carlo error large, so that the difference is not significant.
    """
    errors = np.empty(len(draws))
    for c in range(len(draws)):
        others = np.delete(draws, c, axis=0)
        error = np.hypot(_error(draws[c : c + 1]), _error(others))
        errors[c] = np.abs(draws[c].mean() - others.mean()) / error
    second, first = np.argsort(errors)[-2:]
    alone = errors[first] > FEWEST_ERRORS and errors[second] < SECOND * errors[first]
    return int(first) if alone else None


def _error(draws: np.ndarray) -> float:
    return draws.std(ddof=1) / np.sqrt(float(arviz_module().ess(draws, method="mean")))


def _outlier_by_r_hat(draws: np.ndarray, r_hat: float) -> int | None:
    """Find the only chain without which the others agree: it may differ only in its spread."""
    without = np.array([_r_hat_without(draws, c) for c in range(len(draws))])
    agree = without - 1.0 < EXCESS_LEFT * (r_hat - 1.0)
    return int(np.argmax(agree)) if agree.sum() == 1 else None
