"""The backends, which evaluate a program's density. Each is a file and returns a StanModel."""

import os
import time
from collections.abc import Callable
from typing import Any, NamedTuple

from stanadapt.engine.console import Report, report_if_slow
from stanadapt.errors import Message, StanadaptError, first_of, is_one_of, warn
from stanadapt.targets.stan import data as stan_data
from stanadapt.targets.stan import toolchain
from stanadapt.targets.stan.backends import (
    agreement,
    bridgestan,
    cmdstan,
    faster,
    known_faults,
    native,
    refusals,
    stanli,
    stanli_faults,
)
from stanadapt.targets.stan.checked_data import CheckedData
from stanadapt.targets.stan.missing_functions import QUANTITIES, without_function
from stanadapt.targets.stan.program import Program
from stanadapt.targets.stan.syntax import block, prints, without_blocks

VARIABLE = "STANADAPT_BACKEND"
# codes of refusals that may be those of this block alone
REFUSED = ("unsupported_construct", "parameter_branches", "binding_limit")


class Loaded(NamedTuple):
    """A program bound to its data."""

    model: Any  # the bridgestan.StanModel, which owns the memory behind every address
    version: str  # version of the backend, for the result's attributes
    seconds: float = 0.0  # compilation time; zero if nothing was compiled
    remarks: tuple[Message, ...] = ()  # warnings that the user should see once
    program: Program | None = None  # what was loaded, if not the whole program
    density_check: str = "not compared"  # outcome of the comparison with the embedded backend
    inverse: Any = None  # another StanModel with the same coordinates, which unconstrains faster


class Backend(NamedTuple):
    """A way to evaluate the density of a program."""

    name: str  # name of the backend
    # (program, data, unsafe, report) -> Loaded
    load: Callable[[Program, CheckedData, bool, Report], Loaded]
    # Whether it compiles. Compiled code reads NaN, infinity and empty integer arrays. Threads share
    # one model without waiting for each other, generated quantities run only on request, and a
    # value is cheaper with propto=0 (with 1, Stan builds autodiff types).
    native: bool
    # () -> whether it can be used on this computer, and a clause with the reason
    availability: Callable[[], tuple[bool, str]]


def _load_native(
    compilation: Callable[[Program, Report], native.Compilation], name: str
) -> Callable[[Program, CheckedData, bool, Report], Loaded]:

    def load(program: Program, data: CheckedData, unsafe: bool, report: Report) -> Loaded:
        model, stan, seconds = native.load(program, data, compilation(program, report))
        version = name.format(stan=stan, package=toolchain.versions()["bridgestan"])
        loaded = Loaded(model, version, seconds, _fault_remarks(program, stan))
        if unsafe:
            return loaded
        try:
            check = agreement.check(program, data, model, version, stan)
        except StanadaptError:
            for remark in loaded.remarks:  # which explain the error
                warn(remark)
            raise
        return loaded._replace(density_check=check)

    return load


def _fault_remarks(program: Program, version: str) -> tuple[Message, ...]:
    faults = known_faults.find(program.code, version)
    if not faults:
        return ()
    advice = "Use backend='stanli', or install a newer CmdStan."
    text = f"{program.name}: {known_faults.describe(faults, version)}. {advice}"
    return (Message("known_fault", text),)


def _load_stanli(program: Program, data: CheckedData, unsafe: bool, report: Report) -> Loaded:
    loaded = None
    with report_if_slow(report, lambda: refusals.slow_to_bind(program)):
        try:
            model, remarks = stanli.construct(program, data, unsafe)
        except StanadaptError as error:
            if error.code not in REFUSED or not block(program.code, QUANTITIES).strip():
                raise
            loaded, model, remarks = _reduced(program, data, unsafe, error)
    version = f"stanli {stanli.installed()}"
    return Loaded(model, version, remarks=remarks, program=loaded)


def _reduced(
    program: Program, data: CheckedData, unsafe: bool, refusal: StanadaptError
) -> tuple[Program, Any, tuple[Message, ...]]:
    """Load without generated quantities: the posterior may be drawn all the same.

    Those stay that need no function which the backend lacks.
    """
    cut, lost, error = program, [], refusal
    while smaller := without_function(cut.code, stanli_faults.lacking(error.stan)):
        cut = program._replace(code=smaller[0])
        lost += smaller[1]
        try:
            model, remarks = stanli.construct(cut, data, unsafe)
            return cut, model, (*remarks, _left_out(program, refusal, lost))
        except StanadaptError as again:
            error = again
    cut = program._replace(code=without_blocks(program.code, [QUANTITIES]))
    try:
        model, remarks = stanli.construct(cut, data, unsafe)
    except StanadaptError:
        raise refusal from None
    return cut, model, (*remarks, _left_out(program, refusal, None))


