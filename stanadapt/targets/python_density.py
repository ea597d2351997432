"""A log density written in Python, with NumPy, Numba or JAX, as a target beside Stan programs.

Samplers see two C functions, as BridgeStan has them. Numba compiles them around a function of its
own; other functions are called back from compiled code, one chain at a time.
"""

import contextlib
import ctypes
import json
import reprlib
import sys
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from hashlib import sha256
from importlib import import_module
from threading import Lock
from types import MappingProxyType, SimpleNamespace
from typing import Any

import numba
import numpy as np
import stanio
from numba.core.registry import CPUDispatcher

from stanadapt.engine.density import GRADIENT_SIGNATURE, VALUE_SIGNATURE, value_and_gradient
from stanadapt.errors import (
    Message,
    StanadaptError,
    StanadaptWarning,
    require_names,
    require_whole,
    warn,
)
from stanadapt.results.attributes import IN_PYTHON
from stanadapt.results.labels import make_labels, merge_labels
from stanadapt.targets.density_faults import Fault, described, is_outside, real_array
from stanadapt.targets.stan.checked_data import CheckedData
from stanadapt.targets.stan.program import Program
from stanadapt.targets.target import Target

POINTS, RADIUS, CALLS = 5, 1.0, 20
STEP, TOLERANCE = 1e-5, 1e-3
_NUMBERS = ctypes.POINTER(ctypes.c_double)
_FLAG, _HANDLE = ctypes.c_int, ctypes.c_void_p
_VALUE = ctypes.CFUNCTYPE(_FLAG, _HANDLE, _FLAG, _FLAG, _NUMBERS, _NUMBERS, _HANDLE)
_GRADIENT = ctypes.CFUNCTYPE(
    _FLAG, _HANDLE, _FLAG, _FLAG, _NUMBERS, _NUMBERS, _NUMBERS, _HANDLE
)  # fmt: skip


