"""Codes of the messages about networks and their training."""

from stanadapt.errors import Code

NETWORK_MISMATCH = Code(
    "network_mismatch",
    "settings",
    "The arrays of a network do not fit together.",
    "Give couplings, weights, mean and factor of the sizes that the message states.",
)
NETWORK_VALUES = Code(
    "network_values",
    "settings",
    "A network was given values that it cannot use, such as numbers that are not finite.",
    "Give finite numbers, positive scales, and couplings that move z or v.",
)
WRONG_NETWORK = Code(
    "wrong_network",
    "settings",
    "The network was trained for another program, or the file does not contain a network.",
    "Train a network for this program.",
)
NETWORK_UNREADABLE = Code(
    "network_unreadable",
    "files",
    "A file cannot be read, or does not contain a network.",
    "Give a file written by Network.save.",
)
NETWORK_UNWRITABLE = Code(
    "network_unwritable",
    "files",
    "A network cannot be written to this path.",
    "Choose a folder to which you can write, on a disk with free space.",
)
NETWORK_FORMAT = Code(
    "network_format",
    "files",
    "A network was saved in a format that this version cannot read.",
    "Train the network again.",
)
JAX_MISSING = Code(
    "jax_missing",
    "installation",
    "Training a network needs JAX and optax, which are not installed.",
    "Run pip install 'stanadapt[learn]'.",
)
CONSTANT_FIRST_DRAWS = Code(
    "constant_first_draws",
    "sampling",
    "The first draws of the training do not vary in every parameter.",
    "Give a warm_start, or other inits.",
)
TRAINING_WITHOUT_RESULT = Code(
    "training_without_result",
    "sampling",
    "Training was interrupted or diverged before any network had been evaluated.",
    "Let the training run longer, or lower learning_rate.",
)
TRAINING_STOPPED = Code(
    "training_stopped",
    "note",
    "Training was interrupted or diverged; the best network so far was returned.",
    "If it diverged, lower learning_rate; otherwise train longer for a better network.",
)
NETWORK_OTHER_DATA = Code(
    "network_other_data",
    "note",
    "The network was trained with other data: draws are exact, but sampling may be less efficient.",
    "Train it again if sampling is inefficient.",
)
