"""Common code of the two native backends: binding a compiled library to data.

BridgeStan's Python package as all backends use it: imported late, and silent on versions.
"""

import re
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

from stanadapt.engine.compiled.cache_folder import stand_in_home
from stanadapt.engine.console import Report
from stanadapt.errors import StanadaptError
from stanadapt.targets.stan import build_cache, toolchain
from stanadapt.targets.stan.program import Program

VERSIONS_DIFFER = "The version of the compiled model does not match"


def package() -> Any:
    """Import BridgeStan's package, also for a user without a home, whom it refuses.

    It names a folder in the home for its own downloads, which are not used.
    """
    with stand_in_home():
        import bridgestan
    return bridgestan


def bound_model(library: str | Path, data: str) -> Any:
    """Make a bridgestan.StanModel, which keeps no copy of the data.

    Its warning of a library of another version names no cure; `toolchain.outdated_bridgestan`
    does, and a function that is missing is an error.
    """
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", VERSIONS_DIFFER, RuntimeWarning)
        model = package().StanModel(library, data, warn=False)
    model.data = None  # would be a second copy of the data, as text
    return model


class Library(NamedTuple):
    """A compiled program: its file, the key of its build, the compilation time in seconds."""

    file: Path
    key: str
    seconds: float


Compiler = Callable[[Program, Report], Library]


def require_parameters(program: Program, count: int) -> None:
    """Raise StanadaptError, stage "data", if the program has no parameters."""
    if count == 0:
        raise StanadaptError(
            "data",
            f"{program.name} has no parameters, so there is nothing to sample. Check the "
            "parameters block, and the data that set its sizes.",
        )


def load(program: Program, data: str, compiler: Compiler, report: Report) -> tuple[Any, str, float]:
    """Compile a program, unless it is cached, and bind it to the data (JSON text).

    A library that does not load (built on another machine, or its TBB was removed) is recompiled.

    Returns the bridgestan.StanModel, Stan's version, and the compilation time in seconds. Raises
    StanadaptError of stage "data" with Stan's message if the program does not accept the data,
    "installation" if the library cannot be used; and whatever `compiler` raises.
    """
    library = compiler(program, report)
    try:
        model = _construct(library.file, program, data)
    except (OSError, AttributeError):
        build_cache.forget(program.name, library.key)
        library = compiler(program, report)
        model = _construct_again(library.file, program, data)
    info = model.model_info()
    if "STAN_THREADS=true" not in info:
        raise StanadaptError(
            "installation",
            f"the library of {program.name} was compiled without STAN_THREADS, so chains cannot "
            "share it. Remove STAN_THREADS from make/local, where it has another value.",
        )
    require_parameters(program, model.param_unc_num())
    version = re.search(r"^Stan version: *(\S+)", info, re.MULTILINE)
    return model, version[1] if version else "unknown", library.seconds


def _construct_again(file: Path, program: Program, data: str) -> Any:
    try:
        return _construct(file, program, data)
    except OSError as error:
        problem = f"cannot be loaded: {error}. Reinstall what compiled it"
    except AttributeError as error:  # from ctypes
        package = toolchain.versions()["bridgestan"]
        problem = (
            f"lacks a function that BridgeStan's Python package {package} calls ({error}). Take "
            f"sources and package of one version: unset BRIDGESTAN, or let it name sources of "
            f"BridgeStan {package}; or reinstall"
        )
    raise StanadaptError(
        "installation",
        f"the compiled {program.name} {problem} (CmdStan: `stanadapt install-cmdstan`), or use "
        "backend='stanli'.",
    )


def _construct(file: Path, program: Program, data: str) -> Any:
    try:
        return bound_model(file, data)
    except RuntimeError as error:
        raise StanadaptError(
            "data", f"{program.name} does not accept these data.", str(error)
        ) from None