class Density(Target):
    """A log density in Python, on all real vectors, which every sampler accepts as a target.

    Parameters
    ----------
    function : callable
        Function of a vector, shape (dim,), that returns the log density and its gradient, or only
        the former. It is compiled if it is a function of Numba, and differentiated by `jax.grad`
        if it returns a number of JAX and no gradient is given. Outside the support it returns -inf
        or raises a ValueError, an ArithmeticError or a LinAlgError. Other exceptions in a run are
        faults: a warning names the first, and the verdict is "do not use".
    dim : int
        Number of parameters.
    gradient : callable, optional
        Function of a vector that returns the gradient.
    names : sequence of str, optional
        Names of the parameters, each that of a Python variable. Default: one vector x.
    name : str, optional
        Name of the density. Default: that of the function.
    labels, dims, coords : optional
        As for `Target`.

    Attributes
    ----------
    seconds_per_call
        Seconds that a gradient takes, which results record. Calls of Python wait for each other:
        chains in threads are no faster than one after the other. A density compiled by Numba or
        from a Stan program has neither cost.

    Raises
    ------
    StanadaptError
        "wrong_density" if the function raises, or returns something else, at a point that is tried,
        or if names are unsuitable; "gradient_mismatch" if
        the gradient is not that of the function.

    Examples
    --------
    >>> import numpy as np, stanadapt as sa
    >>> target = sa.Density(lambda x: (-0.5 * x @ x, -x), 2, names=["a", "b"])
    >>> fit = sa.sample(target, seed=1, show_progress=False)
    >>> fit.attrs["verdict"], list(fit["posterior"].data_vars)
    ('fine', ['a', 'b'])
    """

    def __init__(
        self,
        function: Callable[..., Any],
        dim: int,
        *,
        gradient: Callable[..., Any] | None = None,
        names: Sequence[str] | None = None,
        name: str | None = None,
        labels: Any = None,
        dims: Any = None,
        coords: Mapping[str, Any] | None = None,
    ) -> None:
        self.dim = require_whole("dim", dim, 1)
        self._function, self._gradient = function, gradient
        self.name = name or getattr(function, "__name__", "density").strip("<>")
        names = None if names is None else _require_names(names, self.dim)
        code = _as_program(function, gradient, self.dim, names)
        self.program = Program(self.name, code, None, ())
        self.names = [f"x.{i + 1}" for i in range(self.dim)] if names is None else names
        self._fault = ""
        self.checked, self.unsafe, self.noise_size = CheckedData({}), False, 0
        self.noise, self.rho = (), 0.0
        self.exclude, self.left_out, self.remarks, self.data_file = (), set(), (), None
        self._lock, self._reduced, self._chain_models = Lock(), {}, []
        self._native, self._binding_seconds, self._value_propto = True, 0.0, 0
        self.density_check = "not compared: the density is a Python function"
        self.compile_seconds, self.is_unconstrained = 0.0, True
        self.parameters = stanio.parse_header(",".join(self.names))
        self.column_names, self.kept_columns = self.names, np.ones(self.dim, bool)
        shapes = {name: variable.dimensions for name, variable in self.parameters.items()}
        named = merge_labels(labels, dims, coords)
        self.labels = make_labels(named, shapes, {}, self.parameters)
        began = time.perf_counter()
        self.model, self.backend = self._make_model()
        self.backend_version = f"{self.backend} {sys.modules[self.backend].__version__}"
        self.backend_reason = "requested"
        self._check()
        self.compile_seconds = time.perf_counter() - began
        self.seconds_per_call = self._measure()
        self.description = MappingProxyType({"seconds_per_call": self.seconds_per_call})

    def __reduce__(self) -> tuple:
        raise StanadaptError(
            "not_an_executor", f"{self!r} cannot be sent to another process: leave executor out."
        )

    def __repr__(self) -> str:
        cost = f"{1e6 * self.seconds_per_call:.3g} us per gradient"
        return f"Density({self.name!r}, {self.dim} parameters, {self.backend}, {cost})"

    @property
    def described(self) -> str:
        """The function, which neither a run folder nor a worker can make again."""
        return f"the Density {self.name} ({self.program.hash})"

    def fault(self, positions: Iterable[np.ndarray]) -> str:
        """Describe the first fault of the function, in this run or at these positions.

        The next run begins without it.
        """
        for position in positions:
            try:
                self.model.evaluate(position)
            except RuntimeError as error:
                self._note_fault(error)
        found, self._fault = self._fault, ""
        return found

    def _note_fault(self, error: RuntimeError) -> bool:
        """Keep the first fault of the function; return whether this is it."""
        first = isinstance(error, Fault) and not self._fault
        if first:
            self._fault = f"the density {self.name} {error}"
        return first

    def _warn_of_fault(self, error: RuntimeError) -> None:
        """Warn of the first fault at once: a run continues, so that its draws are not lost."""
        if self._note_fault(error):
            with contextlib.suppress(StanadaptWarning):  # compiled code cannot raise
                warn(Message("density_raised", f"{self._fault}. Correct the function."))

    def with_data(self, data: Any) -> Target:
        """Refuse data, which a function does not have."""
        raise StanadaptError(
            "not_a_stan_program", f"{self!r} is no Stan program, and has no data to replace."
        )

    def _make_model(self) -> "tuple[_Model, str]":
        function, gradient = self._function, self._gradient
        first = _called(function, self.dim)
        both = isinstance(first, tuple | list) and len(first) == 2
        kind = type(first[0] if both else first).__module__.partition(".")[0]
        try:
            for part in first if both else (first,):
                real_array(part)
        except Fault as error:
            raise _wrong(self.name, str(error)) from None
        if isinstance(function, CPUDispatcher) and (both or isinstance(gradient, CPUDispatcher)):
            functions = _compiled(function, None if both else gradient, self.dim)
            return _Model(self.names, _python(function, gradient, both), functions), "numba"
        if kind in ("jax", "jaxlib"):
            function, both = _of_jax(function, gradient, both), True
        elif not both and gradient is None:
            raise StanadaptError(
                "wrong_density",
                f"{self.name} returned {reprlib.repr(first)} and no gradient: return (log density, "
                "gradient), or give gradient=. A function in JAX is differentiated by itself.",
            )
        backend = "jax" if kind in ("jax", "jaxlib") else "numpy"
        evaluate = _python(function, gradient, both)
        callbacks = _callbacks(evaluate, self.dim, self._warn_of_fault)
        return _Model(self.names, evaluate, callbacks), backend

    def _check(self) -> None:
        """Call the function at some points, and compare the gradient with differences of values."""
        rng, raised = np.random.default_rng(24), []
        for point in _points(self.dim):
            try:
                value, gradient = self.model.evaluate(point)
            except RuntimeError as error:
                raised += [] if str(error).startswith("not finite") else [str(error)]
                # a function may raise where it has no density, but not everywhere
                if isinstance(error, Fault) or len(raised) == POINTS:
                    raise _wrong(self.name, str(error)) from None
                continue
            direction = rng.standard_normal(self.dim)
            direction *= STEP / np.linalg.norm(direction)
            ends = [self.value(point + s * direction) for s in (1.0, -1.0)]
            slope, expected = (ends[0] - ends[1]) / 2.0, float(gradient @ direction)
            scale = STEP * (1.0 + np.linalg.norm(gradient)) + 1e-9 * (1.0 + abs(value))
            if np.isfinite(slope) and abs(slope - expected) > TOLERANCE * scale:
                raise StanadaptError(
                    "gradient_mismatch",
                    f"the gradient of {self.name} is not that of its values: along a direction at "
                    f"{np.array2string(point[:6], precision=4)}, it is {expected / STEP:.6g}, and "
                    f"differences of the log density give {slope / STEP:.6g}. Correct it.",
                )

    def _measure(self) -> float:
        density, point, gradient = self.density(), np.zeros(self.dim), np.empty(self.dim)
        value_and_gradient(density, point, gradient)
        began = time.perf_counter()
        for _ in range(CALLS):
            value_and_gradient(density, point, gradient)
        return (time.perf_counter() - began) / CALLS


