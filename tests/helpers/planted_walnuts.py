"""Faults of the orbits of WALNUTS: see `test_planted_bugs`."""

ORBIT, TESTS = "samplers/hamiltonian/walnuts_orbit.py", "samplers/hamiltonian/test_walnuts.py"

WALNUTS = {
    "reverse_search_without_weight": (
        ORBIT,
        "correction = _log_probability(level, backward, steps)",
        "correction = _log_probability(level, found.level, steps) + 0.0 * backward",
        TESTS,
        "funnel_is_left_alone",
    ),
    "level_where_none_passes": (
        ORBIT,
        "if smallest > steps.max_halvings:",
        "if smallest > steps.max_halvings + 1:",
        TESTS,
        "recursion and unit-inf",
    ),
    "energy_of_the_leaf_before_forgotten": (
        ORBIT,
        "log_weight += energy - leaf.energy",
        "log_weight += energies[side] - leaf.energy",
        TESTS,
        "without_refinement",
    ),
}
