"""Codes of errors in initial values, and in earlier fits from which samplers learn.

A file of its own, since `stanadapt.errors.all_codes` finds codes in modules of this name.
"""

from stanadapt.errors import Code

INVALID_INITS = Code(
    "invalid_inits",
    "initialization",
    "The initial values have a type, a shape or a value that is not allowed.",
    'Give None, a radius, "pathfinder", constrained values (a mapping, a list with a mapping for '
    "each chain, or JSON), an array of unconstrained positions, or an earlier fit.",
)
UNREADABLE_INITS = Code(
    "unreadable_inits",
    "initialization",
    "The file of initial values cannot be read, or the text is not JSON.",
    "Check the path, and that the file has a mapping of parameters to values, or a list of them.",
)
UNKNOWN_PARAMETER = Code(
    "unknown_parameter",
    "initialization",
    "The initial values contain a name that is not a parameter of the program, or none of its "
    "parameters.",
    "Check the spelling: the message lists the parameters of the program.",
)
UNSUITABLE_FIT = Code(
    "unsuitable_fit",
    "initialization",
    "The earlier fit is not a fit, or lacks parameters of the program.",
    "Give a fit of the same program, made by `sample`, `stan_nuts` or `approximate`.",
)
INITIALIZATION_FAILED = Code(
    "initialization_failed",
    "initialization",
    "The log density or its gradient is not finite at the initial values.",
    "Check whether the data and the priors are compatible, or give initial values (inits) with a "
    "finite log density.",
)
