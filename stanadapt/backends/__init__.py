"""Ways from a Stan program to a density. One file a way; each yields a `bridgestan.StanModel`."""

from collections.abc import Callable
from typing import Any, NamedTuple

from stanadapt.backends import stanli
from stanadapt.errors import StanadaptError
from stanadapt.program import Program


class Loaded(NamedTuple):
    """A program bound to its data.

    model
        The bridgestan.StanModel; owns what every address points to.
    version
        Of what evaluates it, for the result's attributes.
    value_propto
        The `propto` flag of value calls: 0 where a native library would otherwise build
        autodiff types, 1 where the backend knows nothing else.

    Notes
    -----
        Sentences that the user should see once.

    """

    model: Any
    version: str
    value_propto: int
    notes: tuple[str, ...] = ()


class Backend(NamedTuple):
    """A way to a density.

    load
        (program, data as JSON text, unsafe) -> Loaded.
    reads_nonfinite
        Whether its data may hold NaN, infinity and empty integer arrays.

    """

    name: str
    load: Callable[[Program, str, bool], Loaded]
    reads_nonfinite: bool


def _load_stanli(program: Program, data: str, unsafe: bool) -> Loaded:
    model, notes = stanli.construct(program, data, unsafe)
    return Loaded(model, f"stanli {stanli.VERSION}", 1, notes)


# in the order in which "auto" prefers them
BACKENDS = {"stanli": Backend("stanli", _load_stanli, reads_nonfinite=False)}


def choose(name: str) -> tuple[Backend, str]:
    """Return the backend for a name or "auto", and why it was taken."""
    if name == "auto":
        return BACKENDS["stanli"], "the embedded backend: needs no C++ compiler"
    if name not in BACKENDS:
        known = ", ".join(["auto", *BACKENDS])
        raise StanadaptError("settings", f"backend must be one of {known}, got {name!r}.")
    return BACKENDS[name], "asked for"
