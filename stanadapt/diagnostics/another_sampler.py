"""What a user may try whose chains do not mix: samplers other than the one that they used."""

from typing import Any

from stanadapt import results


def another_sampler(fit: Any) -> str:
    """Return what else to use, and for which posteriors, as part of a sentence."""
    if "tempering" in results.group_names(fit):
        return "another sampler (the default, or sampler='nuts', where there is one mode)"
    used, modes = results.attribute(fit, "sampler"), "'parallel_tempering' for many modes"
    if used == "whitened_hmc":  # the default
        return f"another sampler ({modes}) or parameterisation"
    if used == "nuts":  # Stan's, or ours
        return f"another sampler (the default for smooth posteriors; {modes}) or parameterisation"
    return f"another sampler (the default, or sampler='nuts', for smooth posteriors; {modes})"
