"""A target: a Stan program bound to its data, reached through BridgeStan's interface."""

import ctypes
import re
import threading
import warnings
from collections.abc import Callable, Mapping, Sequence
from os import PathLike
from types import MappingProxyType
from typing import Any

import numpy as np
import stanio

from stanadapt import backends
from stanadapt import data as stan_data
from stanadapt.declarations import parse
from stanadapt.density import Density, constrain, make_density
from stanadapt.errors import StanadaptError
from stanadapt.noise import correlation, noise_size
from stanadapt.program import Program, block, read, without
from stanadapt.status import Tell, status

# characters of JSON: larger data are held once, whatever the number of chains
SHARED_ABOVE = 200_000
# what compiled Stan reads and stanli does not
RELAXED = {"allow_nonfinite": True, "allow_empty_int": True}
Data = Mapping[str, Any] | str | PathLike | None


def variable_of(name: str) -> str:
    """Name of the variable that a column belongs to."""
    return re.split(r"[.:]", name, maxsplit=1)[0]


def _address(function: Any) -> int:
    return ctypes.cast(function, ctypes.c_void_p).value or 0


class Samplable:
    """What `sample` draws from: a `Target`, or what was made of one.

    It has `name`, `dim`, `density(chain)`, `evaluate(position)` and `constrainer(seed, chain)`,
    all about positions of its own, and what follows.

    Attributes
    ----------
    target
        The Stan program and its data: columns, names and inits are its own.
    evaluations_per_call
        Of the target's density, at each call of this one.
    description
        What a result's attributes tell of it.

    """

    target: "Target"
    evaluations_per_call = 1
    description: Mapping[str, Any] = MappingProxyType({})

    def constant(self, position: np.ndarray) -> float:
        """What a value of the density with all its constants is above one with a gradient."""
        return 0.0

    def started(self, draw: Callable[[], np.ndarray], rng: np.random.Generator) -> np.ndarray:
        """Return a starting position, from `draw`, which draws positions of the target."""
        raise NotImplementedError


