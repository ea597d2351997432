"""Diagnose one fit: its verdict, the notes of its run, and the parameters that mix worst."""

import html
import itertools
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pandas as pd

from stanadapt import results
from stanadapt.diagnostics.importance import is_approximation
from stanadapt.diagnostics.mixing import Efficiency, efficiency, mixing_of
from stanadapt.diagnostics.modes import parameter_rows, require_fit_of
from stanadapt.diagnostics.reasons import Reason, attempted
from stanadapt.diagnostics.sampler_checks import check_ends
from stanadapt.diagnostics.screening import worst_columns
from stanadapt.diagnostics.verdict import verdict
from stanadapt.errors import Message, answers_other_words, codes_of
from stanadapt.results import Fit
from stanadapt.runs.hard_edges import ends_of
from stanadapt.samplers.whitened.missing_tails import find_tails, in_words, reasons_of
from stanadapt.samplers.whitened.modes_outside import modes_missed
from stanadapt.studies.noncentered import lines_of_block
from stanadapt.studies.shape import measure_shape
from stanadapt.targets.target import Target


@dataclass(frozen=True, eq=False, repr=False)
class Diagnosis:
    """Whether a fit can be used, and why; printed as a few lines.

    Parameters
    ----------
    verdict : str
        "fine", "not exact", "too short", "suspect" or "do not use".
    reasons : list of Message
        The reasons for the verdict; each states a problem and a remedy, and has a `code`.
    notes : list of str
        Notes of the run itself, such as an interruption.
    summary : str
        Numbers of chains and draws, largest R-hat and smallest effective sample sizes.
    table : pandas.DataFrame
        The parameters that mix worst, by increasing bulk effective sample size: `mean`, `sd`, their
        Monte Carlo standard errors `mcse_mean` and `mcse_sd`, `ess_bulk`, `ess_tail` and `r_hat`.
    """

    verdict: str
    reasons: list[Message]
    notes: list[str]
    summary: str
    table: pd.DataFrame

    @property
    def messages(self) -> list[str]:
        """Reasons and notes, in this order."""
        return [*self.reasons, *self.notes]

    @property
    def codes(self) -> list[str]:
        """Codes of reasons and notes, in this order; "" for a note without a code."""
        return codes_of(self.messages)

    def __repr__(self) -> str:
        lines = [f"{self.verdict}: {self.summary}", *(f"- {text}" for text in self._lines())]
        return "\n".join(lines)

    def _repr_html_(self) -> str:
        items = "".join(f"<li>{html.escape(text)}</li>" for text in self._lines())
        head = f"<p><strong>{html.escape(self.verdict)}</strong>: {html.escape(self.summary)}</p>"
        return head + (f"<ul>{items}</ul>" if items else "")

    def _lines(self) -> list[str]:
        """Messages, each with its code, by which the documentation explains it."""
        codes = codes_of(self.messages)
        return [f"{m} [{c}]" if c else str(m) for m, c in zip(self.messages, codes, strict=True)]


