"""Results are ArviZ objects: building, reading and saving them.

Two lines of ArviZ are supported: 0.23 (InferenceData) and 1.x (xarray.DataTree). No other room
depends on which one is installed.
"""

from stanadapt.results.arviz_object import (
    PSEUDO,
    Fit,
    Groups,
    add_groups,
    add_notes,
    arviz_module,
    attribute,
    build,
    columns,
    dataset,
    from_json,
    group_names,
    is_fit,
    notes,
    parameters,
    pareto_smoothed,
    require_draws,
    shapes,
    source_name,
    variables,
)
from stanadapt.results.files import (
    as_path,
    check_writable,
    load,
    partial_path,
    replace_file,
    save,
    write_bytes,
    write_text,
)

__all__ = [
    "PSEUDO",
    "Fit",
    "Groups",
    "add_groups",
    "add_notes",
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
    "notes",
    "parameters",
    "pareto_smoothed",
    "partial_path",
    "replace_file",
    "require_draws",
    "save",
    "shapes",
    "source_name",
    "variables",
    "write_bytes",
    "write_text",
]