def _left_out(program: Program, refusal: StanadaptError, lost: list[str] | None) -> Message:
    """Return the warning about generated quantities: about all if their names are not given."""
    why = (refusal.stan or refusal.message).splitlines()[0].rstrip(".")
    which = "the" if lost is None else f"{first_of(lost, 5) or 'statements'} of the"
    text = (
        f"{which} generated quantities of {program.name} are left out, since the embedded backend "
        f"refuses {'their block' if lost is None else 'them'} ({why}). "
        f"{refusals.elsewhere(program)}."
    )
    return Message("quantities_left_out", text)


def _bridgestan_availability() -> tuple[bool, str]:
    tree = toolchain.bridgestan_tree()
    if tree is None:
        return False, "BridgeStan's sources were not found (BRIDGESTAN names their folder)"
    missing = toolchain.outdated_bridgestan(tree) or toolchain.compiler_problem()
    return not missing, missing or f"BridgeStan's sources are in {tree}"


def _cmdstan_availability() -> tuple[bool, str]:
    installed = toolchain.cmdstan()
    if installed is None:
        why = toolchain.cmdstan_problem() or "CmdStan is not installed"
        return False, f"{why} (`stanadapt install-cmdstan` installs it)"
    missing = toolchain.compiler_problem()
    return not missing, missing or f"CmdStan {installed.version} is installed"


def _stanli_availability() -> tuple[bool, str]:
    if not stanli.installed():
        return False, stanli.MISSING
    return True, "the embedded backend, which needs no C++ compiler"


# in the order in which "auto" prefers them
BACKENDS = {
    "bridgestan": Backend(
        "bridgestan",
        _load_native(bridgestan.compilation, "BridgeStan {package}, Stan {stan}"),
        True,
        _bridgestan_availability,
    ),
    "cmdstan": Backend(
        "cmdstan", _load_native(cmdstan.compilation, "CmdStan {stan}"), True, _cmdstan_availability
    ),
    "stanli": Backend("stanli", _load_stanli, False, _stanli_availability),
}


def choose(name: str) -> list[tuple[Backend, str]]:
    """Return the backends to try for a name or "auto", in order, each with the reason.

    "auto" means the backend that the environment variable STANADAPT_BACKEND names, if it is set.
    Otherwise there may be several, because an installed CmdStan may be too old for a program. An
    unknown name is an error, and a named backend that cannot be used on this computer.
    """
    requested, reason = name, "requested"
    if is_one_of(name, ["auto"]) and os.environ.get(VARIABLE):
        requested, reason = os.environ[VARIABLE], f"requested by {VARIABLE}"
    if is_one_of(requested, ["auto"]):
        states = [(backend, *backend.availability()) for backend in BACKENDS.values()]
        choices = [(backend, why) for backend, usable, why in states if usable]
        if not choices:
            listed = "; ".join(why for *_, why in reversed(states))
            raise StanadaptError("backend_unavailable", f"there is no backend: {listed}.")
        return choices
    if not is_one_of(requested, BACKENDS):
        names = ", ".join(["auto", *BACKENDS])
        source = "backend" if requested is name else f"the environment variable {VARIABLE}"
        raise StanadaptError(
            "unknown_backend", f"{source} must be one of {names}, got {requested!r}."
        )
    usable, why = BACKENDS[requested].availability()
    if not usable:
        raise StanadaptError(
            "backend_unavailable",
            f"the backend {requested!r} cannot be used: {why.rstrip('.')}."
            + (" backend='stanli' needs no compiler." if stanli.installed() else ""),
        )
    return [(BACKENDS[requested], reason)]


Choices = list[tuple[Backend, str]]


def without_faults_first(choices: Choices, program: Program) -> Choices:
    """Move an installed CmdStan with a known fault in the program behind the embedded backend."""
    names = [backend.name for backend, _ in choices]
    if not {"cmdstan", "stanli"} <= set(names):
        return choices
    installed = toolchain.cmdstan()
    faults = known_faults.find(program.code, installed.version) if installed else []
    if installed is None or not faults:
        return choices
    embedded, faulty = choices[names.index("stanli")], choices[names.index("cmdstan")]
    others = [choice for choice in choices if choice not in (embedded, faulty)]
    return [*others, (embedded[0], known_faults.describe(faults, installed.version)), faulty]


