"""What the two native backends share: how a compiled library is bound to data."""

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

from stanadapt import builds
from stanadapt.errors import StanadaptError
from stanadapt.program import Program
from stanadapt.status import Tell


class Library(NamedTuple):
    """A compiled program: its file, the key of its build, the seconds that compiling took."""

    file: Path
    key: str
    seconds: float


Compiler = Callable[[Program, Tell], Library]


def require_parameters(program: Program, count: int) -> None:
    """Raise StanadaptError, stage "data", if there is nothing to sample."""
    if count == 0:
        raise StanadaptError(
            "data",
            f"{program.name} has no parameters, so there is nothing to sample. Check the "
            "parameters block, and the data that size it.",
        )


def load(program: Program, data: str, compiler: Compiler, tell: Tell) -> tuple[Any, str, float]:
    """Compile a program, or find it compiled, and give it the data, JSON text.

    A library that does not load (of another machine, or with its TBB gone) is compiled again.

    Returns the bridgestan.StanModel, Stan's version, and the seconds that compiling took. Raises
    StanadaptError of stage "data" with Stan's words if the program does not accept the data,
    "installation" if the library cannot be used; and what `compiler` raises.
    """
    library = compiler(program, tell)
    try:
        model = _construct(library.file, program, data)
    except OSError:
        builds.forget(program.name, library.key)
        library = compiler(program, tell)
        model = _construct_again(library.file, program, data)
    told = model.model_info()
    if "STAN_THREADS=true" not in told:
        raise StanadaptError(
            "installation",
            f"the library of {program.name} was compiled without STAN_THREADS, so chains cannot "
            "share it. Take STAN_THREADS out of make/local, where it is set to something else.",
        )
    require_parameters(program, model.param_unc_num())
    version = re.search(r"^Stan version: *(\S+)", told, re.MULTILINE)
    return model, version[1] if version else "unknown", library.seconds


def _construct_again(file: Path, program: Program, data: str) -> Any:
    try:
        return _construct(file, program, data)
    except OSError as error:
        raise StanadaptError(
            "installation",
            f"the compiled {program.name} cannot be loaded: {error}. Reinstall what compiled it "
            "(CmdStan: `stanadapt install-cmdstan`), or take backend='stanli'.",
        ) from None


def _construct(file: Path, program: Program, data: str) -> Any:
    import bridgestan

    try:
        model = bridgestan.StanModel(file, data, warn=False)
    except RuntimeError as error:
        raise StanadaptError(
            "data", f"{program.name} does not accept these data.", str(error)
        ) from None
    model.data = None  # a second copy of the data, as text
    return model
