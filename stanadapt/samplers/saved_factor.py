"""The learned scale factor L of a proposal as a group of the result, for samplers that offer it.

The group `proposal_factor` has the variable `factor`, of shape (chain, coordinate, column): L, such
that steps have the covariance L L^T, in the program's unconstrained coordinates, also if the
sampler ran in standardized ones. A diagonal L that stays diagonal there has shape
(chain, coordinate). In coordinates that a map has straightened, no single matrix describes the
steps; L is then given in those, as the attribute `coordinates` of the group records.
"""

from collections.abc import Callable
from typing import Any

import numpy as np

from stanadapt.engine.after_run import Findings, RunView
from stanadapt.results.datasets import draws_dataset

PROPOSAL_FACTOR = "proposal_factor"
# dimensions of the variable, after that of chains
ROWS, COLUMNS = "coordinate", "column"


def report_factor(view: RunView, factor_of: Callable[[Any], np.ndarray]) -> Findings:
    """Return the factors of all chains, if `save_factor` asks for them.

    factor_of returns that of a state, in the coordinates of its chain: lower triangular or full,
    shape (dim, dim), or diagonal, shape (1, dim).
    """
    if not view.settings.save_factor:
        return Findings()
    straightened, dim = view.target.is_straightened, view.dim
    transform, own = np.eye(dim), [factor_of(chain.state) for chain in view.chains]
    if not straightened and view.target.standard_coordinates is not None:
        transform = (view.target.original(np.eye(dim)) - view.target.original(np.zeros(dim))).T
    scales = transform.diagonal()
    if all(len(factor) < dim for factor in own) and np.all(transform == np.diag(scales)):
        values = np.stack([scales * factor[0] for factor in own])
    else:
        values = np.stack([transform @ _square(factor, dim) for factor in own])
    names = None if straightened else view.target.target.coordinate_names
    labels = {ROWS: names} if names is not None and len(names) == dim else {}
    group = draws_dataset(
        {"factor": values},
        {"factor": (ROWS, COLUMNS)[: values.ndim - 1]},
        labels, leading=("chain",),
    )  # fmt: skip
    group.attrs["coordinates"] = "straightened" if straightened else "unconstrained"
    return Findings(groups={PROPOSAL_FACTOR: group})


def _square(factor: np.ndarray, dim: int) -> np.ndarray:
    return factor if len(factor) == dim else np.diag(factor[0])


def whole(factor: np.ndarray) -> np.ndarray:
    """Return L without what lies above the diagonal of a triangle, which nothing reads."""
    return np.tril(factor) if len(factor) > 1 else factor
