"""Results are ArviZ objects: building, reading and saving them.

Two lines of ArviZ are supported: 0.23 (an InferenceData) and 1.x (an xarray DataTree). No other
room depends on which one is installed.
"""

from stanadapt.results.arviz_object import (
    PSEUDO,
    Groups,
    add_groups,
    arviz_module,
    attribute,
    build,
    columns,
    dataset,
    from_json,
    group_names,
    is_fit,
    made_by,
    parameters,
    pareto_smoothed,
    require_draws,
    shapes,
    variables,
)
from stanadapt.results.files import as_path, check_writable, load, partial_of, save, write_text

__all__ = [
    "PSEUDO",
    "Groups",
    "add_groups",
    "arviz_module",
    "as_path",
    "attribute",
    "build",
    "check_writable",
    "columns",
    "dataset",
    "from_json",
    "group_names",
    "is_fit",
    "load",
    "made_by",
    "parameters",
    "pareto_smoothed",
    "partial_of",
    "require_draws",
    "save",
    "shapes",
    "variables",
    "write_text",
]
