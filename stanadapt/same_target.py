"""Whether a fit is of a target: of its program and of its data."""

from typing import Any

from stanadapt import data as stan_data
from stanadapt import results
from stanadapt.errors import StanadaptError
from stanadapt.target import Target


def check_same_target(target: Target, fit: Any) -> None:
    """Raise StanadaptError, stage "settings", unless a fit is of the target's program and data."""
    ours = {"program_hash": target.program.hash, "data_hash": stan_data.digest(target.data)}
    for what, hashed in ours.items():
        theirs = results.attribute(fit, what, hashed)
        if theirs != hashed:
            raise StanadaptError(
                "settings",
                f"the fit must be of the target's program and data, but {what} is {theirs}, and "
                f"{hashed} that of {target.name}. Give the target that was sampled.",
            )
