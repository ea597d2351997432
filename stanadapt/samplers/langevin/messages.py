"""Codes of the Langevin samplers and of mini-batches."""

from stanadapt.errors import NOTE, Code

BIAS_ABOVE_SETTING = Code(
    "bias_above_setting",
    NOTE,
    "The moves of ula are so large that their bias exceeds the setting variance_bias.",
    "Lengthen warm-up (iter_warmup), during which the step is reduced, or use mala, which is "
    "exact.",
)
INVALID_BATCHES = Code(
    "invalid_batches",
    "settings",
    "The rows of a program cannot be split into the batches that were asked for.",
    "Give a number of batches between 1 and the number of rows, and a program whose density is "
    "not an estimate.",
)
INVALID_ROWS = Code(
    "invalid_rows",
    "settings",
    "The variables named as rows do not have one row for each observation.",
    "Name all data variables that have the number of observations as their length.",
)
DEPENDENT_ROWS = Code(
    "dependent_rows",
    "settings",
    "The rows of a program are not independent given its parameters, so the densities of the "
    "batches do not add up to the density of all rows.",
    "If the program computes something from all rows, such as standardized predictors, pass the "
    "result as data. The rows of a time series are never independent.",
)
