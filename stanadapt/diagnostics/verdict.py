"""Judge whether a fit can be used: fine, not exact, too short, suspect, or do not use.

Each reason states the problem and a remedy; `draw_checks` and `sampler_checks` have the reasons.
"""

import json
from collections.abc import Collection, Iterable, Iterator
from typing import NamedTuple

import numpy as np

from stanadapt import results
from stanadapt.diagnostics import draw_checks, importance, reasons
from stanadapt.diagnostics.sampler_checks import check_sampler_statistics
from stanadapt.errors import ConvergenceWarning, Message, codes_of, warn
from stanadapt.results import Fit


class Verdict(NamedTuple):
    """The worst verdict among all reasons, and their messages."""

    verdict: str  # one of `ORDER`; "not judged" if there was no time
    reasons: list[Message]  # each states a problem and a remedy


@np.errstate(all="ignore")  # a number that cannot be computed is a reason, not a warning of NumPy
def verdict(
    fit: Fit, further: Iterable[reasons.Reason] | None = None, *, recorded: Collection[str] = ()
) -> Verdict:
    """Judge a fit by its draws and statistics.

    Parameters
    ----------
    fit
        A result of `sample` or `stan_nuts`, or any ArviZ object with a posterior. The variables in
        the attribute `parameters` are judged; without it, all variables. A result of `approximate`
        is judged by the Pareto k of its importance weights. A fit of a sampler that is not exact is
        "not exact" at best, since draws do not show the size of the bias.
    further
        Reasons that need the density, asked for only if the fit can be used so far; by default
        those that the fit records.
    recorded
        Codes of remarks that are taken from the fit as it records them, and not computed again.

    Raises
    ------
    StanadaptError
        Stage "settings", if `fit` is not an ArviZ object with draws.
    """
    results.require_draws(fit, "the fit")
    fixed = results.attribute(fit, "sampler") == draw_checks.FIXED_PARAM
    if fixed or results.is_fixed(results.statistics(fit)):
        found = list(reasons.find_problems(draw_checks.INDEPENDENT, reasons.Judged(fit)))
    elif importance.is_approximation(fit):
        found = list(reasons.find_problems(APPROXIMATION, reasons.Judged(fit)))
    else:
        drawn = draw_checks.Drawn(fit)
        stuck = list(reasons.find_problems(draw_checks.MOVES, drawn))
        found = [*stuck, *check_sampler_statistics(fit)]
        if not stuck:
            for checks in (draw_checks.CONVERGENCE, draw_checks.CONSTANT):
                due = [check for check in checks if check.code not in recorded]
                found += reasons.find_problems(due, drawn)
            found += [
                reasons.Reason(reasons.FINE, text)
                for text in _recorded_messages(fit)
                if text.code in recorded
            ]
        found += reasons.find_problems(EXACTNESS, drawn)
        if all(reason.verdict != reasons.DO_NOT_USE for reason in found):
            found += _recorded(fit) if further is None else further
    found = list(dict.fromkeys(found))  # a check may have failed before, too
    worst = max((r.verdict for r in found), key=reasons.ORDER.index, default=reasons.FINE)
    return Verdict(worst, [r.message for r in found])


def _recorded(fit: Fit) -> Iterator[reasons.Reason]:
    """Yield the reasons that were found with the density when the fit was made."""
    for text in _recorded_messages(fit):
        if text.code in BY_DENSITY:
            yield reasons.Reason(BY_DENSITY[text.code], text)


def _recorded_messages(fit: Fit) -> list[Message]:
    texts, codes = (results.from_json(fit, f"verdict_{name}", []) for name in ("reasons", "codes"))
    return [Message(code, text) for text, code in zip(texts, codes, strict=False)]


def _pareto_k(judged: reasons.Judged) -> dict:
    """Judge independent draws of an approximation by their importance weights."""
    k = float(judged.attribute("pareto_k", np.nan))
    draws = int(judged.attribute("pareto_k_draws", 0))
    usable = importance.is_usable(k, draws)
    # 1 for weights that can be used, but are rough; 2 for those that cannot
    value = 2 - usable if not usable or k > importance.GOOD else 0
    return {"value": value, "meaning": importance.meaning(k, draws)}


# codes of reasons that need the density, with their verdicts
BY_DENSITY = {
    "tail_missing": reasons.SUSPECT, "tail_doubtful": reasons.FINE, "mode_missed": reasons.SUSPECT,
    "check_failed": reasons.SUSPECT,
}  # fmt: skip
EXACTNESS = (
    reasons.Check(
        "not_exact",
        lambda judged: {"value": not importance.is_exact(judged.fit)},
        reasons.NOT_EXACT,
        importance.UNSEEN_BIAS,
    ),
)
WORSE = reasons.Worse(1, reasons.DO_NOT_USE, "{meaning}")
APPROXIMATION = (reasons.Check("high_pareto_k", _pareto_k, reasons.FINE, "{meaning}", worse=WORSE),)


def judge(fit: Fit, further: Iterable[reasons.Reason] | None = None) -> Fit:
    """Record the verdict in the attributes of a fit, warn of its reasons, and return the fit.

    Ctrl-C or an error only ends the diagnostics, so that no draws are lost. `further` is that of
    `verdict`.
    """
    try:
        with reasons.draws_kept("verdict") as failed:
            return record_verdict(fit, verdict(fit, further))
        return record_verdict(fit, Verdict(reasons.SUSPECT, failed))
    except KeyboardInterrupt:
        return skip_judging(fit)


def skip_judging(fit: Fit) -> Fit:
    """Record that diagnostics were interrupted, warn, and return the fit."""
    text = "Diagnostics were interrupted: call stanadapt.diagnose."
    return record_verdict(fit, Verdict(reasons.NOT_JUDGED, [Message("not_judged", text)]))


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