class First(NamedTuple):
    """A program loaded by the first backend that accepts it."""

    # backend, reason: the backend, and why it was taken
    backend: Backend
    reason: str
    data: CheckedData  # the data as this backend reads them
    # loaded, seconds: the model with its origin, and how long it took to load
    loaded: Loaded
    seconds: float


def load_first(
    choices: Choices, program: Program, data: Any, unsafe: bool, report: Report
) -> First:
    """Load with the first backend that accepts the program's syntax.

    A release of Stan with a known fault in the program comes after the embedded backend; if that
    refuses the program for any reason, the release is used. The error is the refusal of a backend,
    or those of all.
    """
    errors: list[tuple[str, StanadaptError]] = []
    choices = without_faults_first(choices, program)
    for backend, reason in choices:
        began = time.perf_counter()
        try:
            checked = stan_data.check(data, program, compiled=backend.native)
            loaded = backend.load(program, checked, unsafe, report)
        except StanadaptError as error:
            is_last = backend is choices[-1][0]
            if error.code != "syntax_error" and (is_last or backend.name != "stanli"):
                raise
            errors.append((f"backend {backend.name!r}", error))
            continue
        seconds = time.perf_counter() - began
        if errors:
            refusal = errors[0][1]
            why = "is too old for" if refusal.code == "syntax_error" else "cannot run"
            line = (refusal.stan or refusal.message).splitlines()[0]
            reason = f"a preferred one {why} the program: {line}"
        first = First(backend, reason, checked.kept(), loaded, seconds)
        others = [other for other, _ in choices if other.name == "stanli" and backend.native]
        if others and agreement.UNSOLVED in loaded.density_check:
            return _solving(first, others[0], program, report)
        if others and loaded.density_check.startswith(agreement.AGREES):
            return _faster(first, others[0], program, report)
        return first
    raise refusals.of_all(program, errors)  # there is always a backend to choose from


def _solving(first: First, embedded: Backend, program: Program, report: Report) -> First:
    """Take the embedded backend, which solves equations that compiled code does not."""
    outcome = first.loaded.density_check
    reason = outcome[outcome.index(f"{first.loaded.version} {agreement.UNSOLVED}") :]
    found = _in_place_of(first, embedded, program, report)
    return first if found is None else found._replace(reason=reason)


def _faster(first: First, embedded: Backend, program: Program, report: Report) -> First:
    """Return what the embedded backend loads, if it is the faster one; see `faster`.

    The comparison of densities omits generated quantities, so a program that has some keeps its
    compiled code; so does one that prints, since each measurement would print thousands of lines.
    """
    library, version = first.loaded.model.lib_path, stanli.installed()
    ratios = faster.kept(library, version)
    if block(program.code, QUANTITIES).strip() or prints(program.code):
        return first
    if ratios is not None and not faster.is_faster(ratios):
        return first._replace(reason=f"{first.reason}; {faster.why_not(ratios)}")
    found = _in_place_of(first, embedded, program, report)
    if found is None or found.loaded.remarks:
        return first
    if ratios is None:
        points = stanli.finite_points(found.loaded.model)
        ratios = faster.measure(first.loaded.model, found.loaded.model, points)
        faster.keep(library, version, ratios)
        if (ratios := faster.kept(library, version)) is None:
            return first
    if not faster.is_faster(ratios):
        return first._replace(reason=f"{first.reason}; {faster.why_not(ratios)}")
    why = f"{faster.REASON} {ratios['gradient']:.2f} of the time of {first.loaded.version}"
    return found._replace(reason=f"{why}, as was measured when the program was new")


def _in_place_of(first: First, embedded: Backend, program: Program, report: Report) -> First | None:
    """Return what the embedded backend loads, compared with the compiled code already.

    None if it refuses the program, or takes it without its generated quantities.
    """
    began = time.perf_counter()
    try:
        checked = stan_data.check(first.data, program)
        loaded = embedded.load(program, checked, False, report)
    except StanadaptError:
        return None
    if loaded.program is not None:
        return None
    compiled = first.loaded
    check = compiled.density_check.replace(f"stanli {stanli.installed()}", compiled.version)
    # the embedded backend takes 50 times as long to unconstrain 1,000 parameters
    loaded = loaded._replace(density_check=check, seconds=compiled.seconds, inverse=compiled.model)
    return First(embedded, "", checked.kept(), loaded, time.perf_counter() - began)
