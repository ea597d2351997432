"""Codes of the messages of studies, and the kinds of errors that end a study."""

from stanadapt.errors import NOTE, VERDICT, Code, StanadaptError

# --- arguments and files -------------------------------------------------------------------------

NOTHING_TO_STUDY = Code(
    "nothing_to_study",
    "settings",
    "A study was given no target, no sampler or no fit.",
    "Give at least one.",
)
CACHE_NOT_WRITABLE = Code(
    "cache_not_writable",
    "files",
    "Samplers were to be compiled in advance, but the compiled code would be lost when the "
    "process ends: the cache cannot be written to, the disk is full, or others can write to the "
    "cache.",
    "Free some space on the disk, or set the environment variable STANADAPT_CACHE to a folder "
    "that only you can write to.",
)
NOT_A_PLAIN_TARGET = Code(
    "not_a_plain_target",
    "settings",
    "The study needs a Target, but was given something that was derived from one.",
    "Pass the Target itself.",
)
SETTINGS_NOT_BY_NAME = Code(
    "settings_not_by_name",
    "settings",
    "The settings of a sampler are not a mapping from names to values.",
    "Give a dictionary such as {'target_accept': 0.9}.",
)
NOTHING_IN_COMMON = Code(
    "nothing_in_common",
    "settings",
    "The fits of a report have no variable in common.",
    "Give fits of one program and one data set.",
)
OTHER_STUDY = Code(
    "other_study",
    "files",
    "The folder contains the results of a study with other settings.",
    "Choose another folder, or use the settings with which the folder was made.",
)
UNREADABLE_STUDY = Code(
    "unreadable_study",
    "files",
    "The folder contains a file that does not belong to a study.",
    "Choose another folder, or remove the file.",
)
UNWRITABLE_STUDY = Code(
    "unwritable_study",
    "files",
    "The results of a study could not be written.",
    "Check the permissions of the folder and the space on the disk.",
)
REPORT_LIBRARY_MISSING = Code(
    "report_library_missing",
    "installation",
    "A library that reports need is not installed.",
    "Install the library with pip.",
)

# --- advise --------------------------------------------------------------------------------------

RECOMMENDED = Code(
    "recommended",
    NOTE,
    "This sampler reaches the requested effective sample size soonest.",
    "Run it with the settings and the length of the advice.",
)
NO_USABLE_TRIAL = Code(
    "no_usable_trial",
    NOTE,
    "No trial gave usable draws.",
    "Run the suggested sampler longer and read its verdict.",
)
PASSED_OVER = Code(
    "passed_over",
    NOTE,
    "Some samplers were not recommended, because trajectories with steps as long as theirs "
    "diverged.",
    "Use the recommended sampler, or reparameterize the model.",
)
SEVERAL_MODES = Code(
    "several_modes",
    NOTE,
    "Chains ended in separate regions with a lower density between them.",
    "Use a tempering sampler, and look at the weights of the modes.",
)
DIVERGENT_TRIALS = Code(
    "divergent_trials",
    NOTE,
    "Trajectories of a trial diverged.",
    "Use a noncentered parameterization for scales that may be near zero.",
)
UNFINISHED_TRIAL = Code(
    "unfinished_trial",
    VERDICT,
    "A sampler was still in warm-up when its trial ended.",
    "Allow more time (max_minutes).",
)
MISSED_IN_TRIAL = Code(
    "missed_in_trial",
    VERDICT,
    "A trial has no draws in a region in which another trial has many.",
    "Choose the sampler that reached the region.",
)

# --- approximate ---------------------------------------------------------------------------------

NO_DENSITY_AT_DRAWS = Code(
    "no_density_at_draws",
    "sampling",
    "The density is not finite at any draw of the approximation.",
    "Start elsewhere (inits), try another method, or use sample.",
)
APPROXIMATION_TOO_FAR = Code(
    "approximation_too_far",
    "sampling",
    "The approximation is so far out that rounding makes its draws equal in some coordinates.",
    "Check that priors or data bound every parameter, or start elsewhere (inits).",
)
DRAWS_WITHOUT_DENSITY = Code(
    "draws_without_density",
    NOTE,
    "Some draws of the approximation lie outside the support of the posterior.",
    "Use the importance weights, or another method.",
)
FEW_DISTINCT_DRAWS = Code(
    "few_distinct_draws",
    NOTE,
    "Fewer than half of the draws are distinct, because the importance weights are very unequal.",
    "Use the approximation for a first look only.",
)
FLAT_COORDINATE = Code(
    "flat_coordinate",
    NOTE,
    "The log density has no slope in some coordinates, so their approximation is arbitrary.",
    "Give these parameters a prior, or use a sampler without gradients.",
)

