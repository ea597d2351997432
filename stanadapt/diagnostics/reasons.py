"""Verdicts, from best to worst, and the reasons for them.

A file of its own, since both `verdict` and `sampler_checks`, which it imports, give reasons.
"""

from typing import NamedTuple

from stanadapt import results
from stanadapt.errors import Message
from stanadapt.results import Fit

# from best to worst. A fit of a sampler that is not exact is never fine, however well it mixes.
# More draws or a longer warm-up cure a fit that is too short; one that is suspect may lack a region
FINE, NOT_EXACT, TOO_SHORT, SUSPECT, DO_NOT_USE = (
    "fine", "not exact", "too short", "suspect", "do not use",
)  # fmt: skip
ORDER = [FINE, NOT_EXACT, TOO_SHORT, SUSPECT, DO_NOT_USE]
NOT_JUDGED = "not judged"  # there was no time


class Reason(NamedTuple):
    """A problem of a fit: the verdict that it implies, and a message.

    verdict
        One of `ORDER`; "fine" if the problem only deserves a remark.
    message
        The problem, and a remedy.

    """

    verdict: str
    message: Message


def reason(verdict: str, code: str, text: str) -> Reason:
    """Return a reason with the text of its message."""
    return Reason(verdict, Message(code, text))


def another_sampler(fit: Fit) -> str:
    """Return a phrase that recommends samplers other than the one that drew the fit."""
    if "tempering" in results.group_names(fit):
        return "another sampler (the default, or sampler='nuts', for a single mode)"
    used, modes = results.attribute(fit, "sampler"), "'parallel_tempering' for many modes"
    if used == "whitened_hmc":  # the default
        return f"another sampler ({modes}) or parameterization"
    if used == "nuts":  # Stan's, or ours
        return f"another sampler (the default for smooth posteriors; {modes}) or parameterization"
    return f"another sampler (the default, or sampler='nuts', for smooth posteriors; {modes})"


def count_draws(share: float, draws: int) -> str:
    """Return the number and the share of some draws, for a message."""
    return f"{round(share * draws)} of {draws} draws ({share:.2%})"
