"""The embedded backend: stanli interprets the program without a C++ compiler.

`stanli_faults.py` lists its faults and the five guards against them. The programs of the self-test
are minimal examples of two faults, written for this file.
"""

import contextlib
import functools
import itertools
import json
import os
import tempfile
import threading
from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np

from stanadapt.engine.compiled.cache_folder import cache_root, environment
from stanadapt.errors import Message, StanadaptError
from stanadapt.results.attributes import version_of
from stanadapt.targets.stan.backends.native import bind
from stanadapt.targets.stan.backends.refusals import older_syntax
from stanadapt.targets.stan.backends.stanli_faults import (
    SWITCHES,
    VERSION,
    complete_rows,
    refusal,
    refusal_of_binding,
)
from stanadapt.targets.stan.backends.trial import in_thread, may_be_large, require_bindable
from stanadapt.targets.stan.checked_data import CheckedData
from stanadapt.targets.stan.control_flow import branches
from stanadapt.targets.stan.program import Program
from stanadapt.targets.stan.toolchain import numbers

REPORT = "STANLI_EXECUTION_REPORT"
MANIFEST = '"kind":"execution_manifest"'
REGIONS = ('"region":', '"operation":"OP_ISLAND"', '"operation":"OP_LOOP"')
# summaries of a trial, which are remembered
WITH_REGIONS, WITHOUT_REGIONS = "regions", "no regions"
POINTS, TRIES, RADIUS = 3, 100, 1.0
INTEGER_FAULT = "exceeds Stan integer range"  # thrown by some loops that choose integers
GRADIENT_TOLERANCE = 1e-3
# relative error of a density that is a sum of many terms
ROUNDING = 8 * np.finfo(float).eps

MISSING = (
    "stanli, the embedded backend, is not installed: there are wheels for Linux with glibc 2.28, "
    "macOS and Windows. CmdStan needs none (`stanadapt install-cmdstan`)"
)

# environment variables and file descriptor 2 are shared by the whole process
_LOCK = threading.RLock()


@contextlib.contextmanager
def guarded(report: bool = False) -> Iterator[None]:
    """Switch off stanli's faulty passes for constructions within this block."""
    with _LOCK, environment(**_switches(report)):
        yield


def _switches(report: bool) -> dict[str, str]:
    return dict.fromkeys((*SWITCHES, REPORT) if report else SWITCHES, "1")


@contextlib.contextmanager
def _standard_error() -> Iterator[list[str]]:
    """Collect the output of native code to file descriptor 2, including the execution report."""
    lines: list[str] = []
    with tempfile.TemporaryFile() as file:
        saved = os.dup(2)
        os.dup2(file.fileno(), 2)
        try:
            yield lines
        finally:
            os.dup2(saved, 2)
            os.close(saved)
            file.seek(0)
            lines += file.read().decode(errors="replace").splitlines()


Remarks = tuple[Message, ...]


def construct(program: Program, data: CheckedData, unsafe: bool = False) -> tuple[Any, Remarks]:
    """Bind a program to its data; unsafe=True omits the guards 3 and 4.

    Returns the bridgestan.StanModel, and warnings for the user.
    """
    model = bound(program, data, unsafe)
    if unsafe:
        text = "stanli's checks of this program were omitted (unsafe=True)."
        return model, (Message("checks_omitted", text),)
    return model, _check(program, model) if model.param_unc_num() else ()


def bound(program: Program, data: CheckedData, unsafe: bool = False) -> Any:
    """Bind without guard 4, which a comparison with another backend replaces."""
    _require_version()
    self_test()
    return _bound(program, data, unsafe)


def _require_version() -> None:
    found = installed()
    if not found:
        raise StanadaptError("stanli_unusable", f"{MISSING}.")
    if numbers(found) < numbers(VERSION):
        raise StanadaptError(
            "stanli_unusable",
            f"stanli {found} is installed, and its faults are not those of {VERSION}, against "
            f'which there are guards. Install a later one: pip install "stanli>={VERSION}".',
        )


def installed() -> str:
    """Return the installed version of stanli; "" without any."""
    return version_of("stanli")