# --- sbc -----------------------------------------------------------------------------------------

UNSUITABLE_GENERATOR = Code(
    "unsuitable_generator",
    "settings",
    "The generator is not a program that draws everything in its block of generated quantities.",
    "Remove its parameters, and draw with functions that end in _rng.",
)
GENERATOR_MISMATCH = Code(
    "generator_mismatch",
    "settings",
    "A name or a shape differs between the generator and the program under study.",
    "Declare every parameter and all observed data in the generator, in the same shapes.",
)
GENERATOR_FAILED = Code(
    "generator_failed",
    "generated quantities",
    "The generator threw an exception.",
    "Restrict its priors to values that its distributions accept.",
)
NO_RANK = Code(
    "no_rank",
    "sampling",
    "A draw, a true value or its log density is infinite or not a number, so it has no rank.",
    "Restrict the priors of generator and program to values that can be represented.",
)
TOO_FEW_SIMULATIONS = Code(
    "too_few_simulations",
    "sampling",
    "Too few simulations gave ranks.",
    "Fix the first failure that the message quotes.",
)
UNIFORM_RANKS = Code(
    "uniform_ranks",
    VERDICT,
    "The ranks of all quantities are as uniform as chance allows.",
    "No action is needed.",
)
NONUNIFORM_RANKS = Code(
    "nonuniform_ranks",
    VERDICT,
    "The ranks of some quantities are not uniform.",
    "Repeat with another sampler to learn whether the program or the sampler is wrong.",
)
FAILED_SIMULATIONS = Code(
    "failed_simulations",
    NOTE,
    "Some simulations gave no ranks, so the remaining ones may not be representative.",
    "Fix the first failure that the message quotes.",
)
CORRELATED_RANKS = Code(
    "correlated_ranks",
    NOTE,
    "Some runs had fewer effective draws than ranks even after they were lengthened.",
    "Raise iter_sampling.",
)

# --- compare_repeats -----------------------------------------------------------------------------

INTERVALS = Code(
    "intervals",
    NOTE,
    "The numbers of a summary are medians with an interval over the repeats.",
    "Use five repeats or more for the central 80% instead of the range.",
)
FAILED_REPEATS = Code(
    "failed_repeats",
    NOTE,
    "Some repeats of a sampler failed.",
    "Read the first failure, which the message quotes.",
)
MISSING_REPEATS = Code(
    "missing_repeats",
    NOTE,
    "Some repeats were not run.",
    "Repeat the call with the same folder to run them.",
)
MISSING_MEASURES = Code(
    "missing_measures",
    NOTE,
    "A measure is not a number in some repeats, which do not count for it.",
    "Read the verdicts of these repeats.",
)
DOUBTFUL_REPEATS = Code(
    "doubtful_repeats",
    NOTE,
    "Some repeats gave fits that are not fine.",
    "Read the verdict of the first, which the message quotes.",
)

# --- report: the conclusion, and why a fit cannot be used ----------------------------------------

