"""Codes of notes on runs of repelling_attracting.

A file of its own, since `stanadapt.errors.all_codes` finds codes in modules of this name.
"""

from stanadapt.errors import NOTE, Code

MANY_EVALUATIONS = Code(
    "many_evaluations",
    NOTE,
    "There are too many parameters for repelling_attracting: the number of density evaluations "
    "per iteration grows exponentially with the number of parameters.",
    "Use a sampler that tempers, such as simulated_tempering.",
)
SEARCH_GIVEN_UP = Code(
    "search_given_up",
    NOTE,
    "In some iterations repelling_attracting reached the limit longest_search and did not move. "
    "The draws are exact, but more of them repeat the previous one.",
    "Raise longest_search, or use a sampler that tempers, such as simulated_tempering.",
)
FEW_MOVES_ACCEPTED = Code(
    "few_moves_accepted",
    NOTE,
    "A chain of repelling_attracting accepted few of its moves, because their scale is too large.",
    "Lengthen warm-up (iter_warmup), during which the scale is learned, or lower initial_scale.",
)
