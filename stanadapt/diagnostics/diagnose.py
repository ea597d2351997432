"""Can this fit be trusted? Its verdict in words, with what to try."""

from collections.abc import Iterator
from typing import Any

import numpy as np
from rich.console import Console

from stanadapt import results
from stanadapt.diagnostics.efficiency import Efficiency, efficiency
from stanadapt.diagnostics.importance import is_approximation
from stanadapt.diagnostics.screening import worst_columns
from stanadapt.diagnostics.verdict import FINE, Verdict, verdict
from stanadapt.errors import require_flag


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
