"""Codes of messages about runs, and Stan's own NUTS."""

from stanadapt.errors import NOTE, Code

# --- what a run is asked for ----------------------------------------------------------------------
UNKNOWN_ARGUMENT = Code(
    "unknown_argument",
    "settings",
    "A keyword is neither an argument of the function nor a setting of the sampler.",
    "Check the spelling; `stanadapt samplers NAME` lists the settings.",
)
UNKNOWN_METRIC = Code(
    "unknown_metric",
    "settings",
    "This form of the metric of Stan's NUTS is not available here.",
    "Use metric='diag_e', which is learned, or metric='unit_e', the identity.",
)
OPTION_NOT_USED = Code(
    "option_not_used",
    "settings",
    "The sampler does not use an option that was given.",
    "Leave the option out, or use one of the samplers that the message names.",
)
SAMPLER_NOT_FOR_TARGET = Code(
    "sampler_not_for_target",
    "settings",
    "The sampler would be biased, or cannot run, on this kind of target.",
    "Use one of the samplers that the message names, or another target.",
)
TOO_MANY_THREADS = Code(
    "too_many_threads",
    "settings",
    "There are more threads per chain than moves that they could share.",
    "Lower threads_per_chain, or use more chains.",
)
CONFLICTING_STARTS = Code(
    "conflicting_starts",
    "settings",
    "Two arguments that exclude each other determine the start of the chains.",
    "Give only one of them.",
)
CANNOT_STANDARDIZE = Code(
    "cannot_standardize",
    "settings",
    "The chains cannot run in the coordinates that `standardize` asks for.",
    'Leave standardize out, or give True, False, "straighten" or None.',
)
NOT_AN_EXECUTOR = Code(
    "not_an_executor",
    "settings",
    "The executor cannot run the chains of this target.",
    "Give a concurrent.futures.Executor or a Dask client, and a Stan program as target.",
)

# --- while it runs --------------------------------------------------------------------------------
NO_DRAWS = Code(
    "no_draws",
    "sampling",
    "The run ended before there was a draw.",
    "Check priors and constraints, start elsewhere (inits), or shorten the warm-up.",
)
INTERRUPTED = Code(
    "interrupted",
    "sampling",
    "The run was interrupted before there was a draw.",
    "Run it again; a shorter warm-up (iter_warmup) reaches the first draw earlier.",
)
WORKERS_FAILED = Code(
    "workers_failed",
    "sampling",
    "The workers of the executor failed.",
    "See the error in the message; a run that is kept in a folder can be resumed.",
)

# --- a run that is resumed, or continued by a worker ----------------------------------------------
RUN_MISMATCH = Code(
    "run_mismatch",
    "settings",
    "The program, the data, options of the target, or the sampler differ from those of the run.",
    "Resume with the same program, data, options and sampler, or start a new run.",
)
RUN_NEEDS_TARGET = Code(
    "run_needs_target",
    "settings",
    "The target of the run cannot be made from the folder alone.",
    "Create the target again and pass it as `target`.",
)
WORKER_VERSION = Code(
    "worker_version",
    "installation",
    "A worker has another version of the package.",
    "Install the same version everywhere.",
)
NO_DRAWS_YET = Code(
    "no_draws_yet",
    "files",
    "The run in the folder has no draws yet.",
    "Read it later, or resume it.",
)

# --- notes ----------------------------------------------------------------------------------------
SAMPLER_CHOSEN = Code(
    "sampler_chosen",
    NOTE,
    "The density has no usable gradient, so a sampler without gradients was chosen.",
    "Check the program for branches and rounding if you expected a gradient.",
)
PRIOR_FILE_CHANGED = Code(
    "prior_file_changed",
    NOTE,
    "The file of data for the prior that a run recorded is gone, or has other contents.",
    "Give the data as --prior-data, or call stanadapt.add_prior.",
)
MUCH_MEMORY = Code(
    "much_memory",
    NOTE,
    "The run will use more than half of the free memory.",
    "Keep fewer draws if other programs need memory.",
)
FAILED_EVALUATIONS = Code(
    "failed_evaluations",
    NOTE,
    "The density was not finite at some positions, which were rejected.",
    "If there are many, bound the parameters in the program, or give them tighter priors.",
)
FAILED_QUANTITIES = Code(
    "failed_quantities",
    NOTE,
    "Generated quantities failed at some draws, and are NaN there.",
    "Fix the block, or remove the failing statement. Parameters are unaffected.",
)
CHAINS_TOO_SHORT = Code(
    "chains_too_short",
    NOTE,
    "The interruption left some chains too short to keep.",
    "Run longer, or resume the run if it is kept in a folder.",
)
SCALES_CHANGED = Code(
    "scales_changed",
    NOTE,
    "The draws of warm_start no longer fit the posterior, so its scales were learned again.",
    "No action is needed if the data or the program have changed; otherwise check the earlier fit.",
)
SCALES_NOT_SETTLED = Code(
    "scales_not_settled",
    NOTE,
    "The log density had not settled when the scales were learned.",
    "Give inits, raise iter_warmup, or compare with standardize=False.",
)
NOT_EXTENDED = Code(
    "not_extended",
    NOTE,
    "Sampling stopped before there were enough draws.",
    "See the reason in the message.",
)
OUT_OF_REACH = Code(
    "out_of_reach",
    NOTE,
    "The run came no closer to until_ess although it was extended several times.",
    "See the verdict: chains in separate modes, or one that does not move, need another sampler or "
    "other inits. stanadapt.resume continues a run that is kept in a folder.",
)
STOPPED_ON_REQUEST = Code(
    "stopped_on_request",
    NOTE,
    "The run was stopped by its time limit or by the progress function.",
    "Raise max_minutes to get more draws, or resume the run.",
)
REPORT_LEFT_OUT = Code(
    "report_left_out",
    NOTE,
    "The sampler's own report on the run failed, was interrupted, or does not fit into the result.",
    "The draws are unaffected. Correct the sampler's `after_run` as the message says.",
)
ENDED_EARLY = Code(
    "ended_early",
    NOTE,
    "The run ended early because workers failed; the result has the draws up to that point.",
    "See the error in the message.",
)
OTHER_VERSIONS = Code(
    "other_versions",
    NOTE,
    "The run was resumed with other versions of the libraries.",
    "Draws may differ in the last digits from those of an uninterrupted run.",
)
CHECKPOINT_FAILED = Code(
    "checkpoint_failed",
    NOTE,
    "The last checkpoint of the run could not be written.",
    "Free space on the disk; the run cannot be resumed from its end.",
)
PRIOR_NOT_DRAWN = Code(
    "prior_not_drawn",
    NOTE,
    "The prior could not be sampled, or its draws are not fine; the fit itself is unaffected.",
    "See the reason in the message.",
)

