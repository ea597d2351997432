"""The samplers for many modes that the workflows of this folder compare, each in one line."""

from workflows.tempering.runs import Method, pseudo

# samplers that remain usable as the dimension grows
IN_ANY_DIMENSION = {
    "parallel_tempering": Method("parallel_tempering"),
    "parallel_tempering, energy rings": Method("parallel_tempering", {"swaps": "energy_rings"}),
    "simulated_tempering": Method("simulated_tempering"),
    "continuous_tempering": Method("continuous_tempering"),
    "smc": Method("smc"),
    "annealed importance sampling": Method("smc", {"resample": False, "threshold": 0.9}),
    **{f"pseudo_extended, N = {count}": pseudo(count) for count in (1, 2, 5, 10, 20)},
}
IN_FEW_DIMENSIONS = {
    "repelling_attracting": Method("repelling_attracting"),
    "equi_energy": Method("equi_energy"),
}
# of those in which the reference distribution may be given
_WITH_GIVEN_WIDTHS = (
    "parallel_tempering", "simulated_tempering", "continuous_tempering", "smc",
    "annealed importance sampling", "pseudo_extended, N = 2", "pseudo_extended, N = 5",
)  # fmt: skip
RIVALS = {**IN_ANY_DIMENSION, **IN_FEW_DIMENSIONS}


def with_given_widths(suffix: str, options: dict) -> dict[str, Method]:
    """Those that take a reference distribution, with it and a suffix to their names."""
    return {
        f"{name}{suffix}": method._replace(settings={**method.settings, **options})
        for name, method in IN_ANY_DIMENSION.items()
        if name in _WITH_GIVEN_WIDTHS
    }
