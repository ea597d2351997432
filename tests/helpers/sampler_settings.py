"""Settings with which samplers adapt in the short runs of tests."""

# gad learns an entry of L at a fixed rate in units of the target: tests are shorter than papers
FASTER = {
    "gad_rwm": {"learning_rate": 5e-3},
    "gad_mala": {"learning_rate": 5e-3},
    "gad_hmc": {"learning_rate": 5e-3},
    "kameleon": {"subsample": 100},
    "nice": {"local_share": 0.3},
}
# settings that switch on features that the defaults do not use
VARIANTS = {
    "gad_rwm": [{}, {"diagonal": True, "adapt_every": 3}],
    "gad_mala": [{}, {"diagonal": True, "adapt_every": 3}, {"exact": True}],
    "gad_hmc": [
        {},
        {"leapfrogs": 3, "diagonal": True, "adapt_every": 3},
        {"leapfrogs": 2, "exact": True},
    ],
    "hmc": [
        {},
        {"jitter": 0.3, "leapfrogs": 3},
        {"leapfrogs": 0, "trajectory_length": 0.5},
        {"mass": (0.7, 30.0, 0.2), "jitter": 0.3},
    ],
    "hvi": [
        {},
        {"approximation": "full_rank", "transitions": 4, "leapfrogs": 1},
        {"exact": False, "transitions": 1},
    ],
    "nuts": [{}, {"dense": True, "max_treedepth": 4}],
    "walnuts": [
        {},
        {"dense": True, "max_treedepth": 4, "extra_halving": 0.0, "energy_tolerance": 0.3},
    ],
    "rwm": [{}, {"tune_scale": False, "initial_scale": 1.5}],
    "am": [
        {},
        {"tune_scale": False},
        {"diagonal": True, "mean_rate": 0.1, "decay": 500.0, "save_factor": True},
    ],
    "pooled_am": [{}, {"diagonal": True}],
    "kameleon": [
        {},
        {"kernel": "linear", "adapts_forever": True},
        {"kernel": "matern32", "whiten_kernel": True},
        {"kernel": "matern52", "normalize_weights": False, "whiten": False, "redraw": 1.0},
        {"kernel": "inverse_multiquadric"},
    ],
    "parallel_tempering": [
        {},
        {"kernel": "nuts", "reference_family": "student_t"},
        {"kernel": "random_walk", "levels": 5},
        {"reference_family": "power", "min_inverse_temperature": 0.2, "levels": 4},
        {"swaps": "energy_rings", "rings": 2},
        {"inverse_temperatures": (1.0, 0.4, 0.1, 0.0)},
    ],
    "pseudo_extended": [
        {},
        {"kernel": "nuts", "reference_family": "student_t", "pseudo_samples": 3},
        {"kernel": "random_walk", "pseudo_samples": 1},
        {"reference_family": "power", "min_inverse_temperature": 0.2, "levels": 5},
    ],
    "sgld": [{}, {"decay": 0.0}],
    "simulated_tempering": [
        {},
        {"kernel": "nuts", "reference_family": "student_t"},
        {"kernel": "random_walk", "levels": 5},
        {"reference_family": "power", "min_inverse_temperature": 0.2, "levels": 4},
        {"reference_family": "power", "inverse_temperatures": (1.0, 0.6, 0.4, 0.2)},
    ],
    "continuous_tempering": [
        {},
        {"temperature_update": "gibbs", "coordinate": "uniform", "leapfrogs": 5},
        {"atom": 0.0, "reference_family": "student_t", "levels": 6},
        {"coordinate": "uniform", "atom": 0.0, "learn_log_zeta": False, "log_zeta": 0.5},
    ],
    "equi_energy": [{}, {"levels": 2, "file_size": 100, "jump_probability": 0.5}],
    "smc": [
        {},
        {"kernel": "nuts", "reference_family": "student_t", "threshold": 0.9},
        {"kernel": "random_walk", "resample": False, "particles": 200, "sweeps": 20},
        {"inverse_temperatures": (1.0, 0.4, 0.15, 0.05, 0.0)},
    ],
    "ula": [{"variance_bias": 0.2, "least_accept": 0.5}],
    "repelling_attracting": [{}, {"tune_scale": False, "longest_search": 1}],
    "nice": [{}, {"local_share": 0.5, "network_seed": 3, "width": 100}],
    "variational_mcmc": [
        {},
        {"kernel": "independence", "approximation": "mean_field", "degrees": 8.0},
        {"kernel": "mixture_proposal", "degrees": 5.0},
        {"kernel": "block", "block_size": 2, "degrees": 5.0},
        {"kernel": "block", "block_size": 1, "approximation": "mean_field", "degrees": 3.0},
    ],
    "whitened_hmc": [
        {},
        {"trajectory": "nuts", "max_treedepth": 4},
        {"trajectory": "fixed", "metric": "diagonal", "trajectory_length": 4.0},
    ],
}
