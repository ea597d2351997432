"""The range of acceptance rates that a run of gad_hmc is judged by.

A file of its own, so that a change here does not make Numba recompile the samplers.
"""

from stanadapt.diagnostics.sampler_checks import FAR_BELOW
from stanadapt.engine.after_run import Findings, RunView, reports_for
from stanadapt.samplers.gad import gad_hmc


@reports_for(gad_hmc.Settings)
def report(view: RunView) -> Findings:
    """Report that a chain that has learned may accept far more often than its target.

    The length of a trajectory is bounded by the entropy of its proposals, not by the target: the
    rate is only judged if it is too low.
    """
    rate = view.settings.target_accept
    return Findings({"acceptance_target": rate, "acceptance_range": [FAR_BELOW * rate, 1.0]})
