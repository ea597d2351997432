"""Faults of samplers that temper, or stand beside them: see `test_planted_bugs`."""

TEMPERING = {
    "truncated_exponential_reversed": (
        "kernels/tempering/coordinate.py",
        "return distance if rate < 0.0 else 1.0 - distance",
        "return distance if rate >= 0.0 else 1.0 - distance",
        "kernels/tempering/test_coordinate.py",
        "truncated or draws",
    ),
    "jacobian_of_the_coordinate_left_out": (
        "kernels/tempering/continuous.py",
        "- at.c + log_jacobian(u)",
        "- at.c + 0.0 * log_jacobian(u)",
        "kernels/tempering/test_continuous.py",
        "derivatives",
    ),
    "unweighted_positions_as_draws": (
        "kernels/tempering/continuous.py",
        "np.floor(cold / _weight_of_a_draw(walker) + rng.random())",
        "np.floor(1.0 + 0.0 * cold / _weight_of_a_draw(walker))",
        "kernels/tempering/test_continuous.py",
        "without_an_atom",
    ),
    "ratio_of_a_jump_without_the_hotter_chain": (
        "kernels/tempering/equi_energy.py",
        "return own - hotter",
        "return own - 0.0 * hotter",
        "kernels/tempering/test_equi_energy.py",
        "log_ratio",
    ),
    "file_of_the_wrong_chain": (
        "kernels/tempering/equi_energy.py",
        "    count = files.counts[i, ring]\n",
        "    i = max(i - 1, 0)\n    count = files.counts[i, ring]\n",
        "kernels/tempering/test_equi_energy.py",
        "hotter_chain",
    ),
    "ring_jumps_always_accepted": (
        "kernels/tempering/equi_energy.py",
        "    if not rng.random() < acceptance_probability(log_jump_ratio(",
        "    if not 0.0 * rng.random() < 1.0 + acceptance_probability(log_jump_ratio(",
        "kernels/tempering/test_equi_energy.py",
        "exact_file",
    ),
}