class _Model:
    """What the package uses of a bridgestan.StanModel."""

    def __init__(self, names: list[str], evaluate: Callable, functions: tuple) -> None:
        self._names, self.evaluate, self.model, self.lib_path = names, evaluate, 0, ""
        value, gradient, *self._owners = functions
        self.stanlib = SimpleNamespace(bs_log_density=value, bs_log_density_gradient=gradient)

    def param_names(self, **blocks: bool) -> list[str]:
        return list(self._names)

    def param_unc_names(self) -> list[str]:
        return list(self._names)

    def param_unc_num(self) -> int:
        return len(self._names)

    def param_constrain(self, position: np.ndarray, **blocks: Any) -> np.ndarray:
        return np.array(position, dtype=float)

    def param_unconstrain_json(self, text: str) -> np.ndarray:
        values = json.loads(text)
        rows = [values[name.partition(".")[0]] for name in dict.fromkeys(self._names)]
        vector = any("." in name for name in self._names)
        return np.array(rows[0] if vector else rows, dtype=float)

    def log_density(self, position: np.ndarray, **flags: bool) -> float:
        return self.evaluate(np.ascontiguousarray(position, dtype=float))[0]

    def log_density_gradient(self, position: np.ndarray, **flags: bool) -> tuple[float, np.ndarray]:
        return self.evaluate(np.ascontiguousarray(position, dtype=float))

    def new_rng(self, seed: int) -> Any:
        return SimpleNamespace(ptr=0)


def _require_names(names: Any, dim: int) -> list[str]:
    found = require_names("names", names)
    wrong = [name for name in found if not name.isidentifier() or name.endswith("__")]
    if wrong or len(found) != dim or len(set(found)) != dim:
        raise StanadaptError(
            "wrong_density",
            f"names must be {dim} different names of single numbers, such as a or b_1, got "
            f"{names!r}. Without names, there is one vector x.",
        )
    return found


def _wrong(name: str, problem: str) -> StanadaptError:
    return StanadaptError(
        "wrong_density",
        f"{name} {problem}. It is given a vector of floats, and returns the log density, a number, "
        "and its gradient, a vector of the same length.",
    )


def _points(dim: int) -> np.ndarray:
    return np.random.default_rng(23).uniform(-RADIUS, RADIUS, (POINTS, dim))


def _called(function: Any, dim: int) -> Any:
    """Return the value of the function at the first of the points at which it does not raise."""
    name = getattr(function, "__name__", repr(function))
    if not callable(function):
        raise _wrong(name, "is no function")
    for number, point in enumerate(_points(dim), 1):
        try:
            return function(point)
        except Exception as error:
            if number == POINTS or not is_outside(error):
                raise _wrong(name, described(error)) from error
    return None


