"""Codes of notes on runs of repelling_attracting.

A file of its own, since `stanadapt.errors.all_codes` finds codes in modules of this name.
"""

from stanadapt.errors import NOTE, Code

MANY_EVALUATIONS = Code(
    "many_evaluations",
    NOTE,
    "There are many parameters for repelling_attracting: the number of density evaluations per "
    "iteration grows exponentially with them.",
    "Use a sampler that tempers, such as simulated_tempering.",
)
SEARCH_GIVEN_UP = Code(
    "search_given_up",
    NOTE,
    "In some iterations repelling_attracting reached the limit longest_search and did not move. "
    "The draws are exact, but fewer of them are new.",
    "Raise longest_search, or use a sampler that tempers, such as simulated_tempering.",
)
FEW_MOVES_ACCEPTED = Code(
    "few_moves_accepted",
    NOTE,
    "A chain of repelling_attracting accepted few of its moves, since their scale is too wide.",
    "Lengthen warm-up (iter_warmup), in which the scale is learned, or lower initial_scale.",
)
