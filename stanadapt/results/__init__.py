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
    element,
    from_json,
    group_names,
    is_fit,
    notes,
    parameters,
    pareto_smoothed,
    quantile,
    require_draws,
    scalars,
    shapes,
    source_name,
    variables,
)
from stanadapt.results.cmdstan_csv import other_csv_files
from stanadapt.results.files import (
    as_path,
    check_writable,
    load,
    partial_path,
    replace_file,
    write_bytes,
    write_text,
)
from stanadapt.results.formats import FORMATS, require_format, save

__all__ = [
    "FORMATS",
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
    "element",
    "from_json",
    "group_names",
    "is_fit",
    "load",
    "notes",
    "other_csv_files",
    "parameters",
    "pareto_smoothed",
    "partial_path",
    "quantile",
    "replace_file",
    "require_draws",
    "require_format",
    "save",
    "scalars",
    "shapes",
    "source_name",
    "variables",
    "write_bytes",
    "write_text",
]
