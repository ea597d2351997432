"""Record the origin of a fit: attributes that every result has."""

import functools
import importlib.metadata
import json
from collections.abc import Callable
from typing import Any

# libraries on which draws, or reading them, depend
RECORDED = ("numpy", "numba", "bridgestan", "stanli", "arviz")
# entries of a plan that a result records
LENGTHS = ("iter_warmup", "iter_sampling", "thin", "seed")
# characters of data in JSON; of larger ones, a fit has the arrays only (`labels.data_groups`)
LARGEST_DATA = 200_000
# how the code begins that stands for the program of a density in Python
IN_PYTHON = "// a density in Python"


def version_of(package: str) -> str:
    """Return the installed version of a package, read once; "" without any."""
    return _read(importlib.metadata.version, package)


@functools.cache  # reading it takes a millisecond
def _read(version: Callable[[str], str], package: str) -> str:
    try:
        return version(package)
    except importlib.metadata.PackageNotFoundError:  # stanli, where it has no wheel
        return ""


def library_versions() -> dict[str, str]:
    """Versions of the libraries that results record."""
    return {name: version_of(name) or "not installed" for name in RECORDED}


def origin(target: Any, plan: Any) -> dict[str, Any]:
    """Return program, data, plan and versions as attributes, from a Target and a Plan."""
    attributes = {
        "inference_library": "stanadapt",
        "inference_library_version": version_of("stanadapt"),
        "versions": json.dumps(library_versions()),
        "model": target.name,
        "program_hash": target.program.hash,
        "data_hash": target.data_hash,
        "parameters": json.dumps(list(target.recorded_parameters)),
        **{name: getattr(plan, name) for name in LENGTHS},
        "program": target.program.code,
    }
    if target.program.integers:
        attributes["integers"] = json.dumps(target.program.integers)
    if target.checked.size <= LARGEST_DATA:
        attributes["data"] = target.data
    if target.random_data:
        attributes["random_data"] = target.random_data
    return attributes