@answers_other_words
def diagnose(fit: Fit, target: Target | None = None) -> Diagnosis:
    """Judge whether a fit can be used, and list its problems and their remedies.

    Parameters
    ----------
    fit : Fit
        A result of `sample` or `stan_nuts`, or any ArviZ object with a posterior. The parameters
        are judged; if the fit does not record their names, all variables are.
    target : Target, optional
        The target of the fit. With it, gradients at 600 draws show how far the posterior is from a
        Gaussian, on which parameters the scales and locations of others depend, and whether the
        fit lacks a tail of such a parameter, which no check of draws alone can show. If parameters
        are exactly normal given others, such as up to 12 scales, slopes and loadings, it is also
        tested whether draws thin out toward a tail of these: reason `tail_missing`, or the remark
        `tail_doubtful`. Undeclared bounds, and tails that are cut off at declared ones, are sought
        with up to 300 parameters (`hard_edges`, `cut_tail`), and modes that all draws lack with
        up to 50 (`mode_missed`).

    Returns
    -------
    Diagnosis
        The verdict ("fine", "not exact", "too short", "suspect" or "do not use"), its reasons, the
        notes of the run, and a table of the parameters that mix worst.

    Raises
    ------
    StanadaptError
        Stage "settings", if `fit` is not an ArviZ object with draws, or not a fit of `target`.

    Examples
    --------
    >>> import stanadapt as sa
    >>> program = "parameters { real x; } model { x ~ normal(1, 2); }"
    >>> target = sa.Target(program, backend="stanli", show_progress=False)
    >>> fit = sa.sample(target, seed=1, show_progress=False)
    >>> diagnosis = sa.diagnose(fit)
    >>> diagnosis.verdict, diagnosis.codes
    ('fine', [])
    """
    results.require_draws(fit, "fit")
    notes, reasons = [*_interruption(fit), *results.notes(fit)], None
    if target is not None:
        require_fit_of(target, fit, "diagnose")
        rows, _ = parameter_rows(target, fit)
        reasons = itertools.chain(
            [*attempted("tail_missing", _missing_tails, target, fit, rows, notes)],  # and notes
            attempted("hard_edges", _ends, target, fit),
            attempted("mode_missed", modes_missed, target, fit),
        )
    judgment = verdict(fit, reasons)
    columns = results.columns(fit, wanted=results.parameters(fit))
    finite = {name: x.astype(float) for name, x in columns.items() if np.isfinite(x).all()}
    worst = {name: finite[name] for name in worst_columns(finite)}
    measured = efficiency(worst, measure=mixing_of(fit))
    summary = _summarize(measured, fit)
    return Diagnosis(judgment.verdict, judgment.reasons, notes, summary, _table(measured))


def _missing_tails(
    target: Target, fit: Fit, rows: np.ndarray, notes: list[str]
) -> Iterator[Reason]:
    """Yield the tails that are missing, and note the shape of the posterior."""
    notes += measure_shape(target, fit).messages
    found = find_tails(target, fit)
    yield from reasons_of(target, found)
    if found is not None:
        program = lines_of_block(target, found.block, target.unconstrain_rows(rows[[0, -1]]))
        new = [line for line in program if not any(line in note for note in notes)]
        text = "\n    ".join([" For NUTS, write the program as", *new]) if new else ""
        notes.append(Message("gaussian_block", f"{in_words(target, found)}.{text}"))


def _ends(target: Target, fit: Fit) -> Iterator[Reason]:
    yield from check_ends(fit, ends_of(target, fit))


def _interruption(fit: Fit) -> Iterator[Message]:
    if results.attribute(fit, "interrupted", 0) != 1:
        return
    draws = results.dataset(fit, "posterior").sizes["draw"]
    run = results.attribute(fit, "run")
    remedy = f"the same call with seed={results.attribute(fit, 'seed')} draws these and the rest."
    if run is not None:
        remedy = f"continue with stanadapt.resume({run!r})."
    yield Message("interrupted_fit", f"Interrupted after {draws:,} draws per chain: {remedy}")


def _table(measured: Efficiency) -> pd.DataFrame:
    numbers = measured._asdict()
    names = numbers.pop("names")
    table = pd.DataFrame(numbers, index=pd.Index(names, name="parameter"))
    return table.sort_values("ess_bulk", kind="stable")


def _summarize(measured: Efficiency, fit: Fit) -> str:
    sizes = results.dataset(fit, "posterior").sizes
    parts = [f"{sizes['chain']} x {sizes['draw']:,} draws"]
    if is_approximation(fit):
        k = float(results.attribute(fit, "pareto_k", np.nan))
        return f"{parts[0]} of an approximation ({results.source_name(fit)}); Pareto k {k:.2f}."
    if np.isfinite(measured.r_hat).any():
        worst = int(np.nanargmax(measured.r_hat))
        parts.append(f"largest R-hat {measured.r_hat[worst]:.3f} ({measured.names[worst]})")
    for kind, ess in (("bulk", measured.ess_bulk), ("tail", measured.ess_tail)):
        if np.isfinite(ess).any():
            worst = int(np.nanargmin(ess))
            parts.append(f"smallest {kind} ESS {ess[worst]:,.0f} ({measured.names[worst]})")
    return "; ".join(parts) + "."
