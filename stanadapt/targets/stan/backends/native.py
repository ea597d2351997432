"""Common code of the native backends: binding a compiled library to data.

All backends use BridgeStan's Python package through this file, which imports it late and
suppresses its warnings about versions.
"""

import contextlib
import ctypes
import re
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

from stanadapt.errors import StanadaptError
from stanadapt.targets.stan import build_cache, toolchain
from stanadapt.targets.stan.backends.index_errors import index_error
from stanadapt.targets.stan.checked_data import CheckedData
from stanadapt.targets.stan.program import Program

VERSIONS_DIFFER = "The version of the compiled model does not match"


def bind(library: str | Path, data: CheckedData, more: str = "") -> Any:
    """Make a bridgestan.StanModel without a copy of the data; `more` is one more entry of them.

    BridgeStan's warning about a library of another version names no cure, so it is suppressed:
    `toolchain.outdated_bridgestan` names one, and a missing function is an error.
    """
    import bridgestan

    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", VERSIONS_DIFFER, RuntimeWarning)
        with data.argument(more) as argument:
            model = bridgestan.StanModel(library, argument, warn=False)
    if data.is_large:  # the reader's memory is free, but glibc would keep hundreds of megabytes
        with contextlib.suppress(AttributeError, OSError, TypeError):
            ctypes.CDLL(None).malloc_trim(0)
    model.data = None  # would be a second copy of the data, as text
    return model


class Library(NamedTuple):
    """A compiled program: its file, the key of its build, and the compilation time in seconds."""

    file: Path
    key: str
    seconds: float


class Compilation(NamedTuple):
    """How a program becomes a library."""

    key: str  # of all that determines the library
    file: str  # name of the library in the folder of the build
    build: Callable[[Path], None]  # compiles the program in a folder

    def library(self, program: Program) -> Library:
        found = build_cache.find_or_build(program.name, self.key, self.build)
        return Library(found.folder / self.file, self.key, found.seconds)


def load(program: Program, data: CheckedData, compilation: Compilation) -> tuple[Any, str, float]:
    """Compile a program, unless it is cached, and bind it to the data.

    Returns the bridgestan.StanModel, Stan's version and the compilation time in seconds. A library
    that does not load (built on another machine, or its TBB was removed) is recompiled. Errors are
    those of the compilation, of data that the program does not accept, with Stan's message, and of
    a library that cannot be used.
    """
    library = compilation.library(program)
    try:
        model = _construct(library.file, program, data)
    except (OSError, AttributeError):
        build_cache.forget(program.name, compilation.key)
        library = compilation.library(program)
        try:
            model = _construct(library.file, program, data)
        except (OSError, AttributeError) as error:
            raise _unusable(program, error) from None
    info = model.model_info()
    if "STAN_THREADS=true" not in info:
        raise StanadaptError(
            "library_unusable",
            f"the library of {program.name} was compiled without STAN_THREADS, so chains cannot "
            "share it. Remove the setting of STAN_THREADS from make/local.",
        )
    version = re.search(r"^Stan version: *(\S+)", info, re.MULTILINE)
    return model, version[1] if version else "unknown", library.seconds


def _unusable(program: Program, error: Exception) -> StanadaptError:
    package = toolchain.versions()["bridgestan"]
    problem = f"cannot be loaded: {error}. Reinstall the Stan that compiled it"
    if isinstance(error, AttributeError):  # from ctypes
        problem = (
            f"lacks a function that BridgeStan's Python package {package} calls ({error}). Use "
            f"sources and package of one version: unset BRIDGESTAN, or let it name sources of "
            f"BridgeStan {package}; or reinstall"
        )
    return StanadaptError(
        "library_unusable",
        f"the compiled {program.name} {problem} (CmdStan: `stanadapt install-cmdstan`), or use "
        "backend='stanli'.",
    )


def _construct(file: Path, program: Program, data: CheckedData) -> Any:
    try:
        return bind(file, data)
    except RuntimeError as error:
        wrong = index_error(program, data, str(error))
        raise wrong or StanadaptError(
            "data_rejected", f"{program.name} does not accept these data.", str(error)
        ) from None
