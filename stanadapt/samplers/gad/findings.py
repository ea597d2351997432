"""The range of acceptance rates by which the verdict judges a run of gad_hmc.

A file of its own, so that a change here does not make Numba recompile the samplers.
"""

from stanadapt.diagnostics.sampler_checks import FAR_BELOW
from stanadapt.engine.after_run import Findings, RunView, reports_for
from stanadapt.samplers.gad import gad_hmc


@reports_for(gad_hmc.Settings)
def report(view: RunView) -> Findings:
    """Report a range without an upper bound: a tuned chain may accept far more than its target.

    The entropy of proposals, not the target, bounds the length of trajectories. A rate counts as
    wrong only if it is too low.
    """
    rate = view.settings.target_accept
    return Findings({"acceptance_target": rate, "acceptance_range": [FAR_BELOW * rate, 1.0]})
