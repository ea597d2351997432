"""Ways from a Stan program to a density. One file a way; each yields a `bridgestan.StanModel`."""

import os
from collections.abc import Callable
from typing import Any, NamedTuple

from stanadapt import toolchain
from stanadapt.backends import bridgestan, cmdstan, stanli
from stanadapt.errors import StanadaptError
from stanadapt.program import Program
from stanadapt.status import Tell

VARIABLE = "STANADAPT_BACKEND"


class Loaded(NamedTuple):
    """A program bound to its data.

    model
        The bridgestan.StanModel; owns what every address points to.
    version
        Of what evaluates it, for the result's attributes.
    native
        Whether it is compiled code: then threads share one model without waiting for each
        other, generated quantities run only where they are asked for, and a value costs less
        with propto=0 (with 1, Stan builds autodiff types).
    seconds
        Of compilation; zero where nothing had to be compiled.

    remarks
        Sentences that the user should see once.

    """

    model: Any
    version: str
    native: bool
    seconds: float = 0.0
    remarks: tuple[str, ...] = ()


class Backend(NamedTuple):
    """A way to a density.

    load
        (program, data as JSON text, unsafe, tell) -> Loaded.
    reads_nonfinite
        Whether its data may hold NaN, infinity and empty integer arrays.
    presence
        () -> whether it can be used here, and a half sentence that says why (not).

    """

    name: str
    load: Callable[[Program, str, bool, Tell], Loaded]
    reads_nonfinite: bool
    presence: Callable[[], tuple[bool, str]]


def _load_bridgestan(program: Program, data: str, unsafe: bool, tell: Tell) -> Loaded:
    model, version, seconds = bridgestan.load(program, data, tell)
    packaged = toolchain.versions()["bridgestan"]
    return Loaded(model, f"BridgeStan {packaged}, Stan {version}", True, seconds)


def _load_cmdstan(program: Program, data: str, unsafe: bool, tell: Tell) -> Loaded:
    model, version, seconds = cmdstan.load(program, data, tell)
    return Loaded(model, f"CmdStan {version}", True, seconds)


def _load_stanli(program: Program, data: str, unsafe: bool, tell: Tell) -> Loaded:
    model, remarks = stanli.construct(program, data, unsafe)
    return Loaded(model, f"stanli {stanli.VERSION}", False, 0.0, remarks)


def _bridgestan_presence() -> tuple[bool, str]:
    tree = toolchain.bridgestan_tree()
    if tree is None:
        return False, "BridgeStan's sources are not here (BRIDGESTAN names their folder)"
    missing = toolchain.compiler_problem()
    return not missing, missing or f"BridgeStan's sources are in {tree}"


def _cmdstan_presence() -> tuple[bool, str]:
    found = toolchain.cmdstan()
    if found is None:
        why = toolchain.cmdstan_problem() or "CmdStan is not installed"
        return False, f"{why} (`stanadapt install-cmdstan` installs it)"
    missing = toolchain.compiler_problem()
    return not missing, missing or f"CmdStan {found.version} is installed"


def _stanli_presence() -> tuple[bool, str]:
    return True, "the embedded backend: needs no C++ compiler"


# in the order in which "auto" prefers them
BACKENDS = {
    "bridgestan": Backend("bridgestan", _load_bridgestan, True, _bridgestan_presence),
    "cmdstan": Backend("cmdstan", _load_cmdstan, True, _cmdstan_presence),
    "stanli": Backend("stanli", _load_stanli, False, _stanli_presence),
}


def choose(name: str) -> list[tuple[Backend, str]]:
    """Return the backends to try for a name or "auto", in order, each with why it is taken.

    "auto" stands for what the environment variable STANADAPT_BACKEND names, if it is set. It
    yields more than one backend, since an installed CmdStan may be too old for a program.

    Raises StanadaptError of stage "settings" for an unknown name, "installation" if the named
    backend is not here.
    """
    asked, reason = name, "asked for"
    if name == "auto" and os.environ.get(VARIABLE):
        asked, reason = os.environ[VARIABLE], f"{VARIABLE} asks for it"
    if asked == "auto":
        present = [(backend, *backend.presence()) for backend in BACKENDS.values()]
        return [(backend, why) for backend, here, why in present if here]
    if asked not in BACKENDS:
        known = ", ".join(["auto", *BACKENDS])
        where = "backend" if asked == name else f"the environment variable {VARIABLE}"
        raise StanadaptError("settings", f"{where} must be one of {known}, got {asked!r}.")
    here, why = BACKENDS[asked].presence()
    if not here:
        raise StanadaptError(
            "installation",
            f"the backend {asked!r} cannot be used here: {why.rstrip('.')}. "
            "backend='stanli' needs no compiler.",
        )
    return [(BACKENDS[asked], reason)]
