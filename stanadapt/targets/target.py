"""A target: a Stan program bound to its data, reached through BridgeStan's interface.

Variables of a program that no draw keeps: they would fill memory and files.

The same program under data without observations: its posterior is the prior.

Checks that a fit belongs to a target: same program, same data.
"""

import re
import threading
import warnings
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Mapping, Sequence
from functools import cached_property, partial
from os import PathLike
from types import MappingProxyType
from typing import Any

import numpy as np
import stanio

from stanadapt import results
from stanadapt.engine.console import Report, status
from stanadapt.engine.density import Density, make_density
from stanadapt.errors import StanadaptError, require_flag, require_names
from stanadapt.results.labels import data_groups, make_labels, with_dimensions
from stanadapt.targets.constrainer import Constrainer, address_of
from stanadapt.targets.noise import given_names, noise_size, require_correlation
from stanadapt.targets.stan import backends
from stanadapt.targets.stan import data as stan_data
from stanadapt.targets.stan.declarations import parse
from stanadapt.targets.stan.program import Program, block, read, without_block


def variable_name(column: str) -> str:
    """Name of the variable that a column belongs to: "theta" for "theta.1.2"."""
    return re.split(r"[.:]", column, maxsplit=1)[0]


def excluded(
    given: str | Sequence[str], columns: Sequence[str], parameters: Collection[str]
) -> tuple[str, ...]:
    """Return the names of computed quantities that are to be left out, checked.

    Parameters are kept: warm starts, verdicts and comparisons need them.

    Raises
    ------
    StanadaptError
        Stage "settings", for a name that is none of a computed quantity.

    """
    names = require_names("exclude", given)
    computed = [n for n in dict.fromkeys(map(variable_name, columns)) if n not in parameters]
    for name in names:
        if name not in computed:
            what = "a parameter, and kept" if name in parameters else "not in the program"
            listed = ", ".join(computed) or "none"
            raise StanadaptError(
                "settings",
                f"exclude names {name!r}, which is {what}: it takes computed quantities, here "
                f"{listed}.",
            )
    return tuple(dict.fromkeys(names))


def require_same_parameters(target: Any, prior: Any) -> None:
    """Raise StanadaptError where other data change the sizes of parameters."""
    sizes = [
        {name: v.dimensions for name, v in t.parameters.items()} | {"": (t.dim,)}
        for t in (target, prior)
    ]
    if sizes[0] != sizes[1]:
        differing = [n for n in sizes[0] if sizes[0][n] != sizes[1].get(n) and n] or ["all"]
        raise StanadaptError(
            "settings",
            f"prior_data change the sizes of parameters of {target.name} "
            f"({', '.join(differing)}): keep the data on which the sizes depend, and remove "
            "observations only.",
        )


# characters of JSON: larger data are held once, whatever the number of chains is
SHARED_ABOVE = 200_000
# data that compiled Stan reads and stanli does not
RELAXED = {"allow_nonfinite": True, "allow_empty_int": True}
Data = Mapping[str, Any] | str | PathLike | None


