"""The group `pseudo` of a result: all pseudo-samples, their temperatures and their weights."""

import ctypes

import numpy as np

from stanadapt import results
from stanadapt.density import constrain_parameters
from stanadapt.errors import StanadaptError
from stanadapt.target import Target

TEMPERATURE, WEIGHT = "temperature", "weight"


def pseudo_group(
    target: Target, positions: np.ndarray, temperature: np.ndarray, weight: np.ndarray
) -> dict[str, np.ndarray]:
    """Return the variables of the group by name.

    Parameters
    ----------
    target
        What the pseudo-samples are draws of, weighted.
    positions
        Shape (chain, draw, pseudo, dim), unconstrained.
    temperature, weight
        Shape (chain, draw, pseudo): inverse temperatures; weights, which sum to one over pseudo.

    Returns
    -------
    dict
        Every parameter and transformed parameter, shape (chain, draw, pseudo, ...), NaN where
        these throw; `temperature` and `weight`.

    """
    require_names(target)
    lead = positions.shape[:3]
    rows = np.ascontiguousarray(positions, dtype=float).reshape(-1, positions.shape[-1])
    model = target.without_quantities()
    names = model.param_names(include_tp=True)
    if target.unconstrained:
        columns = rows
    else:
        columns = np.empty((len(rows), len(names)))
        address = ctypes.cast(model.stanlib.bs_param_constrain, ctypes.c_void_p).value
        constrain_parameters(address, model.model, rows, columns)
    found = results.variables(names, columns.reshape(lead[0], -1, len(names)))
    group = {name: value.reshape(*lead, *value.shape[2:]) for name, value in found.items()}
    return {**group, TEMPERATURE: temperature, WEIGHT: weight}


def taken_apart(more: np.ndarray, dim: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Take apart what pseudo_extended records, shape (chain, draw, N dim + 2 N).

    Returns positions, temperatures and weights as `pseudo_group` takes them.
    """
    count = more.shape[2] // (dim + 2)
    positions = more[..., : count * dim].reshape(*more.shape[:2], count, dim)
    return positions, more[..., count * dim : -count], more[..., -count:]


def require_names(target: Target) -> None:
    """Raise StanadaptError if the program has variables of names that the group itself uses."""
    reserved = ("chain", "draw", results.PSEUDO, TEMPERATURE, WEIGHT)
    names = {name.split(".")[0].split(":")[0] for name in target.column_names}
    taken = [name for name in reserved if name in names]
    if taken:
        raise StanadaptError(
            "settings",
            f"{target.name} has a variable named {', '.join(taken)}, a name that the group of "
            "pseudo-samples needs: give it another in the program, or leave save_pseudo out.",
        )
