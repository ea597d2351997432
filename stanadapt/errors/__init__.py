"""Errors, warnings and their codes; and checks of arguments."""

from stanadapt.errors.checks import (
    LARGEST_WHOLE,
    described,
    did_you_mean,
    first_of,
    is_one_of,
    is_real,
    require_between,
    require_flag,
    require_names,
    require_whole,
)
from stanadapt.errors.codes import NOTE, STAGES, VERDICT, Code, Message, all_codes, codes_of
from stanadapt.errors.exceptions import ConvergenceWarning, StanadaptError, StanadaptWarning, warn
from stanadapt.errors.other_words import answers_other_words, in_our_words

__all__ = [
    "LARGEST_WHOLE", "NOTE", "STAGES", "VERDICT", "Code", "ConvergenceWarning", "Message",
    "StanadaptError", "StanadaptWarning", "all_codes", "answers_other_words", "codes_of",
    "described", "did_you_mean",
    "first_of", "in_our_words", "is_one_of", "is_real", "require_between", "require_flag",
    "require_names", "require_whole", "warn",
]  # fmt: skip
