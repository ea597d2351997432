"""A construct of Stan's language: one small program and its log density, written out by hand."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

INCLUDED = Path(__file__).with_name("included")
Values = Mapping[str, Any]


class Construct(NamedTuple):
    """One row of the table of constructs.

    name
        The row's name.
    code
        A program that uses the construct.
    log_density
        Log density of the values of parameters, without Jacobians, up to a constant.
    data
        The program's data.
    since, until
        First and last release of Stan with the construct; empty if it is in all since 2.24.
    free
        Elements of the constrained values that determine all: their derivatives by differences
        give the Jacobian of the transform.
    of_position
        A term of the log density that is a function of the unconstrained parameters.
    quantities
        Whether values of parameters and generated quantities fit together.
    tolerance
        Allowed error of log densities, relative to the largest; solvers need more than rounding.
    """

    name: str
    code: str
    log_density: Callable[[Values], float]
    data: Values = {}  # noqa: RUF012
    since: str = ""
    until: str = ""
    free: Callable[[Values], np.ndarray] | None = None
    of_position: Callable[[np.ndarray], float] | None = None
    quantities: Callable[[Values], bool] | None = None
    tolerance: float = 1e-9


def x_in_model(statements: str, **blocks: str) -> str:
    """Return a program with parameters `real x` and `vector[3] v`, and these statements."""
    order = ("functions", "data", "transformed_data")
    parts = [f"{name.replace('_', ' ')} {{ {blocks[name]} }}" for name in order if name in blocks]
    parts.append("parameters { real x; vector[3] v; }")
    if "transformed_parameters" in blocks:
        parts.append(f"transformed parameters {{ {blocks['transformed_parameters']} }}")
    parts.append(f"model {{ x ~ normal(0, 1); v ~ normal(0, 1);\n  {statements}\n}}")
    if "quantities" in blocks:
        parts.append(f"generated quantities {{ {blocks['quantities']} }}")
    return "\n".join(parts)


def prior(p: Values) -> float:
    """Return the log density of the priors of `x_in_model`."""
    return float(-0.5 * p["x"] ** 2 - 0.5 * p["v"] @ p["v"])


def with_prior(term: Callable[..., Any]) -> Callable[[Values], float]:
    """Return the log density of a program of `x_in_model`; `term` is a function of x and v."""
    return lambda p: prior(p) + float(term(p["x"], p["v"]))
