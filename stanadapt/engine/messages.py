"""Codes of the engine: settings of samplers, registration, compilation, and `check_sampler`."""

from stanadapt.errors import NOTE, Code

# --- samplers and settings that a user names ------------------------------------------------------

UNKNOWN_SAMPLER = Code(
    "unknown_sampler",
    "settings",
    "No sampler of this name is registered.",
    "Use one of the names that `stanadapt samplers` lists. If it is your own sampler, import its "
    "file first.",
)
UNKNOWN_SETTING = Code(
    "unknown_setting",
    "settings",
    "The sampler has no setting of this name.",
    "Check the spelling: `stanadapt samplers NAME` lists the settings of a sampler.",
)
UNKNOWN_PRESET = Code(
    "unknown_preset",
    "settings",
    "The sampler has no preset of this name.",
    "Choose one of the presets that the message lists; `stanadapt samplers NAME` shows their "
    "settings.",
)
INVALID_SETTING = Code(
    "invalid_setting",
    "settings",
    "A setting of a sampler has the wrong type, lies outside its range, or contradicts another.",
    "Give a value within the range that the message states.",
)
OUT_OF_MEMORY = Code(
    "out_of_memory",
    "settings",
    "The draws of the run, or the matrices of the sampler, do not fit into memory.",
    "Keep fewer draws (iter_sampling, thin, chains), or follow the advice in the message.",
)

# --- the file of a sampler ------------------------------------------------------------------------

INVALID_SAMPLER = Code(
    "invalid_sampler",
    "sampler",
    "A sampler cannot be registered, because it breaks several rules of the protocol.",
    "Correct each of them; `stanadapt.engine.authoring` has a complete example.",
)
SAMPLER_NAME_TAKEN = Code(
    "sampler_name_taken",
    "sampler",
    "Another sampler has the same name, that of its file, or the name has another meaning.",
    "Rename the file: a sampler is named after its file. A file, or notebook, holds one sampler.",
)
INVALID_SAMPLER_TUPLE = Code(
    "invalid_sampler_tuple",
    "sampler",
    "Settings, State or Info of a sampler is not a NamedTuple class with the required fields.",
    "Declare the fields with the types that the message names.",
)
INVALID_SAMPLER_FUNCTION = Code(
    "invalid_sampler_function",
    "sampler",
    "A function of a sampler is not compiled, or takes the wrong number of arguments.",
    "Decorate it with `jit`, and give it the arguments that the message names.",
)
INVALID_SAMPLER_OPTION = Code(
    "invalid_sampler_option",
    "sampler",
    "An option in the registration of a sampler has a value that it cannot take.",
    "Give one of the values that the message names.",
)
SAMPLER_NOT_COMPILED = Code(
    "sampler_not_compiled",
    "sampler",
    "Numba cannot compile the code of a sampler.",
    "Correct the line that the message names.",
)
SAMPLER_RAISED = Code(
    "sampler_raised",
    "sampler",
    "A function of a sampler raised an error while it ran.",
    "Let `step` and `adapt` never raise: give a log density of minus infinity for a rejection, or "
    "a field of Info such as diverging.",
)
INVALID_STATE = Code(
    "invalid_state",
    "sampler",
    "The state with which `init` of a sampler begins lacks the declared types or the right shape.",
    "Give each field of State the type that the message names.",
)
SAMPLER_NOTE = Code(
    "sampler_note",
    NOTE,
    "A sampler that is not part of the package reports something about a run.",
    "Read the text, which the author of the sampler wrote.",
)

# --- faults that `check_sampler` finds ------------------------------------------------------------

NOT_INVARIANT = Code(
    "not_invariant",
    "sampler",
    "The sampler does not leave its target invariant: means or variances of its draws are wrong.",
    "Check the acceptance ratio, above all the density of the reverse move.",
)
MIXES_TOO_SLOWLY = Code(
    "mixes_too_slowly",
    "sampler",
    "The chains of a check mix too slowly for their moments to be compared with the true ones.",
    "Tune faster, or give `check_sampler` settings that suit 2000 iterations of warm-up.",
)
DRAWS_NOT_REPRODUCIBLE = Code(
    "draws_not_reproducible",
    "sampler",
    "The draws depend on the number of threads or on the size of chunks, or do not depend on the "
    "seed.",
    "Keep everything that the next step needs in State, and draw random numbers only from `rng`.",
)
CHAINS_DO_NOT_MOVE = Code(
    "chains_do_not_move",
    "sampler",
    "The chains of a check end where they started: no draw differs from the first.",
    "Return an accepted proposal as `current` of the state, and check the size of the steps.",
)
STATISTICS_NOT_FINITE = Code(
    "statistics_not_finite",
    "sampler",
    "A statistic of the sampler, a field of Info, is infinite or not a number.",
    "Give a number for each iteration, also after a failed evaluation and where a ratio is 0/0.",
)
FAILURES_NOT_REJECTED = Code(
    "failures_not_rejected",
    "sampler",
    "The sampler does not handle failed evaluations of the density correctly.",
    "Treat a log density of minus infinity as a rejection.",
)
CHANGES_AFTER_WARMUP = Code(
    "changes_after_warmup",
    "sampler",
    "After warm-up, tuning does not stop, or does not continue, although the sampler declares "
    "that it does.",
    "Adapt only in `adapt`, name workspace in `workspace`, and set `adapts_forever` if adaptation "
    "continues after warm-up.",
)
UNDECLARED_EVALUATIONS = Code(
    "undeclared_evaluations",
    "sampler",
    "The sampler evaluates gradients although it declares values, or values although it declares "
    "gradients.",
    "Set `uses_gradient` to True if `step` calls the gradient, and to False otherwise.",
)
ALLOCATES_MEMORY = Code(
    "allocates_memory",
    "sampler",
    "A step of the sampler allocates memory.",
    "Keep workspace in State, and write into it.",
)