@functools.lru_cache(maxsize=16)  # a program may have many data sets
def _translated(code: str) -> str:
    import stanli  # loads a 41 MB library, hence not at import

    return stanli.stan_to_mir(code)


def _translate(program: Program) -> str:
    code = complete_rows(program.code)
    try:
        if code != program.code:
            with contextlib.suppress(RuntimeError):  # errors are those of the user's text
                return _translated(code)
            _translated(program.code)
            raise refusal("rows", program)
        return _translated(code)
    except RuntimeError as error:
        text = str(error).replace("'string'", f"'{program.path or program.name}'")
        message = f"{program.name} is not a valid Stan program.{older_syntax(program)}"
        raise StanadaptError("syntax_error", message, text) from None


def _bound(program: Program, data: CheckedData, unsafe: bool = False) -> Any:
    """Bind within limits of time and memory, and apply guard 3."""
    import stanli

    # spliced here, because stanli's function for it parses and writes the data three times
    manifest = {"build_id": stanli.build_id(), "mir": _translate(program), "name": program.name}
    entry = f'"__stanli":{json.dumps(manifest)}'
    library, branching = stanli._runtime_lib_path(), branches(program.code)
    # the report of a program of 100,000 terms is as large as its model, and takes longer
    report = bool(branching)

    def summary(lines: Iterable[str]) -> str:
        return WITH_REGIONS if report and _has_regions(lines) else WITHOUT_REGIONS

    def bind_guarded(report: bool) -> Any:
        with guarded(report):
            return bind(library, data, entry)

    size, regions = may_be_large(program, data), ""
    if size is not None:
        regions = require_bindable(program, size, library, data, entry, _switches(report), summary)
    try:
        if regions:
            model = in_thread(lambda: bind_guarded(report=False))
        else:
            with _LOCK, _standard_error() as lines:
                model = bind_guarded(report)
            regions = summary(lines)
    except RuntimeError as error:
        raise refusal_of_binding(program, str(error), data) from None
    if regions == WITH_REGIONS and not unsafe:  # no switch corrects branches on parameters
        shown = "\n".join(f"  line {number}: {line}" for number, line in branching[:5])
        raise refusal("branches", program, lines=shown)
    return model


def _has_regions(lines: Iterable[str]) -> bool:
    """Return whether the execution report, a line of JSON, names regions of control flow.

    It is searched as text, because parsing it may take gigabytes.
    """
    for line in lines:
        if line.startswith("{") and MANIFEST in line[:200]:
            return any(mark in line for mark in REGIONS)
    raise StanadaptError(
        "stanli_unusable",
        f"stanli gave no execution report, which its guards need. Reinstall it: "
        f"pip install --force-reinstall stanli=={VERSION}.",
    )


@np.errstate(all="ignore")  # numbers beyond the largest float are compared, or not, by `isfinite`
def _check(program: Program, model: Any) -> Remarks:
    """Apply guard 4: refuse a wrong gradient; warn if there is no point at which to compare."""
    points = finite_points(model)
    rng = np.random.default_rng(20)
    found = [gradient_error(model, point, rng.standard_normal(point.size)) for point in points]
    errors = [error for error in found if error is not None]
    if errors and max(errors) > GRADIENT_TOLERANCE:
        raise refusal("gradient", program, error=max(errors))
    if errors:
        return ()
    if INTEGER_FAULT in (reason := _complaint(model)):
        raise refusal("construct", program, reason)
    where = "next to the" if points else "at"
    text = (
        f"the embedded backend's density of {program.name} could not be checked: it is finite "
        f"{where} none of {TRIES} random points. Compare it with CmdStan's."
    )
    return (Message("nothing_compared", text),)


def finite_points(model: Any) -> list[np.ndarray]:
    """Return up to three random points with a finite log density and gradient."""
    rng, dim = np.random.default_rng(19), model.param_unc_num()
    tried = (rng.uniform(-RADIUS, RADIUS, dim) for _ in range(TRIES))
    finite = (point for point in tried if np.isfinite(np.hstack(evaluate(model, point))).all())
    return list(itertools.islice(finite, POINTS))