ALL_FITS_USABLE = Code(
    "all_fits_usable",
    VERDICT,
    "Every fit of a report passes every check.",
    "Use the sampler that the report recommends.",
)
SOME_FITS_USABLE = Code(
    "some_fits_usable",
    VERDICT,
    "Some fits of a report cannot be used.",
    "Use one of the others.",
)
NO_FIT_USABLE = Code(
    "no_fit_usable",
    VERDICT,
    "No fit of a report can be used.",
    "Solve the problems that the report lists.",
)
FASTEST_SAMPLER = Code(
    "fastest_sampler",
    NOTE,
    "One sampler has clearly the most effective draws per second.",
    "Use it.",
)
CLOSE_SAMPLERS = Code(
    "close_samplers",
    NOTE,
    "The two fastest samplers are too close to rank.",
    "Use either, or repeat both with more seeds.",
)
UNKNOWN_SPEED = Code(
    "unknown_speed",
    NOTE,
    "The fits did not record their seconds, so samplers cannot be ranked by speed.",
    "Give fits of sample or stan_nuts.",
)
NO_RECOMMENDATION = Code(
    "no_recommendation",
    NOTE,
    "No sampler can be recommended.",
    "Solve the problems that the report lists.",
)
UNUSABLE_VERDICT = Code(
    "unusable_verdict",
    VERDICT,
    "The verdict of a fit rules it out.",
    "Read the reasons of the verdict.",
)
MISSED_BY_FIT = Code(
    "missed_by_fit",
    VERDICT,
    "A fit has almost no draws in a region in which another fit has many.",
    "Use a tempering sampler, or the fit that reached the region.",
)
INEXACT_SAMPLER = Code(
    "inexact_sampler",
    VERDICT,
    "A fit comes from a sampler or an approximation that is not exact.",
    "Compare it with an exact fit.",
)
DISAGREEMENT = Code(
    "disagreement",
    VERDICT,
    "Means or standard deviations of a fit differ from the reference by more than chance.",
    "Run both longer; if they still differ, look for modes that one of them missed.",
)
NOT_COMPARED = Code(
    "not_compared",
    VERDICT,
    "No quantity of a fit could be compared with the reference.",
    "Give fits with the same parameters.",
)
UNCHECKED_CHAIN = Code(
    "unchecked_chain",
    VERDICT,
    "A fit has a single chain, and no reliable fit to compare it with.",
    "Run four chains.",
)

# --- report: problems and notes ------------------------------------------------------------------

STEPS_TOO_LARGE = Code(
    "steps_too_large",
    NOTE,
    "The mean acceptance rate is so low that the steps must be far too large.",
    "Reduce the step size, or lengthen warm-up.",
)
THINNED_DRAWS = Code(
    "thinned_draws",
    NOTE,
    "A fit was thinned: its effective sample sizes refer to the draws that were kept, but its "
    "cost to all draws.",
    "Compare fits without thinning.",
)
NONFINITE_QUANTITY = Code(
    "nonfinite_quantity",
    NOTE,
    "Some quantities are not finite at some draws.",
    "Correct the statement that computes them.",
)
CONSTANT_QUANTITY = Code(
    "constant_quantity",
    NOTE,
    "Some quantities have the same value in all draws and are left out of all measures.",
    "No action is needed if they are constant by design.",
)
NO_STATISTICS = Code(
    "no_statistics",
    NOTE,
    "A fit has no sample statistics.",
    "Give a fit that has the group sample_stats.",
)
NO_SECONDS = Code(
    "no_seconds",
    NOTE,
    "A fit did not record its seconds, so it is not ranked by speed.",
    "Give a fit of sample or stan_nuts.",
)
REFERENCE_FIT = Code(
    "reference_fit",
    NOTE,
    "The message names the fit that the others are compared with.",
    "Name another baseline if you prefer one.",
)
SELECTED_COLUMNS = Code(
    "selected_columns",
    NOTE,
    "A report on very many columns evaluates only those that mix worst and those that differ most.",
    "Use `compare` to evaluate all of them.",
)
SELECTED_TRACES = Code(
    "selected_traces",
    NOTE,
    "A report on very many samplers shows the traces of only some of them.",
    "Include fewer samplers to see all traces.",
)

# --- errors that end a study ---------------------------------------------------------------------

RECURRING = ("settings", "sampler", "syntax", "files", "installation")


def recurs(error: StanadaptError, *more: str) -> bool:
    """Return whether every further run of a study would fail with the same error.

    Parameters
    ----------
    error
        An error of one run.
    more
        Further stages that recur in this study, such as "data" if all runs have the same data.

    """
    return error.stage in (*RECURRING, *more)


# --- the shape of a posterior ---------------------------------------------------------------------
FAR_FROM_GAUSSIAN = Code(
    "far_from_gaussian",
    NOTE,
    "The posterior is far from a Gaussian: its scales or locations depend on other parameters.",
    "Sample with whitened_hmc, which straightens it, or write the noncentered program.",
)
TAIL_MISSED = Code(
    "tail_missed",
    NOTE,
    "The density has mass beyond all draws, in a tail of a parameter on which the scales of "
    "others depend.",
    "Do not use the fit: sample with whitened_hmc, or write the noncentered program.",
)
SHAPE_UNKNOWN = Code(
    "shape_unknown",
    NOTE,
    "The distance from a Gaussian cannot be computed, because too few draws have a finite "
    "gradient.",
    "Sample longer; if the gradient fails at most draws, correct the program.",
)
