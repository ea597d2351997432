"""Faults of the map that straightens a posterior: see `test_planted_bugs`."""

MAP, LEARNING = "engine/triangular_map.py", "samplers/whitened/straighten.py"
TESTS = "samplers/whitened/test_straighten.py"

STRAIGHTENING = {
    "sign_in_the_gradient_of_the_map": (
        MAP,
        "gradient[scale] += rows[i, B] * slope",
        "gradient[scale] -= rows[i, B] * slope",
        "engine/test_triangular_map.py",
        "gradient",
    ),
    "jacobian_of_the_map_forgotten": (
        MAP,
        "    pull_back(straightening, y, x, gradient)\n    return log_density + log_jacobian",
        "    pull_back(straightening, y, x, gradient)\n    return log_density",
        TESTS,
        "quantiles_of_the_scale",
    ),
    "location_of_a_group_off": (
        LEARNING,
        "out[exact, triangular_map.W] = has_location[exact]",
        "out[exact, triangular_map.W] = 0.99 * has_location[exact]",
        TESTS,
        "funnel_becomes",
    ),
    "member_of_a_group_left_out": (
        LEARNING,
        "rows = np.array([row_of[j] for j in in_order(drivers)])",
        "rows = np.array([row_of[j] for j in in_order(drivers)][1:], int)",
        TESTS,
        "priors_on_priors",
    ),
    "map_of_the_transient_kept": (
        "samplers/whitened/tuning.py",
        "    progress = straighten_if(settings, progress, states)\n    progress = with",
        "    progress = with",
        TESTS,
        "learned_again",
    ),
    "map_judged_by_what_it_was_fitted_to": (
        LEARNING,
        "judged = parts[2]",
        "judged = parts[0]",
        TESTS,
        "has_not_seen",
    ),
    "chains_pooled_in_the_order_of_their_clocks": (
        "engine/warmup.py",
        "    states = [chain.state for chain in waiting]",
        "    waiting.sort(key=lambda chain: chain.warmup_processor_seconds)\n"
        "    states = [chain.state for chain in waiting]",
        TESTS,
        "same_bits",
    ),
}