class Samplable(ABC):
    """What `sample` draws from: a `Target`, or a distribution built from one.

    Positions are its own: unconstrained, shape (dim,).

    Attributes
    ----------
    name, dim
        Name of the program; number of unconstrained parameters.
    evaluations_per_call
        Evaluations of the target's density per call of this one.
    description
        Its entries in a result's attributes.

    """

    name: str
    dim: int
    evaluations_per_call = 1
    description: Mapping[str, Any] = MappingProxyType({})

    @property
    @abstractmethod
    def target(self) -> "Target":
        """The Stan program and its data, which define columns, names and initial values."""

    @abstractmethod
    def density(self, chain: int = 0) -> Density:
        """Make a density with its own counters, for one chain. This object must outlive it."""

    @abstractmethod
    def value(self, position: np.ndarray) -> float:
        """Log density as samplers without gradients see it; -inf where it fails."""

    @abstractmethod
    def evaluate(self, position: np.ndarray) -> tuple[float, np.ndarray, str]:
        """Log density, gradient and, where it fails, Stan's message."""

    @abstractmethod
    def constrainer(self, seed: int, chain: int = 0) -> Any:
        """Make a callable that turns draws of one chain into columns of the program."""

    @abstractmethod
    def initial_position(
        self, draw: Callable[[], np.ndarray], rng: np.random.Generator
    ) -> np.ndarray:
        """Return an initial position, made from `draw`, which draws positions of the target."""

    def dropped_constant(self, position: np.ndarray) -> float:
        """The constant that evaluations with a gradient drop from the log density."""
        return 0.0

    def original(self, positions: np.ndarray) -> np.ndarray:
        """Positions as they are saved and read, where samplers see others; shape (..., dim)."""
        return positions

    def split_positions(self, positions: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Split positions into pseudo-samples, of a target that consists of several."""
        raise NotImplementedError


class Target(Samplable):
    """A Stan program and its data, ready for sampling.

    Parameters
    ----------
    program
        Path of a .stan file, Stan code, or a `Program`.
    data
        Mapping with numbers, lists and numpy arrays; JSON text; or the path of a JSON file.
    include_paths
        Folders searched for `#include`, in order, before the program's own.
    backend
        "auto", or a name from `backends.BACKENDS`.
    unsafe
        Skip the embedded backend's checks of the program (not of the data): the density may
        then be silently wrong.
    noise
        Names of the parameters that are the noise of an estimated density: the program's last
        ones, standard normal there (see `estimated.py`). For samplers without gradients.
    rho
        Correlation of a proposal's noise with the current noise, in [0, 1).
    labels
        For ArviZ: `Labels`, a mapping with its fields dims, coords, posterior_predictive,
        log_likelihood, or a JSON file with them.
    dims, coords
        The same two fields by themselves, as ArviZ takes them; `dims` may be a JSON file.
    exclude
        Computed quantities (transformed parameters, generated quantities) that no draw keeps.

    Attributes
    ----------
    name, program, data
        The program's name; its `Program`; the data as JSON text, checked.
    model
        The bridgestan.StanModel that evaluates the density.
    backend, backend_reason, backend_version
        Name of the backend in use, why it was chosen, and its version.
    dim
        Number of unconstrained parameters, noise included.
    noise_size
        How many of them, the last, are noise.
    column_names
        Stan's names of the columns kept of a draw: parameters except the noise, transformed
        parameters, generated quantities, without those that are excluded.
    is_unconstrained
        Whether the program neither constrains nor transforms: draws are then only copied.

    Raises
    ------
    StanadaptError
        Stage "files", "syntax", "data", "initialization" or "installation".

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
        labels: Any = None,
        dims: Any = None,
        coords: Mapping[str, Any] | None = None,
        exclude: str | Sequence[str] = (),
        show_progress: bool = True,
    ) -> None:
        self.unsafe = require_flag("unsafe", unsafe)
        self.noise = given_names("noise", noise)
        self.rho = require_correlation(rho)
        self.program = program if isinstance(program, Program) else read(program, include_paths)
        self.name = self.program.name
        self._lock, self._without_quantities = threading.Lock(), None
        self._chain_models: list[Any] = []
        with status(show_progress) as report:
            loaded = self._load_first(backends.choose(backend), data, report)
        self.model, self.backend_version = loaded.model, loaded.version
        self.compile_seconds, self._native = loaded.seconds, loaded.native
        self._value_propto = 0 if self._native else 1
        self.dim = self.model.param_unc_num()
        self.parameters = stanio.parse_header(",".join(self.model.param_names()))
        names = self.model.param_names(include_tp=True, include_gq=True)
        self.noise_size = noise_size(self, self.noise) if self.noise else 0
        self.exclude = excluded(exclude, names, self.parameters)
        self.left_out = {*self.noise, *self.exclude}
        self.kept_columns = np.array([variable_name(name) not in self.left_out for name in names])
        self.column_names = [
            name for name, kept in zip(names, self.kept_columns, strict=True) if kept
        ]
        self.is_unconstrained = self._is_identity()
        shapes = results.shapes(self.column_names)
        named = with_dimensions(labels, dims, coords)
        self.labels = make_labels(named, shapes, self.data, self.parameters)
        for remark in loaded.remarks:
            warnings.warn(remark, stacklevel=2)

    def _load_first(self, choices: list, data: Data, report: Report) -> backends.Loaded:
        """Load with the first backend whose compiler accepts the program."""
        refusal: StanadaptError | None = None
        for backend, self.backend_reason in choices:
            self.backend, self._backend = backend.name, backend
            rules = RELAXED if backend.reads_nonfinite else {}
            self.data = stan_data.to_json(data, self.program, **rules)
            try:
                loaded = backend.load(self.program, self.data, self.unsafe, report)
            except StanadaptError as error:
                if error.stage != "syntax":
                    raise
                refusal = refusal or error
                continue
            if refusal is not None:
                first = refusal.stan.splitlines()[:1] or [refusal.message]
                self.backend_reason = f"a preferred one is too old for the program: {first[0]}"
            return loaded
        assert refusal is not None  # there is at least one backend to choose from
        raise refusal

    @property
    def data_hash(self) -> str:
        """The first 16 hexadecimal digits of the hash of the data."""
        return stan_data.digest(self.data)

    @property
    def recorded_parameters(self) -> list[str]:
        """Names of the parameters that a result is judged by: all but the noise."""
        return [name for name in self.parameters if name not in self.noise]

    @property
    def options(self) -> dict[str, Any]:
        """Arguments beside program and data with which an equal target is made."""
        names = ("backend", "unsafe", "noise", "rho", "labels", "exclude")
        return {name: getattr(self, name) for name in names}

    def __reduce__(self) -> tuple:
        """Pickle and copy what a target is made from: its model is an address."""
        return partial(Target, show_progress=False, **self.options), (self.program, self.data)

    def __repr__(self) -> str:
        return f"Target({self.name!r}, {self.dim} unconstrained parameters, {self.backend})"

    @property
    def target(self) -> "Target":
        """Itself."""
        return self

    @cached_property
    def data_groups(self) -> results.Groups:
        """The data as groups of a result; copied where they are used."""
        return data_groups(self.labels, self.data)

    def with_data(self, data: Data) -> "Target":
        """Return a target of the same program and backend with other data."""
        same = {"backend": self.backend, "unsafe": self.unsafe, "show_progress": False}
        other = Target(self.program, data, **same)
        there = results.shapes(other.column_names)  # others may be empty under these data
        exclude = [name for name in self.exclude if name in there]
        return Target(self.program, data, **same, exclude=exclude) if exclude else other

    def with_prior_data(self, data: Data) -> "Target":
        """Return `with_data`, a target that serves as the reference distribution of this one."""
        prior = self.with_data(data)
        require_same_parameters(self, prior)
        return prior

    def dropped_constant(self, position: np.ndarray) -> float:
        """Log density with all constants minus that without the ones `~` drops; stanli: 0."""
        return self.value(position) - self.evaluate(position)[0] if self._native else 0.0

    def initial_position(
        self, draw: Callable[[], np.ndarray], rng: np.random.Generator
    ) -> np.ndarray:
        """Return the position that `draw` returns."""
        return draw()

    def _is_identity(self) -> bool:
        """Whether draws are their own constrained values: no constraint, no other quantities.

        Every transform of Stan moves all but isolated points, so three random points decide.
        """
        if len(self.column_names) != self.dim or self.column_names != self.model.param_names():
            return False
        points = np.random.default_rng(18).normal(size=(3, self.dim))
        return all(np.array_equal(self.model.param_constrain(point), point) for point in points)

    def model_of(self, chain: int) -> Any:
        """Return the model that a chain evaluates; chain 0 uses the target's own.

        Concurrent calls of one stanli model briefly wait for each other, which matters if the
        density takes less than a microsecond. With stanli, every chain therefore gets its own
        model, unless the data, of which each model holds a copy, are large: then the density is
        slow anyway. Native models are shared by all chains.
        """
        if chain == 0 or self._native or len(self.data) > SHARED_ABOVE:
            return self.model
        with self._lock:
            while len(self._chain_models) < chain:
                self._chain_models.append(self._load_again(self.program))
            return self._chain_models[chain - 1]

    def _load_again(self, program: Program) -> Any:
        """Make another model of a program that has already passed the backend's checks."""
        return self._backend.load(program, self.data, True, lambda text: None).model

    def density(self, chain: int = 0) -> Density:
        """Make a density with its own counters, for one chain. The target must outlive it."""
        model = self.model_of(chain)
        library = model.stanlib
        return make_density(
            address_of(library.bs_log_density),
            address_of(library.bs_log_density_gradient),
            model.model,
            self.dim,
            self._value_propto,
            self.noise_size,
            self.rho,
        )

    def value(self, position: np.ndarray) -> float:
        """Log density as samplers without gradients use it; -inf where it throws."""
        try:
            return self.model.log_density(position, propto=bool(self._value_propto))
        except RuntimeError:
            return -np.inf

    def evaluate(self, position: np.ndarray) -> tuple[float, np.ndarray, str]:
        """Log density and gradient at one point, and Stan's message where the program throws."""
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
        """Position, shape (dim,), from constrained values of every parameter."""
        try:
            given = {**self.empty_parameters(), **values}
            return self.model.param_unconstrain_json(stanio.dump_stan_json(given))
        except (RuntimeError, TypeError, ValueError) as error:
            raise StanadaptError(
                "initialization",
                f"these values are not a position of {self.name}: they must match the declared "
                "shapes and constraints of its parameters.",
                str(error),
            ) from None

    def unconstrain_rows(self, rows: np.ndarray) -> np.ndarray:
        """Positions, shape (draw, dim), of rows whose first columns are all parameters.

        NaN where rounding has put a draw on a boundary.
        """
        if self.is_unconstrained:
            return rows
        count = len(self.model.param_names())
        positions = np.full((len(rows), self.dim), np.nan)
        for i, row in enumerate(np.ascontiguousarray(rows[:, :count])):
            try:
                positions[i] = self.model.param_unconstrain(row)
            except RuntimeError:
                continue  # stays NaN: callers count such rows and report them
        return positions

    def empty_parameters(self) -> dict[str, list]:
        """Parameters of size zero: BridgeStan does not list them, but Stan needs them in inits."""
        declared = parse(block(self.program.code, "parameters"))
        return {d.name: [] for d in declared if d.name not in self.parameters}

    def without_generated_quantities(self) -> Any:
        """Return a model without generated quantities, made at the first call.

        stanli always runs them, so where they throw, only a model that has none can constrain
        the parameters.
        """
        if self._native:
            return self.model
        with self._lock:
            if self._without_quantities is None:
                code = without_block(self.program.code, "generated quantities")
                self._without_quantities = self._load_again(self.program._replace(code=code))
            return self._without_quantities

    def constrainer(self, seed: int, chain: int = 0) -> Constrainer:
        """Make a callable that constrains the draws of one chain, generated quantities included."""
        return Constrainer(self, seed, chain)


