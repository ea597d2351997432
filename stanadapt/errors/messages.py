"""Codes of the checks of arguments that all layers share."""

from stanadapt.errors.codes import Code

OUT_OF_RANGE = Code(
    "out_of_range",
    "settings",
    "An argument is not a number of the expected kind, or lies outside its range.",
    "Give a number within the range that the message states.",
)
NOT_A_FLAG = Code(
    "not_a_flag",
    "settings",
    "An argument that is either on or off has another value.",
    "Give True or False.",
)
NOT_A_NAME = Code(
    "not_a_name",
    "settings",
    "An argument expects a name or a list of names.",
    "Give a string or a list of strings.",
)
