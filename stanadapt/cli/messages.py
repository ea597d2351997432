"""Codes of the messages of the command line."""

from stanadapt.errors import NOTE, Code

SETTING_SYNTAX = Code(
    "setting_syntax",
    "settings",
    "The option --set was given a text without an equals sign.",
    "Write --set NAME=VALUE, and repeat the option for each setting.",
)
SETTING_UNUSED = Code(
    "setting_unused",
    "settings",
    "None of the samplers that are compared has a setting that was given by --set.",
    "Correct the name, or add the sampler to --sampler; `stanadapt samplers NAME` lists its "
    "settings.",
)
OPTIONS_CONFLICT = Code(
    "options_conflict",
    "settings",
    "Two options of a command cannot be combined, or one of them needs another.",
    "Leave out one of the options that the message names, or add the missing one.",
)
DUPLICATE_TARGET = Code(
    "duplicate_target",
    "settings",
    "The same program with the same data was named twice as a target.",
    "Leave out one of them, or rename a file so that the names differ.",
)
UNKNOWN_EXPERIMENT = Code(
    "unknown_experiment",
    "settings",
    "No experiment of the papers has this name.",
    "List the experiments with `stanadapt paper`.",
)
UNKNOWN_CODE = Code(
    "unknown_code",
    "settings",
    "No message has this code.",
    "List all codes with `stanadapt explain`.",
)
WOULD_OVERWRITE = Code(
    "would_overwrite",
    "files",
    "A command would replace an existing file, and was not asked to do so.",
    "Choose another --out or --report, or add --force.",
)
EXPERIMENTS_MISSING = Code(
    "experiments_missing",
    "installation",
    "This copy of the package was installed without the experiments of the papers.",
    "Install the wheel, or work in a clone of the repository.",
)
NO_PUBLISHED_DRAWS = Code(
    "no_published_draws",
    NOTE,
    "The posteriordb has no reference draws of this posterior, so fits are not compared with "
    "reference draws.",
    "Compare with Stan's NUTS, or choose a posterior that has reference draws.",
)
UNUSED_PUBLISHED_DRAWS = Code(
    "unused_published_draws",
    NOTE,
    "Repeats are compared only with each other, not with the reference draws of the posteriordb.",
    "Leave out --repeats to compare one fit of each sampler with them.",
)
OUTPUT_NOT_WRITTEN = Code(
    "output_not_written",
    "files",
    "The output of a command cannot be written to the file or the pipe to which the shell has "
    "directed it.",
    "Free some space on the disk, or direct the output elsewhere.",
)