def require_target(target: Any) -> Target:
    """Return target; StanadaptError unless it is a Target."""
    if isinstance(require_samplable(target), Target):
        return target
    raise StanadaptError(
        "settings",
        f"a Target is expected here, got {target!r}: give its attribute `target`, the Target "
        "from which it was made.",
    )


def require_samplable(target: Any) -> Samplable:
    """Return target; StanadaptError if `sample` cannot draw from it."""
    if not isinstance(target, Samplable):
        raise StanadaptError(
            "settings",
            f"the first argument must be a Target, Target(program, data), got {target!r}.",
        )
    return target


def check_same_target(target: Target, fit: Any) -> None:
    """Raise StanadaptError, stage "settings", unless a fit has the target's program and data."""
    if not results.is_fit(fit):
        raise StanadaptError(
            "settings", f"an earlier fit of {target.name} is expected, got {fit!r}."
        )
    ours = {"program_hash": target.program.hash, "data_hash": stan_data.digest(target.data)}
    for what, hashed in ours.items():
        theirs = results.attribute(fit, what, hashed)
        if theirs != hashed:
            raise StanadaptError(
                "settings",
                f"the fit must have the target's program and data, but its {what} is {theirs}, and "
                f"that of {target.name} is {hashed}. Give the target that was sampled.",
            )
