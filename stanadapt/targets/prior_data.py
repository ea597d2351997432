"""The same program under data without observations: its posterior is the prior."""

from typing import Any

from stanadapt.errors import StanadaptError


def require_same_parameters(target: Any, prior: Any) -> None:
    """Raise StanadaptError where other data change the sizes of parameters."""
    sizes = [
        {name: v.dimensions for name, v in t.parameters.items()} | {"": (t.dim,)}
        for t in (target, prior)
    ]
    if sizes[0] != sizes[1]:
        differing = [n for n in sizes[0] if sizes[0][n] != sizes[1].get(n) and n] or ["all"]
        raise StanadaptError(
            "settings",
            f"prior_data change the sizes of parameters of {target.name} "
            f"({', '.join(differing)}): keep the data on which the sizes depend, and remove "
            "observations only.",
        )