def _python(function: Any, gradient: Any, both: bool) -> Callable:
    """Return a function of a position: value and gradient.

    RuntimeError if the position is outside the support; Fault.
    """

    def evaluate(position: np.ndarray) -> tuple[float, np.ndarray]:
        try:
            given = position.copy()  # which the function may change
            found = function(given) if both else (function(given), gradient(position.copy()))
        except Exception as error:
            if is_outside(error):
                raise RuntimeError(f"raised {type(error).__name__}: {error}") from None
            raise Fault(described(error)) from None
        if not (isinstance(found, tuple | list) and len(found) == 2):
            raise Fault(f"returned {reprlib.repr(found)}, and not two values")
        number, vector = real_array(found[0]), real_array(found[1])
        if number.size != 1 or vector.shape != position.shape:
            raise Fault(
                f"returned values of shape {number.shape} and {vector.shape}, and not () and "
                f"{position.shape}"
            )
        if not (np.isfinite(number).all() and np.isfinite(vector).all()):
            raise RuntimeError(f"not finite: the function returned {number}, {vector}"[:200])
        return float(number.reshape(())), vector

    return evaluate


def _callbacks(evaluate: Callable, dim: int, report: Callable) -> tuple:
    """Return C functions that call Python, and report its errors."""

    def of_value(
        handle: Any, propto: int, jacobian: int, theta: Any, out: Any, message: Any
    ) -> int:
        try:
            out[0] = evaluate(np.ctypeslib.as_array(theta, (dim,)))[0]
        except RuntimeError as error:
            report(error)
            return 1
        return 0

    def of_gradient(
        handle: Any, propto: int, jacobian: int, theta: Any, out: Any, slope: Any, message: Any
    ) -> int:
        try:
            out[0], vector = evaluate(np.ctypeslib.as_array(theta, (dim,)))
        except RuntimeError as error:
            report(error)
            return 1
        np.ctypeslib.as_array(slope, (dim,))[:] = vector
        return 0

    return _VALUE(of_value), _GRADIENT(of_gradient)


def _compiled(function: Any, gradient: Any, dim: int) -> tuple:
    """Return C functions around functions of Numba."""
    if gradient is None:
        whole = numba.njit(lambda x: function(x))
    else:
        whole = numba.njit(lambda x: (function(x), gradient(x)))

    @numba.cfunc(VALUE_SIGNATURE)
    def of_value(handle, propto, jacobian, theta, out, message):
        try:
            out[0] = whole(numba.carray(theta, (dim,)))[0]
        except Exception:
            return 1
        return 0

    @numba.cfunc(GRADIENT_SIGNATURE)
    def of_gradient(handle, propto, jacobian, theta, out, slope, message):
        try:
            value, vector = whole(numba.carray(theta, (dim,)))
        except Exception:
            return 1
        if vector.size != dim:
            return 1
        out[0] = value
        for i in range(dim):
            slope[i] = vector[i]
        return 0

    return of_value.ctypes, of_gradient.ctypes, of_value, of_gradient


def _of_jax(function: Any, gradient: Any, both: bool) -> Callable:
    """Return value and gradient of a function in JAX, compiled, with double precision."""
    import jax

    if both:
        whole = jax.jit(function)
    elif gradient is None:
        whole = jax.jit(jax.value_and_grad(function))
    else:
        whole = jax.jit(lambda x: (function(x), gradient(x)))
    # until JAX 0.7, it was experimental
    place: Any = jax if hasattr(jax, "enable_x64") else import_module("jax.experimental")

    def evaluate(position: np.ndarray) -> tuple[Any, Any]:
        with place.enable_x64(True):
            value, slope = whole(position)
            return np.asarray(value), np.asarray(slope)

    return evaluate


def _as_program(function: Any, gradient: Any, dim: int, names: Sequence[str] | None) -> str:
    """Return a stand-in for the program in results: parameters, and a hash of the functions."""
    declared = f"vector[{dim}] x;" if names is None else " ".join(f"real {n};" for n in names)
    parts = []
    for one in (function, gradient):
        code = getattr(getattr(one, "py_func", one), "__code__", None)
        if code is None:
            parts.append(getattr(one, "__qualname__", type(one).__qualname__))
        else:
            constants = [x for x in code.co_consts if not hasattr(x, "co_code")]
            parts += [code.co_code.hex(), repr(code.co_names), repr(constants)]
    digest = sha256("\n".join(parts).encode()).hexdigest()[:16]
    return (
        f"{IN_PYTHON}, with the hash {digest}\nparameters {{ {declared} }}\n"
        'model { reject("the density is a Python function: make it again"); }\n'
    )
