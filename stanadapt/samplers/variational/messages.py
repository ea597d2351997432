"""Codes of the messages of variational samplers, of `approximate`, and of Pathfinder's inits."""

from stanadapt.errors import Code

UNKNOWN_METHOD = Code(
    "unknown_method",
    "settings",
    "There is no method of this name in `approximate`.",
    "Use one of the methods that the message lists.",
)
UNKNOWN_METHOD_SETTING = Code(
    "unknown_method_setting",
    "settings",
    "The method of approximate has no setting of this name.",
    "Use one of the settings that the message lists.",
)
UNKNOWN_ALGORITHM = Code(
    "unknown_algorithm",
    "settings",
    "ADVI has no algorithm of this name.",
    'Give algorithm="fullrank" or algorithm="meanfield".',
)
DENSE_TOO_LARGE = Code(
    "dense_too_large",
    "settings",
    "The method needs a matrix with an entry for every pair of parameters, and the target has too "
    "many parameters.",
    "Use method='pathfinder', or 'advi' with algorithm='meanfield'.",
)
NOT_AN_APPROXIMATION = Code(
    "not_an_approximation",
    "settings",
    "A result of approximate is expected, but something different was given.",
    "Give the result of stanadapt.approximate.",
)
NO_APPROXIMATION = Code(
    "no_approximation",
    "sampling",
    "The method found no Gaussian that approximates the posterior, often because the posterior has "
    "no mode or its density fails along the path.",
    "Start at other points (inits), check that every parameter is bounded, or use sample.",
)
ESTIMATED_START_DENSITY = Code(
    "estimated_start_density",
    "initialization",
    'Pathfinder (inits="pathfinder") follows gradients, but the density of the target is an '
    "estimate.",
    "Give other inits.",
)
NO_PATHFINDER_START = Code(
    "no_pathfinder_start",
    "note",
    "Pathfinder found no starting point for a chain, so the chain starts at a random point.",
    "Check the diagnostics of this chain, or give inits.",
)
PATHS_FAILED = Code(
    "paths_failed",
    "note",
    "Some paths of Pathfinder are left out, because the density failed around every point of them.",
    "Start at other points (inits), or check the constraints of the program.",
)
PATHS_UNFINISHED = Code(
    "paths_unfinished",
    "note",
    "Some paths of Pathfinder did not reach a mode: the posterior may be improper.",
    "Raise max_iterations, or check that priors or data bound every parameter.",
)
ASCENT_UNFINISHED = Code(
    "ascent_unfinished",
    "note",
    "The evidence lower bound was still rising when the ascent of ADVI ended.",
    "Raise iterations.",
)
ASCENT_FAILURES = Code(
    "ascent_failures",
    "note",
    "Some draws during the ascent of ADVI had no finite density and were left out.",
    "The approximation extends beyond the support of the posterior: compare it with a sampler.",
)
POOR_PROPOSALS = Code(
    "poor_proposals",
    "note",
    "The distribution of independent proposals misses a part of the posterior, in which chains "
    "may stay for a very long time.",
    "Use approximation='full_rank'. For variational_mcmc, try kernel='mixture' or degrees above "
    "0; for hvi, try more transitions. If this does not help, use another sampler.",
)
LONG_STAY = Code(
    "long_stay",
    "note",
    "A chain did not move for a long time, in a region with more posterior mass than the "
    "approximation gives it.",
    "Use a kernel with local moves, or another sampler, and compare.",
)
FAILED_PATHS = Code(
    "failed_paths",
    "note",
    "The density failed on some paths, which makes the bound on the log evidence infinitely low.",
    "Use a smaller step_size. The bound that is reported is that of the other paths.",
)