class Target(Samplable):
    """A Stan program and its data, ready to be sampled.

    Parameters
    ----------
    program
        Path of a .stan file, Stan code, or a `Program`.
    data
        Mapping with numbers, lists and numpy arrays; JSON text; or the path of a JSON file.
    include_paths
        Folders searched for `#include`, in order, before the program's own.
    backend
        "auto", or a name out of `backends.BACKENDS`.
    unsafe
        Skip the embedded backend's checks of the program (not of the data): the density may
        then be silently wrong.
    noise
        Names of the parameters that are the noise of an estimated density, the last ones of the
        program and standard normal in it: see `noise.py`. For samplers without gradients.
    rho
        Correlation of a proposal's noise with the current one, in [0, 1).

    Attributes
    ----------
    name, program, data
        The program's name; its `Program`; the data as JSON text, checked.
    model
        The bridgestan.StanModel behind it.
    backend, backend_reason, backend_version
        Which way to the density was taken, why, and its version.
    dim
        Number of unconstrained parameters, noise included.
    noise_size
        How many of them, the last, are noise.
    column_names
        Stan's names of what is kept of a draw: parameters but for the noise, transformed
        parameters, generated quantities.
    unconstrained
        Whether the program neither constrains nor transforms: draws are then only copied.

    Raises
    ------
    StanadaptError
        Of stage "files", "syntax", "data", "initialisation" or "installation".

    """

    def __init__(
        self,
        program: str | PathLike | Program,
        data: Data = None,
        *,
        include_paths: Any = (),
        backend: str = "auto",
        unsafe: bool = False,
        noise: str | Sequence[str] = (),
        rho: float = 0.0,
        show_progress: bool = True,
    ) -> None:
        self._unsafe = unsafe
        self.noise = (noise,) if isinstance(noise, str) else tuple(noise)
        self.rho = correlation(rho)
        self.program = program if isinstance(program, Program) else read(program, include_paths)
        self.name = self.program.name
        self._lock, self._plain, self._copies = threading.Lock(), None, []
        with status(show_progress) as tell:
            loaded = self._load_first(backends.choose(backend), data, unsafe, tell)
        self.model, self.backend_version = loaded.model, loaded.version
        self.compile_seconds, self._native = loaded.seconds, loaded.native
        self.dim = self.model.param_unc_num()
        self.parameters = stanio.parse_header(",".join(self.model.param_names()))
        names = self.model.param_names(include_tp=True, include_gq=True)
        self.noise_size = noise_size(self, self.noise) if self.noise else 0
        self.kept = np.array([variable_of(name) not in self.noise for name in names])
        self.column_names = [name for name, kept in zip(names, self.kept, strict=True) if kept]
        self.unconstrained = self._changes_nothing()
        for remark in loaded.remarks:
            warnings.warn(remark, stacklevel=2)

    def _load_first(self, choices: list, data: Data, unsafe: bool, tell: Tell) -> backends.Loaded:
        """Load by the first backend whose compiler knows the language of the program."""
        refusal = None
        for backend, self.backend_reason in choices:
            self.backend, self._backend = backend.name, backend
            rules = RELAXED if backend.reads_nonfinite else {}
            self.data = stan_data.to_json(data, self.program, **rules)
            try:
                loaded = backend.load(self.program, self.data, unsafe, tell)
            except StanadaptError as error:
                if error.stage != "syntax":
                    raise
                refusal = refusal or error
                continue
            if refusal is not None:
                said = refusal.stan.splitlines()[:1] or [refusal.message]
                self.backend_reason = f"a preferred one is too old for the program: {said[0]}"
            return loaded
        raise refusal

    def __repr__(self) -> str:
        return f"Target({self.name!r}, {self.dim} unconstrained parameters, {self.backend})"

    @property
    def target(self) -> "Target":
        """Itself."""
        return self

    def with_data(self, data: Data) -> "Target":
        """Return a target of the same program, by the same backend, with other data."""
        return Target(
            self.program, data, backend=self.backend, unsafe=self._unsafe, show_progress=False
        )  # fmt: skip

    def with_prior_data(self, data: Data) -> "Target":
        """Return `with_data`, whose density is to be a reference for this one's."""
        prior = self.with_data(data)
        sizes = [
            {name: v.dimensions for name, v in t.parameters.items()} | {"": (t.dim,)}
            for t in (self, prior)
        ]
        if sizes[0] != sizes[1]:
            differing = [n for n in sizes[0] if sizes[0][n] != sizes[1].get(n) and n] or ["all"]
            raise StanadaptError(
                "settings",
                f"prior_data change the sizes of parameters of {self.name} "
                f"({', '.join(differing)}): keep the data that these depend on, and take away "
                "observations only.",
            )
        return prior

    def constant(self, position: np.ndarray) -> float:
        """Log density with all constants less that without those that `~` drops; stanli: 0."""
        return self.value(position) - self.evaluate(position)[0] if self._native else 0.0

    def started(self, draw: Callable[[], np.ndarray], rng: np.random.Generator) -> np.ndarray:
        """Return what draw returns."""
        return draw()

    def _changes_nothing(self) -> bool:
        """Whether draws are their own constrained values: no constraint, no other quantities.

        Every transform of Stan moves all but single points, so three random ones decide.
        """
        if len(self.column_names) != self.dim or self.column_names != self.model.param_names():
            return False
        points = np.random.default_rng(18).normal(size=(3, self.dim))
        return all(np.array_equal(self.model.param_constrain(point), point) for point in points)

    def model_of(self, chain: int) -> Any:
        """Return the model that a chain evaluates: chain 0 has the target's own.

        Calls of one stanli model from several threads wait for each other for a moment, which
        shows where the density itself takes less than a microsecond. There every chain gets a
        model of its own, unless the data, which each holds again, are large: the density is slow
        then. Native models are shared by all.
        """
        if chain == 0 or self._native or len(self.data) > SHARED_ABOVE:
            return self.model
        with self._lock:
            while len(self._copies) < chain:
                self._copies.append(self._load_again(self.program))
            return self._copies[chain - 1]

    def _load_again(self, program: Program) -> Any:
        """Another model of what the rails have admitted already."""
        return self._backend.load(program, self.data, True, lambda text: None).model

    def density(self, chain: int = 0) -> Density:
        """Make a density with its own counters, for one chain. The target must outlive it."""
        model = self.model_of(chain)
        library = model.stanlib
        return make_density(
            _address(library.bs_log_density),
            _address(library.bs_log_density_gradient),
            model.model,
            self.dim,
            self._value_propto,
            self.noise_size,
            self.rho,
        )

    @property
    def _value_propto(self) -> int:
        return 0 if self._native else 1

    def value(self, position: np.ndarray) -> float:
        """Log density as samplers without gradients see it; -inf where it throws."""
        try:
            return self.model.log_density(position, propto=bool(self._value_propto))
        except RuntimeError:
            return -np.inf

    def evaluate(self, position: np.ndarray) -> tuple[float, np.ndarray, str]:
        """Log density, gradient and, where it throws, Stan's words; from Python, for one point."""
        try:
            value, gradient = self.model.log_density_gradient(np.ascontiguousarray(position))
        except RuntimeError as error:
            return -np.inf, np.full(self.dim, np.nan), str(error)
        return value, gradient, ""

    def constrain(self, position: np.ndarray) -> dict[str, np.ndarray]:
        """Parameters on the constrained scale, in Stan's shapes, by name."""
        flat = self.model.param_constrain(np.ascontiguousarray(position, dtype=float))
        return stanio.stan_variables(self.parameters, flat)

    def unconstrain(self, values: Mapping[str, Any]) -> np.ndarray:
        """Position, shape (dim,), of constrained values given for every parameter."""
        try:
            given = {**self.missing_parameters(), **values}
            return self.model.param_unconstrain_json(stanio.dump_stan_json(given))
        except (RuntimeError, TypeError, ValueError) as error:
            raise StanadaptError(
                "initialisation",
                f"these values are no position of {self.name}: they must fit the declared shapes "
                "and constraints of its parameters.",
                str(error),
            ) from None

    def missing_parameters(self) -> dict[str, list]:
        """Parameters of size zero, which BridgeStan does not name but Stan wants in inits."""
        declared = parse(block(self.program.code, "parameters"))
        return {d.name: [] for d in declared if d.name not in self.parameters}

    def without_quantities(self) -> Any:
        """Return a model that runs no generated quantities, made at the first call.

        stanli runs them whatever it is asked for, so that where they throw, parameters can be
        constrained by a model only that has none.
        """
        if self._native:
            return self.model
        with self._lock:
            if self._plain is None:
                code = without(self.program.code, "generated quantities")
                self._plain = self._load_again(self.program._replace(code=code))
            return self._plain

    def constrainer(self, seed: int, chain: int = 0) -> "Constrainer":
        """Make a callable that constrains draws of one chain, generated quantities included."""
        return Constrainer(self, seed, chain)


