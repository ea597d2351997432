"""Codes of the messages of samplers that temper, of their reference distributions, and of Extended.

Errors come first, then the notes that a result holds after a run.
"""

from stanadapt.errors import Code

IMPROPER_POWERS = Code(
    "improper_powers",
    "settings",
    "With reference_family=power, the hot end of the path is a power of the density. This sampler "
    "cannot draw from it, or it is improper at the smallest inverse temperature.",
    "Use reference_family=gaussian; or, if the sampler allows powers, a min_inverse_temperature "
    "above 0.",
)
INVALID_TEMPERATURES = Code(
    "invalid_temperatures",
    "settings",
    "The setting inverse_temperatures does not start at 1, does not decrease strictly, or does not "
    "end where the sampler needs it.",
    "Give decreasing numbers that begin with 1, such as 1,0.5,0.2,0. If you have temperatures, "
    "give 1 divided by each.",
)
TEMPERATURES_CONFLICT = Code(
    "temperatures_conflict",
    "settings",
    "The temperatures were given with inverse_temperatures, and another setting would determine "
    "them too.",
    "Leave out one of the two settings.",
)
LOG_ZETA_UNUSED = Code(
    "log_zeta_unused",
    "settings",
    "The setting log_zeta was given, but it is learned, or the coordinate does not use it.",
    "Leave log_zeta out, or set coordinate=uniform and learn_log_zeta=false.",
)
INVALID_REFERENCE = Code(
    "invalid_reference",
    "settings",
    "The arguments do not define a proper reference distribution.",
    "Give a finite mean, and positive standard deviations or a positive definite covariance.",
)
REFERENCE_SIZE = Code(
    "reference_size",
    "settings",
    "A reference distribution and the target have different numbers of parameters.",
    "Give a mean on the unconstrained scale, with one entry for each unconstrained parameter.",
)
NO_REFERENCE = Code(
    "no_reference",
    "settings",
    "A tempering sampler cannot use the reference that it was given.",
    "Follow the advice in the message: use another reference, or another reference_family.",
)
NOT_A_REFERENCE = Code(
    "not_a_reference",
    "settings",
    "A reference distribution cannot be made from this object.",
    "Give a ReferenceDistribution, 'pathfinder', an earlier fit or approximation, or its file.",
)
REFERENCE_COORDINATES = Code(
    "reference_coordinates",
    "settings",
    "The unconstrained coordinates of the fit or approximation differ from those of the target.",
    "Use a fit or an approximation of this target, made with this version of Stan, or "
    "'pathfinder'.",
)
REFERENCE_DRAWS = Code(
    "reference_draws",
    "settings",
    "The fit has too few distinct, finite draws to estimate the spread of a reference "
    "distribution.",
    "Give a longer fit in which every parameter moved.",
)
EXTENSION_OPTION = Code(
    "extension_option",
    "settings",
    "An option of Extended has a value that is not allowed.",
    "Give a value of the kind that the message states.",
)
EXTENSION_CONFLICT = Code(
    "extension_conflict",
    "settings",
    "Options of Extended exclude each other, or one needs another.",
    "Leave one of them out, or add the one that is missing, as the message explains.",
)
INVALID_LADDER = Code(
    "invalid_ladder",
    "settings",
    "The ladder of Extended does not consist of increasing inverse temperatures up to 1 and an "
    "equal number of finite log normalizing constants.",
    "Give two lists of equal length; the inverse temperatures begin with the lower end of "
    "`between`.",
)
NOT_EXTENSIBLE = Code(
    "not_extensible",
    "settings",
    "Extended was given an Extended, or a target with an estimated density.",
    "Raise pseudo_samples, or make the target without noise.",
)
NOTHING_LEARNED = Code(
    "nothing_learned",
    "settings",
    "The fit does not contain a reference distribution and a ladder that a sampler has learned.",
    "Give a fit by parallel_tempering or pseudo_extended that was made without a reference.",
)
NO_PSEUDO_SAMPLES = Code(
    "no_pseudo_samples",
    "settings",
    "The fit contains neither pseudo-samples nor weighted draws.",
    "Sample an Extended, or use pseudo_extended, and save the pseudo-samples.",
)
WRONG_FUNCTION = Code(
    "wrong_function",
    "settings",
    "A function for weighted_summary failed, or returned an array of the wrong shape.",
    "Return numbers of shape (chain, draw, pseudo).",
)

