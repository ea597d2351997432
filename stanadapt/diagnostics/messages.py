"""Codes of diagnostics: reasons of a verdict, remarks on comparisons and modes, and errors."""

from stanadapt.errors import NOTE, VERDICT, Code

# --- reasons of a verdict ---

FROZEN_CHAIN = Code(
    "frozen_chain",
    VERDICT,
    "All draws of a chain are the same.",
    "Start elsewhere (inits), lengthen warm-up (iter_warmup), or use another sampler.",
)
STUCK_CHAIN = Code(
    "stuck_chain",
    VERDICT,
    "A chain repeats one draw for more than half of its length.",
    "Lengthen warm-up (iter_warmup), or use another sampler.",
)
NOTHING_ACCEPTED = Code(
    "nothing_accepted",
    VERDICT,
    "A chain accepted no proposal: its step size is too large, or the density fails around it.",
    "Lengthen warm-up (iter_warmup), start elsewhere (inits), or use another sampler.",
)
ACCEPTANCE_OFF_TARGET = Code(
    "acceptance_off_target",
    VERDICT,
    "The acceptance rate of a chain is far from its target: the step size was not adapted well.",
    "Lengthen warm-up (iter_warmup).",
)
REJECTED_TRAJECTORIES = Code(
    "rejected_trajectories",
    VERDICT,
    "Trajectories of fixed length were rejected with acceptance probability below 1%.",
    "Use trajectory='nuts', which adapts the length of each trajectory.",
)
DIVERGENCES = Code(
    "divergences",
    VERDICT,
    "Trajectories diverged. If more than 0.1% did, regions of high curvature may be "
    "underrepresented in the draws.",
    "Raise adapt_delta (target_accept for the sampler nuts), or reparameterize the model.",
)
HARD_EDGES = Code(
    "hard_edges",
    VERDICT,
    "Trajectories ended where the log density falls to -inf at a bound that is not declared. The "
    "draws are right, but cost more.",
    "Declare the bounds, such as real<lower=0, upper=1> theta.",
)
NO_GRADIENT = Code(
    "no_gradient",
    VERDICT,
    "The gradient is not finite in a region where the density is, and the sampler, which follows "
    "gradients, rejected all positions there.",
    "Use a sampler without gradients (am), or correct the gradient.",
)
MAX_TREEDEPTH = Code(
    "max_treedepth",
    VERDICT,
    "Trajectories reached the maximum tree depth: chains mix more slowly than they could.",
    "Raise max_treedepth, or reparameterize the model.",
)
LOW_BFMI = Code(
    "low_bfmi",
    VERDICT,
    "The energy's Bayesian fraction of missing information (E-BFMI) of a chain is below 0.3. This "
    "is only a remark, unless the fit has no record of divergences.",
    "Reparameterize the model, or run longer (iter_sampling).",
)
WARMUP_NOT_SETTLED = Code(
    "warmup_not_settled",
    VERDICT,
    "Warm-up ended before adaptation had settled.",
    "Raise iter_warmup.",
)
NOT_FINITE = Code(
    "not_finite",
    VERDICT,
    "Some draws, or some of the sampler's statistics, are infinite or not a number.",
    "Check that the data or a prior keep the variable within bounds, or start elsewhere (inits).",
)
HIGH_R_HAT = Code(
    "high_r_hat",
    VERDICT,
    "R-hat is above 1.01: chains, or the halves of a single chain, disagree.",
    "Up to 1.05, run longer; above, lengthen warm-up or use another sampler.",
)
LOW_ESS = Code(
    "low_ess",
    VERDICT,
    "There are fewer than 100 effective draws per chain in the bulk or the tails.",
    "Draw more (iter_sampling).",
)
TOO_FEW_DRAWS = Code(
    "too_few_draws",
    VERDICT,
    "There are too few draws per chain to compute convergence diagnostics.",
    "Raise iter_sampling to four or more.",
)
ONE_CHAIN = Code(
    "one_chain",
    VERDICT,
    "With one chain, agreement between chains from different starting points is not checked.",
    "Run several chains (chains=4).",
)
CONSTANT_VARIABLE = Code(
    "constant_variable",
    VERDICT,
    "All draws of a variable are equal, so it was not judged.",
    "If the variable should vary, check the program, or give other inits.",
)
NOT_EXACT = Code(
    "not_exact",
    VERDICT,
    "The draws have a bias that R-hat and effective sample sizes do not show.",
    "Compare means and standard deviations with those of an exact sampler (stanadapt.compare).",
)
HIGH_PARETO_K = Code(
    "high_pareto_k",
    VERDICT,
    "The Pareto k of an approximation's importance weights is above 0.5.",
    "Up to 0.7, use the weights; above, draw with sample instead.",
)
NOT_JUDGED = Code(
    "not_judged",
    VERDICT,
    "Diagnostics were interrupted before they were complete.",
    "Call stanadapt.diagnose.",
)

# --- remarks on fits and comparisons ---

