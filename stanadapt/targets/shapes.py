"""Shapes of parameters' values, compared with the declared ones.

The check is needed because the embedded backend only counts elements: of a transposed matrix it
makes another one.
"""

from collections.abc import Mapping
from typing import Any

import numpy as np
from stanio.reshape import Variable, VariableType


def shapes_of(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return shapes by name; of a value without one, a text that says why."""
    return {name: _shape(value) for name, value in values.items()}


def _shape(value: Any) -> Any:
    try:
        return np.shape(value)
    except (TypeError, ValueError, RecursionError):
        return "none: it is not a number or array, or its lists differ in length or are too deep"


def wrong_shape(parameters: Mapping[str, Variable], shapes: Mapping[str, Any]) -> str:
    """Say which parameter has another shape than is declared; "" if none has."""
    for name, declared in parameters.items():
        # parts of complex numbers and tuples are left to Stan
        if name not in shapes or declared.type is not VariableType.SCALAR:
            continue
        if shapes[name] != declared.dimensions:
            return f"{name} must have shape {declared.dimensions}, got {shapes[name]}"
    return ""