IMPROPER_EXTENSION = Code(
    "improper_extension",
    "note",
    "Without a reference distribution, the extended target is improper for nearly every program.",
    "Give a reference_distribution about three times as wide as the posterior, or prior_data.",
)
IMPROPER_HOT_CHAINS = Code(
    "improper_hot_chains",
    "note",
    "With reference_family=power, the hot chains sample powers of the density, which are improper "
    "for most programs.",
    "Use reference_family=gaussian, or raise min_inverse_temperature.",
)
LARGE_BARRIER = Code(
    "large_barrier",
    "note",
    "The barrier between reference and target is large: few states travel between them.",
    "Give a reference closer to the target, or use parallel_tempering with more iterations.",
)
FEW_ROUND_TRIPS = Code(
    "few_round_trips",
    "note",
    "There were few round trips between reference and target: the weights of modes depend on the "
    "starting points.",
    "Sample longer, widen the reference (inflation), or give a reference distribution.",
)
IDLE_PSEUDO_SAMPLES = Code(
    "idle_pseudo_samples",
    "note",
    "All pseudo-samples but one have almost no weight.",
    "Try parallel_tempering, a longer warm-up, or a reference closer to the target.",
)
EMPTY_RINGS = Code(
    "empty_rings",
    "note",
    "In many iterations, no two temperatures had states in the same energy ring, so nothing was "
    "swapped.",
    "Use fewer rings.",
)
REPEATED_DRAWS = Code(
    "repeated_draws",
    "note",
    "The chain did not always return to the target within the largest number of moves "
    "(longest_excursion), so its last draw was repeated.",
    "Lengthen warm-up, so that the normalizing constants are learned.",
)
UNEVEN_VISITS = Code(
    "uneven_visits",
    "note",
    "Some temperatures were visited much less often than the others: their normalizing constants "
    "were not learned.",
    "Lengthen warm-up, or change the settings that the message names.",
)
EVIDENCE_UNKNOWN = Code(
    "evidence_unknown",
    "note",
    "No draw of the reference has a positive density, so the log evidence is unknown.",
    "Give a reference closer to the target, or lengthen warm-up.",
)
FEW_ANCESTORS = Code(
    "few_ancestors",
    "note",
    "The particles are descendants of only a few of the first ones: modes may be missing, and "
    "errors are underestimated.",
    "Use more particles or sweeps, a threshold nearer 1, or a reference closer to the target.",
)
EVIDENCE_SPREAD = Code(
    "evidence_spread",
    "note",
    "Chains, which are independent runs, disagree on the log evidence.",
    "Use more particles or sweeps, or a threshold nearer 1.",
)
TOO_MANY_STAGES = Code(
    "too_many_stages",
    "note",
    "The target was not reached in the largest number of stages, so the last stage jumped to it.",
    "Give a reference closer to the target, or lower the threshold.",
)
REUSED_PARTICLES = Code(
    "reused_particles",
    "note",
    "There are more draws than particles, and draws of the same particle are not independent.",
    "Raise `particles` to the number of draws, or take fewer draws.",
)
EMPTY_FILES = Code(
    "empty_files",
    "note",
    "For many jumps of equi_energy, the hotter chain had stored no state in the same energy ring.",
    "Lengthen warm-up, or raise levels.",
)
REJECTED_JUMPS = Code(
    "rejected_jumps",
    "note",
    "Many jumps of equi_energy were rejected, because its energy rings are too wide.",
    "Raise levels, or lower highest_temperature.",
)
SHARED_FILE_ERROR = Code(
    "shared_file_error",
    "note",
    "The states that the hotter chains of equi_energy stored have an error that is common to all "
    "draws of a chain, and the run has too few chains to show it.",
    "Run at least four chains and compare them.",
)
CHAINS_DISAGREE_ON_MODES = Code(
    "chains_disagree_on_modes",
    "note",
    "Chains of a tempering sampler disagree on the weights of modes, or are stuck in some.",
    "Sample longer, lengthen warm-up, or give a reference; stanadapt.modes shows the modes.",
)
UNEQUAL_MODE_VOLUMES = Code(
    "unequal_mode_volumes",
    "note",
    "The visited modes differ in volume by orders of magnitude: tempering may have missed still "
    "narrower ones.",
    "Start chains in the narrow modes that you expect (inits), and compare.",
)
UNVISITED_REGIONS = Code(
    "unvisited_regions",
    "note",
    "Short chains during warm-up ended in regions of high density in which the run has no draws.",
    "Start chains there (inits), and compare.",
)