def checked(target: Any) -> Target:
    """Return target; StanadaptError if it is none."""
    if isinstance(samplable(target), Target):
        return target
    raise StanadaptError(
        "settings",
        f"this takes the Stan program itself, not {target!r}: give its attribute `target`, the "
        "Target that it was made of.",
    )


def samplable(target: Any) -> Samplable:
    """Return target; StanadaptError if `sample` cannot draw from it."""
    if not isinstance(target, Samplable):
        raise StanadaptError(
            "settings",
            f"the first argument must be a Target, Target(program, data), got {target!r}.",
        )
    return target


class Constrainer:
    """Constrains draws row by row in compiled code, with a random generator of its own.

    Parameters
    ----------
    target
        Kept alive for as long as this is.
    seed
        Of Stan's generator, at most 2**32 - 1, for generated quantities.
    chain
        Which of the target's models it uses.

    """

    def __init__(self, target: Target, seed: int, chain: int) -> None:
        self.target, self._model = target, target.model_of(chain)
        self._rng = self._model.new_rng(seed)
        self._address = _address(self._model.stanlib.bs_param_constrain)
        self.failed_position = np.full(target.dim, np.nan)

    def __call__(self, positions: np.ndarray, out: np.ndarray) -> int:
        """Fill out (draw, column); return how many rows' generated quantities threw: NaN."""
        if self.target.unconstrained:
            out[:] = positions
            return 0
        kept = self.target.kept
        whole = out if kept.all() else np.empty((len(positions), kept.size))
        failures = constrain(
            self._address, self._model.model, self._rng.ptr, positions, whole,
            self.failed_position,
        )  # fmt: skip
        if failures:
            self._recover(positions, whole)
        if whole is not out:
            out[:] = whole[:, kept]
        return failures

    def _recover(self, positions: np.ndarray, out: np.ndarray) -> None:
        """Fill in what does not depend on generated quantities where these threw."""
        plain = self.target.without_quantities()
        for i in np.flatnonzero(np.isnan(out).all(axis=1)):
            kept = plain.param_constrain(positions[i], include_tp=True)
            out[i, : kept.size] = kept

    def explain(self) -> str:
        """Stan's words for the last row that threw."""
        try:
            self._model.param_constrain(
                self.failed_position, include_tp=True, include_gq=True, rng=self._rng
            )
        except RuntimeError as error:
            return str(error)
        return ""
