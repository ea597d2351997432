"""Notes of repelling_attracting on posteriors that do not suit it.

A file of its own, so that a reworded message does not make Numba recompile the sampler.
"""

import numpy as np

from stanadapt.engine.after_run import Findings, RunView, reports_for
from stanadapt.errors import Message
from stanadapt.samplers.jumps import repelling_attracting

# limits of a note: number of parameters; share of iterations that gave up a search, at the
# cost of some hundred other iterations each; share of accepted moves
MANY_PARAMETERS, LARGEST_CAPPED, SMALLEST_ACCEPTED = 10, 0.001, 0.01
TEMPERING = "Use a sampler that tempers, such as simulated_tempering."


@reports_for(repelling_attracting.Settings)
def report(view: RunView) -> Findings:
    """Report too many evaluations, searches that were given up, and chains that hardly move."""
    settings, dim, stats = view.settings, view.dim, view.sample_stats
    notes = []
    if dim > MANY_PARAMETERS:
        text = (
            f"repelling_attracting took {stats['n_tries'].mean():.1f} density evaluations per "
            f"iteration for {dim} parameters. For steps as wide as the distance between modes, "
            "this number grows exponentially with the number of parameters: with more than "
            f"{MANY_PARAMETERS}, it finds few modes or takes very long. {TEMPERING}"
        )
        notes.append(Message("many_evaluations", text))
    if stats["capped"].mean() > LARGEST_CAPPED:
        text = (
            f"repelling_attracting gave up a search after {settings.longest_search} tries "
            f"(longest_search) in {stats['capped'].mean():.2%} of iterations, and did not move: "
            f"the draws are exact, but more of them repeat the previous one. {TEMPERING}"
        )
        notes.append(Message("search_given_up", text))
    rates = stats["accepted"].mean(axis=1)
    worst = int(np.argmin(rates))
    if rates[worst] < SMALLEST_ACCEPTED:
        text = (
            f"repelling_attracting: chain {worst + 1} accepted {rates[worst]:.2%} of its moves, "
            f"because their scale is too large (step_size {stats['step_size'][worst, -1]:.3g}). "
            "Lengthen warm-up (iter_warmup), during which the scale is learned, or lower "
            f"initial_scale. {TEMPERING}"
        )
        notes.append(Message("few_moves_accepted", text))
    return Findings(messages=notes)
