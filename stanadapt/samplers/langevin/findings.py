"""A note of ula if its bias is larger than its settings allow.

A file of its own, so that a reworded message does not make Numba recompile the samplers.
"""

import numpy as np

from stanadapt.engine.after_run import Findings, RunView, reports_for
from stanadapt.errors import Message
from stanadapt.samplers.langevin import ula


@reports_for(ula.Settings)
def report(view: RunView) -> Findings:
    """Report a bias that is larger than allowed: a Metropolis test would reject many moves."""
    settings = view.settings
    rate = float(np.mean(view.sample_stats["acceptance_rate"]))
    if rate >= settings.least_accept - 0.5 * (1.0 - settings.least_accept):
        return Findings()
    text = (
        f"A Metropolis test would reject {1.0 - rate:.0%} of the moves: the bias is larger than "
        f"variance_bias={settings.variance_bias:g} allows. Lengthen warm-up (iter_warmup), or use "
        "mala, which makes the test."
    )
    return Findings(messages=[Message("bias_above_setting", text)])