# --- run folders ----------------------------------------------------------------------------------
RUN_EXISTS = Code(
    "run_exists",
    "files",
    "The folder already contains a run.",
    "Continue that run with stanadapt.resume, or choose another folder.",
)
FOLDER_NOT_EMPTY = Code(
    "folder_not_empty",
    "files",
    "A new run needs an empty folder, or one that does not exist yet.",
    "Choose another folder.",
)
NO_RUN = Code(
    "no_run",
    "files",
    "The folder contains no run, or one that ended before its first iteration.",
    "Check the path. If the run ended that early, remove the folder and sample again.",
)
FOLDER_OF_FITS = Code(
    "folder_of_fits",
    "files",
    "The folder holds files of fits, as `compare --out` writes them, and one fit is needed.",
    "Give the path of one of the files that the message lists.",
)
OTHER_FORMAT = Code(
    "other_format",
    "files",
    "The run was written in a format that this version of stanadapt does not read.",
    "Resume with the version that the message names, or sample again.",
)
RUN_UNREADABLE = Code(
    "run_unreadable",
    "files",
    "A file of a run folder is missing, damaged, or of another version.",
    "Restore the file from a copy, resume with the version that wrote it, or sample again.",
)
RUN_IN_USE = Code(
    "run_in_use",
    "files",
    "Another process is writing the run.",
    "Wait until it ends, or stop it; stanadapt.load reads the draws so far.",
)
RUN_NOT_WRITABLE = Code(
    "run_not_writable",
    "files",
    "The run folder cannot be written to.",
    "Choose a folder for which you have write permission, on a disk with enough space.",
)
STATE_NOT_WRITABLE = Code(
    "state_not_writable",
    "sampler",
    "The state of the sampler contains an object that cannot be written to a run folder.",
    "Build states from named tuples of numbers and arrays, or sample without `run`.",
)

# --- Stan's own NUTS ------------------------------------------------------------------------------
NUTS_FAILED = Code(
    "nuts_failed",
    "sampling",
    "Every chain of Stan's NUTS failed.",
    "Read Stan's message; check the initial values and the data.",
)
NUTS_CHAINS_FAILED = Code(
    "nuts_chains_failed",
    NOTE,
    "Some chains of Stan's NUTS failed and are not in the result.",
    "Read Stan's message; check the initial values, or run with another seed.",
)
EMBEDDED_NUTS = Code(
    "embedded_nuts",
    NOTE,
    "Stan's NUTS ran inside the embedded backend, whose density our samplers use too.",
    "Run `stanadapt install-cmdstan` for an independent check.",
)

# --- our log density against CmdStan's ------------------------------------------------------------
DENSITY_EQUAL = Code(
    "density_equal",
    NOTE,
    "Our log density equals CmdStan's at its draws, up to rounding and a constant.",
    "No action is needed.",
)
DENSITY_CLOSE = Code(
    "density_close",
    NOTE,
    "Our log density is close to CmdStan's, but differs by more than rounding.",
    "Releases of Stan compute some functions differently. If this is not the cause, please report "
    "the problem.",
)
DENSITY_DIFFERS = Code(
    "density_differs",
    "sampling",
    "Our log density differs from CmdStan's, so draws of our samplers on this target are wrong.",
    "Use another backend, or rewrite the program. Please report the problem, and include the "
    "program.",
)
INCOMPARABLE_DENSITY = Code(
    "incomparable_density",
    NOTE,
    "The log density is not determined by CmdStan's draws, so the two densities cannot be "
    "compared.",
    "No action is needed; compare the draws of the samplers instead.",
)
FEW_COMPARABLE_DRAWS = Code(
    "few_comparable_draws",
    NOTE,
    "CmdStan has fewer than two different draws at which the densities can be compared.",
    "Run more iterations; if chains do not move, change the initial values.",
)
CHECK_INTERRUPTED = Code(
    "check_interrupted",
    NOTE,
    "The comparison of our log density with CmdStan's was interrupted.",
    "Run stan_nuts again to compare them.",
)
