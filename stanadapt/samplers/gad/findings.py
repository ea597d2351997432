"""Reports on runs of the samplers named gad: the learned L, and the range of acceptance rates.

A file of its own, so that a change here does not make Numba recompile the samplers.
"""

from typing import Any

import numpy as np

from stanadapt.diagnostics.sampler_checks import FAR_BELOW
from stanadapt.engine.after_run import Findings, RunView, reports_for
from stanadapt.samplers.gad import gad_hmc, gad_mala, gad_rwm
from stanadapt.samplers.saved_factor import saved_factor


@reports_for(gad_mala.Settings, gad_rwm.Settings)
def report_factor(view: RunView) -> Findings:
    """Report the learned L if it was asked for."""
    return Findings(groups=_groups(view))


@reports_for(gad_hmc.Settings)
def report(view: RunView) -> Findings:
    """Report L, and a range without an upper bound: a tuned chain may accept more than its target.

    The entropy of proposals, not the target, bounds the length of trajectories. A rate counts as
    wrong only if it is too low.
    """
    rate = view.settings.target_accept
    attributes = {"acceptance_target": rate, "acceptance_range": [FAR_BELOW * rate, 1.0]}
    return Findings(attributes, groups=_groups(view))


def _groups(view: RunView) -> dict[str, Any]:
    if not view.settings.save_factor:
        return {}
    return saved_factor(view, [_whole(chain.state.tuning.factor) for chain in view.chains])


def _whole(factor: np.ndarray) -> np.ndarray:
    """L as a matrix: without what lies above the diagonal of a triangle, where nothing reads."""
    rows, dim = factor.shape
    if rows == dim:
        return np.tril(factor)
    if rows == 1:
        return factor
    rank = (rows - 1) // 2
    return np.diag(factor[0]) + factor[1 : 1 + rank].T @ factor[1 + rank :]