INTERRUPTED_FIT = Code(
    "interrupted_fit",
    NOTE,
    "A run was interrupted: the fit contains the draws up to that point.",
    "Use stanadapt.resume if the run has a folder; otherwise repeat the call with the same seed.",
)
STOPPED_CHAINS = Code(
    "stopped_chains",
    NOTE,
    "Chains were stopped because every evaluation of their density failed; they are left out.",
    "Start elsewhere (inits), or use another seed.",
)
HOW_TO_READ = Code(
    "how_to_read",
    NOTE,
    "Explains the units of the columns of a comparison.",
    "No action is needed.",
)
HOW_DRAWN = Code(
    "how_drawn",
    NOTE,
    "Describes the trajectories that a sampler chose, or the quality of an approximation.",
    "No action is needed.",
)
SHARED_DENSITY = Code(
    "shared_density",
    NOTE,
    "The baseline uses the same compiled density as the other fits, so it is not independent of "
    "them.",
    "Use Stan's NUTS of CmdStan as the baseline.",
)
DENSITY_CHECK = Code(
    "density_check",
    NOTE,
    "States how well the density agrees with that of CmdStan.",
    "If they differ, check the program or use another backend.",
)
DENSITY_UNCHECKED = Code(
    "density_unchecked",
    NOTE,
    "A fit uses another version of the density than the one compared with CmdStan.",
    "Draw all fits with the same backend.",
)
OTHER_RANDOM_DATA = Code(
    "other_random_data",
    NOTE,
    "The transformed data of the program are random, and differ between the fits, so their "
    "posteriors differ too.",
    "Draw these data outside the program, and pass them as data.",
)
UNLIKE_BASELINE = Code(
    "unlike_baseline",
    NOTE,
    "A fit has no counted quantity in common with the baseline, so that it is not compared.",
    "Name variables of both fits as var_names, or another baseline.",
)
BIAS_UNKNOWN = Code(
    "bias_unknown",
    NOTE,
    "A fit is not exact, and its bias cannot be measured without an exact baseline.",
    "Name an exact fit as baseline.",
)
MISSED_MODES = Code(
    "missed_modes",
    NOTE,
    "A fit has almost no draws in a region in which another fit has many.",
    "Use a sampler for multimodal posteriors, such as parallel_tempering.",
)
SEPARATE_REGIONS = Code(
    "separate_regions",
    NOTE,
    "The chains of a fit lie in separate regions.",
    "Use a sampler for multimodal posteriors, or run longer.",
)

# --- remarks on modes ---

NO_MAXIMUM = Code(
    "no_maximum",
    NOTE,
    "A row is a region without a maximum near the draws, as in a funnel.",
    "Reparameterize the model, or bound the variable with a prior.",
)
CHAINS_IN_ONE_MODE = Code(
    "chains_in_one_mode",
    NOTE,
    "All chains stayed in the same mode.",
    "No action is needed; other starting points (inits) may find other modes.",
)
NO_MODE_SWITCHES = Code(
    "no_mode_switches",
    NOTE,
    "No chain ever left its mode, so the weights only reflect the starting points.",
    "Use a sampler for multimodal posteriors, such as parallel_tempering.",
)
CHAIN_MISSED_MODE = Code(
    "chain_missed_mode",
    NOTE,
    "A chain never visited a mode that other chains visited.",
    "Sample longer, or use a sampler for multimodal posteriors.",
)
RARE_MODE = Code(
    "rare_mode",
    NOTE,
    "A chain never visited a certain mode, but the mode is so rare that this may be due to chance.",
    "Sample longer.",
)
MODE_WEIGHTS_AGREE = Code(
    "mode_weights_agree",
    NOTE,
    "The weights of the modes agree between chains, up to Monte Carlo error.",
    "No action is needed.",
)
MODE_WEIGHTS_DIFFER = Code(
    "mode_weights_differ",
    NOTE,
    "The weights of the modes differ between chains by more than Monte Carlo error.",
    "Sample longer, or use a sampler for multimodal posteriors.",
)
TOUCHING_MODES = Code(
    "touching_modes",
    NOTE,
    "Modes are so close that some draws may be assigned to the wrong one.",
    "Raise `starts`, the number of climbs.",
)
BOUNDARY_DRAWS = Code(
    "boundary_draws",
    NOTE,
    "Draws on the boundary of a constraint were left out.",
    "Check whether a parameter underflows.",
)
UNSEEN_MODES = Code(
    "unseen_modes",
    NOTE,
    "Modes that no chain visited cannot be listed.",
    "Compare with a second sampler.",
)

# --- errors ---

NOT_FITS_BY_NAME = Code(
    "not_fits_by_name",
    "settings",
    "Fits were given as something other than a mapping of fits by name.",
    "Give {'name': fit, 'other': fit}; a report also takes {'name': [fit, fit]}.",
)
NO_FITS = Code(
    "no_fits",
    "settings",
    "There is no fit to compare.",
    "Give at least one fit.",
)
WRONG_FIT_NAME = Code(
    "wrong_fit_name",
    "settings",
    "The name of a fit cannot be printed in a table, or reads like that of another fit.",
    "Use different texts or numbers as names.",
)
UNKNOWN_BASELINE = Code(
    "unknown_baseline",
    "settings",
    "The baseline is not the name of a fit.",
    "Give one of the names of the fits.",
)
DIFFERENT_TARGETS = Code(
    "different_targets",
    "settings",
    "The fits have different programs, data or variables.",
    "Compare fits of one program and one data set.",
)
UNKNOWN_BUDGET = Code(
    "unknown_budget",
    "settings",
    'The budget is neither "seconds" nor "gradients".',
    "Give 'seconds' or 'gradients'.",
)
COST_NOT_RECORDED = Code(
    "cost_not_recorded",
    "settings",
    "No fit records the cost that the budget refers to.",
    "Leave out the budget, or use the other one.",
)
TOO_FEW_STARTS = Code(
    "too_few_starts",
    "settings",
    "There are fewer than ten draws with a finite density to climb from.",
    "Sample longer.",
)
MISSING_PARAMETER = Code(
    "missing_parameter",
    "settings",
    "A fit does not contain every parameter of the target.",
    "Give a fit that still has all parameters.",
)
