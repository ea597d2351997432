"""Results are ArviZ objects: building, reading and saving them.

Two lines of ArviZ are supported: 0.23 (InferenceData) and 1.x (xarray.DataTree). No other layer
depends on which one is installed.
"""

from stanadapt.results.arviz_object import (
    EXPECTATIONS,
    GRADIENT,
    PSEUDO,
    UNCONSTRAINED,
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
    variable_name,
    variable_of,
    variables,
)
from stanadapt.results.cmdstan_csv import other_csv_files
from stanadapt.results.cmdstan_header import is_stan_csv
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
from stanadapt.results.statistics import has_other_names, is_fixed, standard_names, statistics

__all__ = [
    "EXPECTATIONS", "FORMATS", "GRADIENT", "PSEUDO", "UNCONSTRAINED", "Fit", "Groups", "add_groups",
    "add_notes", "arviz_module", "as_path", "attribute", "build", "check_writable", "columns",
    "dataset", "element", "from_json", "group_names", "has_other_names", "is_fit", "is_fixed",
    "is_stan_csv", "load", "notes", "other_csv_files", "parameters", "pareto_smoothed",
    "partial_path", "quantile", "replace_file", "require_draws", "require_format", "save",
    "scalars", "shapes", "source_name", "standard_names", "statistics", "variable_name",
    "variable_of", "variables", "write_bytes", "write_text",
]  # fmt: skip
