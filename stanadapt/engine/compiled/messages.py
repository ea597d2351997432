"""Codes of warnings about compiled code and the folder in which it is kept."""

from stanadapt.errors import NOTE, Code

CACHE_NOT_USED = Code(
    "cache_not_used",
    NOTE,
    "The cache folder cannot be written to, or other users can write to it. Compiled code is kept "
    "in a temporary folder, and compiled again by the next process.",
    "Set the environment variable STANADAPT_CACHE to a folder that only you can write to.",
)
JIT_CANNOT_BE_DISABLED = Code(
    "jit_cannot_be_disabled",
    NOTE,
    "NUMBA_DISABLE_JIT is set, but stanadapt requires compilation: its code calls C functions by "
    "their addresses, which interpreted code cannot do. The variable is ignored.",
    "Unset NUMBA_DISABLE_JIT.",
)
