"""Checks that a fit belongs to a target: same program, same data."""

from typing import Any

from stanadapt import results
from stanadapt.errors import StanadaptError
from stanadapt.targets.stan import data as stan_data
from stanadapt.targets.target import Target


def check_same_target(target: Target, fit: Any) -> None:
    """Raise StanadaptError, stage "settings", unless a fit has the target's program and data."""
    if not results.is_fit(fit):
        raise StanadaptError(
            "settings", f"an earlier fit of {target.name} is expected, got {fit!r}."
        )
    ours = {"program_hash": target.program.hash, "data_hash": stan_data.digest(target.data)}
    for what, hashed in ours.items():
        theirs = results.attribute(fit, what, hashed)
        if theirs != hashed:
            raise StanadaptError(
                "settings",
                f"the fit must have the target's program and data, but its {what} is {theirs}, and "
                f"that of {target.name} is {hashed}. Give the target that was sampled.",
            )
