"""Verdicts, and the reasons for them: each check of a fit is a row of a table.

A row states its measure, the limit from which on it is a problem, and the verdict and the text of
that problem. `sampler_checks` and `draw_checks` hold the rows, and `find_problems` evaluates them.
"""

import contextlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from stanadapt import results
from stanadapt.errors import Message, StanadaptWarning
from stanadapt.results import Fit

# from best to worst. A fit of a sampler that is not exact is never fine, however well it mixes.
# More draws or a longer warm-up cure a fit that is too short; one that is suspect may lack a region
FINE, NOT_EXACT, TOO_SHORT, SUSPECT, DO_NOT_USE = (
    "fine", "not exact", "too short", "suspect", "do not use",
)  # fmt: skip
ORDER = [FINE, NOT_EXACT, TOO_SHORT, SUSPECT, DO_NOT_USE]
NOT_JUDGED = "not judged"  # there was no time


class Judged:
    """A fit and what rows need to know about it; subclasses compute more, each number once."""

    def __init__(self, fit: Fit) -> None:
        self.fit = fit

    @cached_property
    def other(self) -> str:
        """A phrase that recommends samplers other than the one that drew the fit."""
        if "tempering" in results.group_names(self.fit):
            return "another sampler (the default, or sampler='nuts', for a single mode)"
        modes = "'parallel_tempering' for many modes"
        remedies = {
            "whitened_hmc": f"({modes}) or parameterization",  # the default
            "nuts": f"(the default for smooth posteriors; {modes}) or parameterization",
        }
        usual = f"(the default, or sampler='nuts', for smooth posteriors; {modes})"
        return f"another sampler {remedies.get(self.attribute('sampler', ''), usual)}"

    @cached_property
    def stats(self) -> dict[str, np.ndarray]:
        """The sampler's statistics by ArviZ's names, as floats, shape (chain, draw)."""
        return results.statistics(self.fit)

    def attribute(self, name: str, default: Any = None) -> Any:
        return results.attribute(self.fit, name, default)


class Worse(NamedTuple):
    """What is worse than the problem of a row, from a larger limit on."""

    above: float
    verdict: str
    text: str


class Check(NamedTuple):
    """A row: one problem for which a fit is examined."""

    code: str
    measure: Callable[[Any], Mapping[str, Any]]  # "value", and words of the text; {} if unknown
    verdict: str | Callable[[Any], str]  # one of `ORDER`, or a function that chooses one
    text: str  # the problem, and a remedy, with words in braces; `{other}`: other samplers
    above: float = 0.0  # the measured value of a problem is larger
    worse: Worse | None = None
    ends: bool = False  # whether, after this problem, the remaining rows mean nothing


class Reason(NamedTuple):
    """A problem of a fit: the verdict that it implies, and a message."""

    verdict: str  # one of `ORDER`; "fine" if the problem only deserves a remark
    message: Message


@contextlib.contextmanager
def draws_kept(name: str) -> Iterator[list[Message]]:
    """Turn an error in a check into a message in the list, since the draws are done.

    Warnings pass, which are errors only if the user wants them to be.
    """
    failed: list[Message] = []
    try:
        yield failed
    except StanadaptWarning:
        raise
    except Exception as error:  # of any kind: none may cost the draws
        text = (
            f"The check {name} failed ({type(error).__name__}: {error}). The draws are complete, "
            "but whether they pass this check is unknown. Please report the problem, with the fit; "
            "stanadapt.diagnose(fit, target) checks again."
        )
        failed.append(Message("check_failed", text))


def attempted(name: str, find: Callable[..., Iterable[Reason]], *given: Any) -> Iterator[Reason]:
    """Yield the reasons that a check finds; if it fails, that the fit has not passed it."""
    with draws_kept(name) as failed:
        yield from find(*given)
    yield from (Reason(SUSPECT, message) for message in failed)


def find_problems(checks: Iterable[Check], judged: Judged) -> Iterator[Reason]:
    """Evaluate rows in their order, and yield the problems that a fit has."""
    for check in checks:
        for reason in attempted(check.code, _problem, check, judged):
            yield reason
            if check.ends and reason.message.code == check.code:
                return


def _problem(check: Check, judged: Judged) -> Iterator[Reason]:
    found = check.measure(judged)
    value, verdict, text = found.get("value", 0.0), check.verdict, check.text
    if not value > check.above:
        return
    if check.worse is not None and value > check.worse.above:
        _, verdict, text = check.worse
    message = Message(check.code, text.format(**{"other": judged.other, **found}))
    yield Reason(verdict if isinstance(verdict, str) else verdict(judged), message)


def count_draws(share: float, draws: int, noun: str = "draws") -> str:
    """Return the number and the share of some draws, for a message."""
    return f"{round(share * draws)} of {draws} {noun} ({share:.2%})"


def numbers_of(chains: Any) -> str:
    """Return the numbers of the chains, from 1, for which an array has true values."""
    return ", ".join(str(c + 1) for c, found in enumerate(chains) if found)