def _complaint(model: Any) -> str:
    """Return the message of an evaluation that throws; "" otherwise."""
    try:
        model.log_density_gradient(np.zeros(model.param_unc_num()))
    except RuntimeError as error:
        return str(error)
    return ""


def evaluate(model: Any, point: np.ndarray) -> tuple[float, np.ndarray]:
    """Return log density and gradient; -inf and NaN if the evaluation throws."""
    try:
        return model.log_density_gradient(point)
    except RuntimeError:
        return -np.inf, np.full(point.size, np.nan)


def gradient_error(model: Any, point: np.ndarray, direction: np.ndarray) -> float | None:
    """Return how far the slope along a direction is from differences of the log density.

    It is relative to one plus the length of the gradient; None if nothing can be compared. The
    smallest of three steps counts: the tolerance allows for the error of Stan's normal_lcdf and the
    rounding of large densities, the longest step for the noise of ODE solvers. Numbers are in units
    of the gradient: its square may be too large for a float.
    """
    direction = direction / np.linalg.norm(direction)
    _, gradient = evaluate(model, point)
    unit = max(1.0, float(np.max(np.abs(gradient))))
    slope, scale = gradient / unit @ direction, 1.0 / unit + np.linalg.norm(gradient / unit)
    errors = []
    for h in (1e-6, 1e-4, 1e-2):
        ahead, behind = (evaluate(model, point + s * h * direction)[0] / unit for s in (1, -1))
        rounding = ROUNDING * max(abs(ahead), abs(behind)) / h
        error = abs((ahead - behind) / (2 * h) - slope)
        if rounding <= scale or error > rounding:  # otherwise any gradient would pass
            errors.append(max(0.0, error - rounding) / scale)
    return min((error for error in errors if np.isfinite(error)), default=None)


_NESTED_LOOPS = """
data { int N; int J; vector[N] x; }
parameters { vector[J] log_scale; }
model {
  for (i in 1:N) { for (j in 1:J) { target += normal_lpdf(x[i] | 0, exp(log_scale[j])); } }
}
"""
_INVARIANT_STORE = """
data { int N; vector[N] x; array[N] int group; }
parameters { real a; real b; }
model {
  vector[N] mu;
  vector[N] scale = rep_vector(2, N);
  for (i in 1:N) {
    scale[i] = exp(a);
    if (group[i] > 1) mu[i] = x[i] * b; else mu[i] = x[i];
  }
  x ~ normal(mu, scale);
}
"""


def self_test(force: bool = False) -> None:
    """Apply guard 1: verify, once per installed version, that the switches still work.

    A later release than the one whose faults are known is used if it passes.
    """
    marker = cache_root() / "backends" / f"stanli-{installed()}-switches-act"
    if marker.exists() and not force:
        return
    x, group = np.array([0.5, -1.0, 2.0, 0.3, 1.5, -0.7, 0.9]), np.array([1, 2, 1, 2, 2, 1, 2])
    theta = np.array([0.3, -0.4])
    log_normal = -0.5 * np.log(2 * np.pi)
    loops = sum(np.sum(log_normal - s - 0.5 * (x / np.exp(s)) ** 2) for s in theta)
    # the program uses ~, which drops constants
    mean = np.where(group > 1, x * theta[1], x)
    store = np.sum(-theta[0] - 0.5 * ((x - mean) / np.exp(theta[0])) ** 2)
    common = {"N": x.size, "x": x.tolist()}
    cases = (
        (_NESTED_LOOPS, {**common, "J": 2}, loops),
        (_INVARIANT_STORE, {**common, "group": group.tolist()}, store),
    )
    for code, data, expected in cases:
        program = Program("self-test", code, None, ())
        value, _ = evaluate(_bound(program, CheckedData(data)), theta)
        if not abs(value - expected) < 1e-10 * abs(expected):
            raise StanadaptError(
                "stanli_unusable",
                f"stanli {installed()} fails its self-test: it gives {value} instead of "
                f"{expected}. It is not used; please report this with the output of `stanadapt "
                f"doctor`, and install the release with which it passes: pip install "
                f"stanli=={VERSION}.",
            )
    with contextlib.suppress(OSError):  # in a read-only cache the next process tests again
        marker.parent.mkdir(parents=True, exist_ok=True)
        marker.touch()
