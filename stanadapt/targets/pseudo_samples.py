"""The group `pseudo` of a result: weighted pseudo-samples of each draw, constrained."""

import numpy as np

from stanadapt import results
from stanadapt.engine.density import constrain_parameters
from stanadapt.errors import StanadaptError
from stanadapt.results import PSEUDO
from stanadapt.targets.constrainer import address_of
from stanadapt.targets.target import Target

TEMPERATURE, WEIGHT = "temperature", "weight"


def pseudo_group(
    target: Target, positions: np.ndarray, temperature: np.ndarray, weight: np.ndarray
) -> dict[str, np.ndarray]:
    """Return the variables of the group by name.

    Positions are unconstrained, of shape (chain, draw, pseudo, dim); inverse temperatures and
    weights, which sum to one over pseudo, have shape (chain, draw, pseudo). The variables are
    `temperature`, `weight`, and every parameter and transformed parameter, of shape (chain, draw,
    pseudo, ...), NaN in rows in which transformed parameters throw.
    """
    require_unreserved_names(target)
    rows = np.ascontiguousarray(positions, dtype=float).reshape(-1, positions.shape[-1])
    model = target.without("generated quantities")
    names = _columns(target)
    if target.is_unconstrained:
        columns = rows
    else:
        columns = np.empty((len(rows), len(names)))
        address = address_of(model.stanlib.bs_param_constrain)
        constrain_parameters(address, model.model, rows, columns)
    return _group(names, columns, temperature, weight)


def empty_group(target: Target) -> dict[str, np.ndarray]:
    """Return the variables of the group for one draw of zeros, to rehearse names and sizes."""
    require_unreserved_names(target)
    names, one = _columns(target), np.zeros((1, 1, 1))
    return _group(names, np.zeros((1, len(names))), one, one)


def _columns(target: Target) -> list[str]:
    """Return the names of the columns in the group: excluded quantities and noise have some too."""
    return target.without("generated quantities").param_names(include_tp=True)


def _group(
    names: list[str], columns: np.ndarray, temperature: np.ndarray, weight: np.ndarray
) -> dict[str, np.ndarray]:
    lead = weight.shape
    variables = results.variables(names, columns.reshape(lead[0], -1, len(names)))
    group = {name: value.reshape(*lead, *value.shape[2:]) for name, value in variables.items()}
    return {**group, TEMPERATURE: temperature, WEIGHT: weight}


def require_unreserved_names(target: Target) -> None:
    """Raise StanadaptError if the program has variables with names that the group itself uses."""
    reserved = ("chain", "draw", PSEUDO, TEMPERATURE, WEIGHT)
    names = set(map(results.variable_name, _columns(target)))
    taken = [name for name in reserved if name in names]
    if taken:
        raise StanadaptError(
            "reserved_variable",
            f"{target.name} has a variable named {', '.join(taken)}, a name that the group of "
            f"pseudo-samples reserves: rename it in the program, or leave {PSEUDO!r} out of save.",
        )
