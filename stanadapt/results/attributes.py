"""Record the origin of a fit: attributes that every result has."""

import functools
import importlib.metadata
import json
from collections.abc import Callable, Mapping, Sequence
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


def origin_attributes(
    *,
    model: str,
    program_hash: str,
    data_hash: str,
    parameters: Sequence[str],
    plan: Mapping[str, Any],
    stanadapt: str | None = None,
    versions: Mapping[str, str] | None = None,
) -> dict[str, Any]:
    """Return program, data, plan and versions as attributes of a result.

    `plan` has the names in `LENGTHS`. `stanadapt` and `versions` are the versions of the package
    and of the libraries at the time of the run; default: those here.
    """
    return {
        "inference_library": "stanadapt",
        "inference_library_version": stanadapt or version_of("stanadapt"),
        "versions": json.dumps(dict(versions or library_versions())),
        "model": model,
        "program_hash": program_hash,
        "data_hash": data_hash,
        "parameters": json.dumps(list(parameters)),
        **{name: plan[name] for name in LENGTHS},
    }


def origin(target: Any, plan: Any) -> dict[str, Any]:
    """Return the attributes of a result that was made here, from a Target and a Plan."""
    attributes = origin_attributes(
        model=target.name,
        program_hash=target.program.hash,
        data_hash=target.data_hash,
        parameters=target.recorded_parameters,
        plan=plan._asdict(),
    )
    texts = {"program": target.program.code}
    if target.program.integers:
        texts["integers"] = json.dumps(target.program.integers)
    if len(target.data) <= LARGEST_DATA:
        texts["data"] = target.data
    if target.random_data:
        texts["random_data"] = target.random_data
    return attributes | texts
