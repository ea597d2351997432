"""Signs that repelling_attracting does not suit a posterior.

A file of its own, so that a reworded message does not make Numba recompile the sampler.
"""

import numpy as np

from stanadapt.engine.after_run import Findings, RunView, reports_for
from stanadapt.samplers.jumps import repelling_attracting

# what is told of: more parameters, a larger share of searches given up (each of which takes as many
# evaluations as some hundred other iterations), a smaller share of accepted moves
MANY_PARAMETERS, CAPPED_TOLD, FEW_ACCEPTED = 10, 0.001, 0.01


@reports_for(repelling_attracting.Settings)
def report(view: RunView) -> Findings:
    """Report too many evaluations, searches that were given up, and chains that hardly move."""
    settings, dim, stats = view.settings, view.dim, view.sample_stats
    said, tempering = [], "Use a sampler that tempers, such as simulated_tempering."
    if dim > MANY_PARAMETERS:
        said.append(
            f"repelling_attracting took {stats['n_tries'].mean():.1f} density evaluations per "
            f"iteration for {dim} parameters. For steps as wide as the distance between modes the "
            f"number grows exponentially with the parameters: with more than {MANY_PARAMETERS} it "
            f"finds few modes or takes very long. {tempering}"
        )
    if stats["capped"].mean() > CAPPED_TOLD:
        said.append(
            f"repelling_attracting gave up a search after {settings.longest_search} tries "
            f"(longest_search) in {stats['capped'].mean():.2%} of iterations, and stayed where it "
            f"was: the draws are exact, but fewer of them are new. {tempering}"
        )
    rates = stats["accepted"].mean(axis=1)
    worst = int(np.argmin(rates))
    if rates[worst] < FEW_ACCEPTED:
        said.append(
            f"repelling_attracting: a chain accepted {rates[worst]:.2%} of its moves, whose scale "
            f"is too wide (step_size {stats['step_size'][worst, -1]:.3g}). Lengthen warm-up "
            f"(iter_warmup), in which the scale is learned, or lower initial_scale. {tempering}"
        )
    return Findings(messages=said)
