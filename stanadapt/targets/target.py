"""Targets: a Stan program with its data, and the interface of everything that `sample` draws from.

`Samplable` is that interface. `Target` implements it for a program that is bound to its data;
distributions built from a program implement it elsewhere. Computed quantities can be excluded from
the draws, since they may fill memory and files, and `with_data` binds the same program to other
data. `require_target` and its companions check arguments.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from functools import cached_property, partial
from os import PathLike
from types import MappingProxyType
from typing import Any, Literal, NamedTuple

import numpy as np

from stanadapt import results
from stanadapt.engine.density import Density, gradients_at_rows, make_density
from stanadapt.errors import (
    StanadaptError,
    answers_other_words,
    described,
    require_flag,
    require_names,
    warn,
)
from stanadapt.results import variable_name
from stanadapt.results.attributes import IN_PYTHON
from stanadapt.results.labels import (
    data_groups,
    labels_of_parameters,
    make_labels,
    merge_labels,
    stored_data,
)
from stanadapt.targets.bound_program import BoundProgram, Data
from stanadapt.targets.constrainer import Constrainer, address_of
from stanadapt.targets.coordinates import element_name
from stanadapt.targets.noise import noise_size, require_correlation
from stanadapt.targets.stan.backends.agreement import UNSOLVED
from stanadapt.targets.stan.backends.faster import REASON as FASTER
from stanadapt.targets.stan.given_data import file_of
from stanadapt.targets.stan.program import Program, read
from stanadapt.targets.stan.syntax import has_random_data


def require_computed(
    exclude: str | Sequence[str], columns: Sequence[str], parameters: Collection[str]
) -> tuple[str, ...]:
    """Return the names of the computed quantities to leave out.

    Parameters cannot be excluded: warm starts, verdicts and comparisons need them.
    """
    names = require_names("exclude", exclude)
    computed = [n for n in dict.fromkeys(map(variable_name, columns)) if n not in parameters]
    for name in names:
        if name not in computed:
            kind = "a parameter" if name in parameters else "not in the program"
            listed = ", ".join(computed) or "none"
            raise StanadaptError(
                "invalid_exclude",
                f"exclude: {name!r} is {kind}. Only transformed parameters and generated "
                f"quantities can be excluded; the program has {listed}.",
            )
    return tuple(dict.fromkeys(names))


def require_same_parameters(target: Any, prior: Any) -> None:
    """Raise StanadaptError if the prior data change the sizes of parameters."""
    sizes = [
        {name: v.dimensions for name, v in t.parameters.items()} | {"": (t.dim,)}
        for t in (target, prior)
    ]
    if sizes[0] != sizes[1]:
        differing = [n for n in sizes[0] if sizes[0][n] != sizes[1].get(n) and n] or ["all"]
        raise StanadaptError(
            "parameter_sizes",
            f"prior_data change the sizes of parameters of {target.name} "
            f"({', '.join(differing)}): keep the data on which the sizes depend, and remove "
            "observations only.",
        )


class StandardCoordinates(NamedTuple):
    """Coordinates z: positions are location + factor z, or the places of these in a map."""

    location: np.ndarray  # shape (k,), without the noise of an estimated density
    factor: np.ndarray  # stored as in `metric_factor`
    # rows and block of a `TriangularMap`; None without it
    map_rows: np.ndarray | None = None
    map_block: np.ndarray | None = None


class Samplable(ABC):
    """A distribution that `sample` can draw from: a `Target`, or one that is built from it.

    Positions are unconstrained, of shape (dim,), in the coordinates of the object.
    """

    name: str  # of the program
    dim: int  # number of unconstrained coordinates
    evaluations_per_call = 1  # of the target's density per call of this one
    description: Mapping[str, Any] = MappingProxyType({})  # entries in a result's attributes
    # whether positions begin with the unconstrained parameters of the program, so that scales and
    # draws of the program can be used
    moves_parameters: bool = False
    # whether the density is that of a batch of rows, which the sampler has to draw; see
    # `Sampler.samples_batches`
    in_batches: bool = False
    # its coordinates if they are standardized
    standard_coordinates: "StandardCoordinates | None" = None
    is_straightened: bool = False  # whether they are those of a map

    @property
    @abstractmethod
    def target(self) -> "Target":
        """The Stan program and its data, which define columns, names and initial values."""

    @abstractmethod
    def density(self, chain: int = 0) -> Density:
        """Make a density with separate counters for one chain. This object must outlive it."""

    @abstractmethod
    def value(self, position: np.ndarray) -> float:
        """Return the log density as samplers without gradients see it; -inf if it fails."""

    @abstractmethod
    def evaluate(self, position: np.ndarray) -> tuple[float, np.ndarray, str]:
        """Return log density and gradient, and Stan's message if the evaluation fails."""

    @abstractmethod
    def constrainer(self, seed: int, chain: int = 0) -> Any:
        """Make a callable that turns the draws of one chain into columns of the program."""

    def initial_position(
        self, draw: Callable[[], np.ndarray], rng: np.random.Generator
    ) -> np.ndarray:
        """Return an initial position, given a function that draws positions of the program."""
        return draw()

    @property
    def base(self) -> "Samplable":
        """The distribution in its original coordinates: itself, unless it is standardized."""
        return self

    @property
    def remake(self) -> "Callable[[Target], Samplable] | None":
        """Function that makes an equal object from an equal `target`, in another process too.

        None for a `Target`, and if a worker cannot make it.
        """
        return None

    @property
    def coordinate_names(self) -> list[str]:
        """Names of the dim coordinates that a sampler moves in."""
        return [f"coordinate {i + 1}" for i in range(self.dim)]

    @property
    def log_volume(self) -> float:
        """Log volume, in original coordinates, of a unit cube of the sampler's coordinates."""
        return 0.0

    @property
    def has_pseudo_samples(self) -> bool:
        """Whether a position consists of pseudo-samples, which `split_positions` returns."""
        return False

    def dropped_constant(self, position: np.ndarray) -> float:
        """Return the constant that evaluations with a gradient drop from the log density."""
        return 0.0

    def original(self, positions: np.ndarray) -> np.ndarray:
        """Transform positions, shape (..., dim), to the original coordinates, which are saved."""
        return positions

    def split_positions(self, positions: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Split positions into pseudo-samples, if `has_pseudo_samples`."""
        raise NotImplementedError

    def with_prior_data(self, data: Data) -> "Target":
        """Return the target under prior data, which a `Target` alone can do."""
        raise StanadaptError(
            "prior_data_misplaced",
            f"prior_data is not an argument for {self!r}. If its class has such an option, give "
            "it there.",
        )


class Target(BoundProgram, Samplable):
    """A Stan program and its data, ready for sampling.

    Parameters
    ----------
    program : str, path or Program
        Path of a .stan file, Stan code, or a `Program`.
    data : mapping, str or path, optional
        Mapping of names to numbers, lists and arrays; a pandas.DataFrame, whose columns become
        vectors (the number of rows is added if the program needs just that), or an xarray.Dataset;
        JSON text; or the path of a file in JSON, CSV or R's dump format, which may be compressed
        with gzip. `stan_data` numbers the groups in a table.
    include_paths : path or list of paths
        Folders searched for `#include`, in this order, before the program's folder.
    backend : str
        "auto", "bridgestan", "cmdstan" or "stanli".
    unsafe : bool
        Skip the embedded backend's checks of the program (not of the data), and the comparison of
        a compiled density with the embedded backend's. The density may then be silently wrong.
    noise : str or list of str
        Names of the parameters that are the noise of an estimated density. They must be the last
        parameters of the program, and have standard normal distributions (see `noise.py`). Only
        samplers without gradients accept such a target.
    rho : float
        Correlation of a proposal's noise with the current noise, in [0, 1).
    labels : Labels, mapping or path, optional
        Names for ArviZ: a `Labels`; a mapping with the keys dims, coords, posterior_predictive and
        log_likelihood; or a JSON file of such a mapping.
    dims, coords : mapping, optional
        These two fields of `labels`, given separately in ArviZ's format; `dims` may be a JSON file.
    exclude : str or list of str
        Transformed parameters and generated quantities that are not stored.
    show_progress : bool
        Show the steps of a compilation.

    Attributes
    ----------
    name, program, data
        Name of the program; its `Program`; the checked data as JSON text.
    model
        The bridgestan.StanModel that evaluates the density.
    backend, backend_reason, backend_version
        Name of the backend in use, the reason for its choice, and its version.
    density_check
        Outcome of a comparison of a compiled density with the embedded backend's.
    dim, noise_size
        Numbers of unconstrained parameters, including noise, and of noise ones, the last of them.
    column_names
        Stan's names of the columns stored for each draw: parameters except noise, transformed
        parameters and generated quantities except excluded ones.
    prior_file
        Path and hash of data of the group prior, which run folders record; None without.
    is_unconstrained
        Whether the columns are the unconstrained parameters themselves, so that draws are copied.

    Raises
    ------
    StanadaptError
        Stage "settings", "files", "syntax", "data", "initialization" or "installation".

    Examples
    --------
    >>> import stanadapt as sa
    >>> code = "data { real m; } parameters { real x; } model { x ~ normal(m, 2); }"
    >>> target = sa.Target(code, {"m": 1.0}, backend="stanli", show_progress=False)
    >>> target
    Target('program', 1 unconstrained parameters, stanli)
    >>> log_density, gradient, message = target.evaluate([3.0])
    >>> log_density, gradient.tolist()
    (-0.5, [-0.5])
    """

    moves_parameters = True
    prior_file: dict[str, str] | None = None

    @answers_other_words
    def __init__(
        self,
        program: str | PathLike | Program,
        data: Data = None,
        *,
        include_paths: Any = (),
        backend: Literal["auto", "bridgestan", "cmdstan", "stanli"] = "auto",
        unsafe: bool = False,
        noise: str | Sequence[str] = (),
        rho: float = 0.0,
        labels: Any = None,
        dims: Any = None,
        coords: Mapping[str, Any] | None = None,
        exclude: str | Sequence[str] = (),
        show_progress: bool = True,
    ) -> None:
        self.data_file = file_of(data)
        self.noise = tuple(require_names("noise", noise))
        self.rho = require_correlation(rho)
        named = merge_labels(labels, dims, coords)
        excluded = require_names("exclude", exclude)
        program = program if isinstance(program, Program) else read(program, include_paths)
        super().__init__(program, data, backend, require_flag("unsafe", unsafe), show_progress)
        for remark in self.remarks:  # first, since it may explain an error of a name
            warn(remark)
        self.noise_size = noise_size(self, self.noise) if self.noise else 0
        self._leave_out(excluded)
        shapes = results.shapes(self.column_names)
        self.labels = make_labels(named, shapes, self.checked.arrays, self.parameters)

    def _leave_out(self, exclude: Sequence[str]) -> None:
        """Choose the columns of draws."""
        # of a program that computes nothing, one empty name
        names = [name for name in self.model.param_names(include_tp=True, include_gq=True) if name]
        self.exclude = require_computed(exclude, names, self.parameters)
        self.left_out = {*self.noise, *self.exclude}
        self.kept_columns = np.array([variable_name(name) not in self.left_out for name in names])
        self.column_names = [
            name for name, kept in zip(names, self.kept_columns, strict=True) if kept
        ]
        self.is_unconstrained = self._is_identity()

    @cached_property
    def data_hash(self) -> str:
        """The first 16 hexadecimal digits of a hash of the numbers in the data."""
        return self.checked.digest(self.program.data_names)

    @classmethod
    def of_fit(cls, fit: Any, program: Any = None, data: Data = None, **options: Any) -> "Target":
        """Make the target of a fit from the program and the data that the fit has stored.

        `program` or `data` stand for the stored ones; `options` are those of `Target`.
        """
        if program is None:
            code = results.attribute(fit, "program")
            if code is None:
                raise StanadaptError(
                    "program_not_stored",
                    "the fit does not contain its program, since another package or an older "
                    "release wrote it. Give the program.",
                )
            if code.startswith(IN_PYTHON):
                raise StanadaptError(
                    "not_a_stan_program",
                    "the fit is one of a density in Python, which no fit contains. Make the "
                    "Density again, and give it as the target.",
                )
            program = Program(results.attribute(fit, "model", "program"), code, None, ())
        return cls(program, stored_data(fit) if data is None else data, **options)

    @property
    def recorded_parameters(self) -> list[str]:
        """Names of the parameters that a result is judged by: all but the noise."""
        return [name for name in self.parameters if name not in self.noise]

    @property
    def random_data(self) -> str:
        """Which code drew random transformed data, always alike; "" if they are not random."""
        return self.backend_version if has_random_data(self.program.code) else ""

    @property
    def options(self) -> dict[str, Any]:
        """Keyword arguments that, with program and data, make an equal target."""
        names = ("backend", "unsafe", "noise", "rho", "labels", "exclude")
        return {name: getattr(self, name) for name in names}

    def __reduce__(self) -> tuple:
        """Pickle and copy the arguments, because the model is an address in this process."""
        return partial(Target, show_progress=False, **self.options), (self.program, self.checked)

    def __repr__(self) -> str:
        return f"Target({self.name!r}, {self.dim} unconstrained parameters, {self.backend})"

    @property
    def target(self) -> "Target":
        """Itself."""
        return self

    @property
    def described(self) -> str:
        """What cannot be made again from program and data; "" if all can."""
        return ""

    def fault(self, positions: Iterable[np.ndarray]) -> str:
        """Describe the first fault of a function in Python; "" without any, as in a program."""
        return ""

    @property
    def coordinate_names(self) -> list[str]:
        """Names of the unconstrained parameters, including noise, such as "theta[1,2]"."""
        return [coordinate.name for coordinate in self.coordinates]

    @cached_property
    def data_groups(self) -> results.Groups:
        """The data as groups of a result. Callers copy them before they change them."""
        return data_groups(self.labels, self.checked.arrays)

    def with_data(self, data: Data) -> "Target":
        """Return a target with the same program and backend, and other data.

        If the embedded backend was taken because it is faster, or solves equations where compiled
        code does not, "auto" chooses again: it may refuse these data, or take long to read them.

        Names of dimensions are kept, and labels along those of parameters, if their number fits.
        """
        # the reason is kept by run folders and sent to workers
        chosen = self.backend_reason.startswith(FASTER) or UNSOLVED in self.backend_reason
        backend: Any = "auto" if chosen else self.backend
        unsafe = self.unsafe
        other = Target(self.program, data, backend=backend, unsafe=unsafe, show_progress=False)
        # under these data some excluded quantities may have no elements
        shapes = results.shapes(other.column_names)
        other._leave_out([name for name in self.exclude if name in shapes])
        shapes = results.shapes(other.column_names)
        other.labels = labels_of_parameters(
            self.labels, shapes, other.checked.arrays, self.parameters
        )
        return other

    def with_prior_data(self, data: Data) -> "Target":
        """Return the target under prior data, as the reference distribution of this one."""
        prior = self.with_data(data)
        require_same_parameters(self, prior)
        return prior

    def _is_identity(self) -> bool:
        """Return whether constrained and unconstrained draws are equal, column by column.

        Each of Stan's transforms moves all but isolated points, so three random points decide.
        """
        if len(self.column_names) != self.dim or self.column_names != self.model.param_names():
            return False
        points = np.random.default_rng(18).normal(size=(3, self.dim))
        try:
            return all(np.array_equal(self.model.param_constrain(point), point) for point in points)
        except RuntimeError:  # bounds that are other parameters may be in the wrong order there
            return False

    def density(self, chain: int = 0) -> Density:
        """Make a density with separate counters for one chain. The target must outlive it."""
        model = self.model_of(chain)
        library = model.stanlib
        value, gradient = library.bs_log_density, library.bs_log_density_gradient
        return make_density(
            address_of(value), address_of(gradient), model.model, self.dim, self._value_propto,
            self.noise_size, self.rho,
        )  # fmt: skip

    def evaluate_rows(self, positions: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return log densities, (row,), and gradients, (row, dim): -inf and NaN if it throws.

        So it is where a position is not finite.
        """
        values, gradients = np.full(len(positions), -np.inf), np.full(positions.shape, np.nan)
        usable = np.isfinite(positions).all(axis=1)
        found = np.empty(usable.sum()), np.empty(positions[usable].shape)
        gradients_at_rows(self.density(), positions[usable], *found)
        values[usable], gradients[usable] = found
        return values, gradients

    def constrainer(self, seed: int, chain: int = 0) -> Constrainer:
        """Make a callable that constrains draws of one chain and computes generated quantities."""
        return Constrainer(self, seed, chain)


def require_target(target: Any, empty: bool = False) -> Target:
    """Return target; StanadaptError unless it is a Target; see `require_samplable`."""
    if isinstance(require_samplable(target, empty), Target):
        return target
    raise StanadaptError(
        "not_a_target",
        f"a Target is expected here, got {described(target)}: give its attribute `target`, the "
        "Target from which it was made.",
    )


def require_samplable(target: Any, empty: bool = False) -> Samplable:
    """Return target; StanadaptError if `sample` cannot draw from it.

    It may be `empty`, without parameters, if the argument allows it.
    """
    if not isinstance(target, Samplable):
        raise StanadaptError(
            "not_a_target",
            f"a Target is expected, such as Target(program, data), got {described(target)}."
            + " A log density in Python is a Density(function, dim)." * callable(target)
            + " A function of both takes the fit first." * hasattr(target, "groups"),
        )
    if not target.dim and not empty:
        raise StanadaptError(
            "no_parameters",
            f"{target.name} has no parameters, so there is nothing to adapt, climb or compare. "
            "sample without a sampler returns independent draws of its generated quantities. If it "
            "should have parameters, check the data that set their sizes.",
        )
    return target


def parameter_draws(target: Target, fit: Any) -> np.ndarray:
    """Return the draws of all parameters in a fit, shape (chain, draw, column), in Stan's order.

    Raises StanadaptError if the fit lacks one, or if one has more elements than in the target.
    """
    columns = results.columns(fit, wanted=set(target.parameters))
    written = {name: name if name in columns else element_name(name) for name in target.names}
    for name in written.values():
        if name not in columns:
            raise StanadaptError(
                "missing_parameter",
                f"The fit must contain every parameter of {target.name}, but lacks {name}.",
            )
    if spare := sorted(columns.keys() - set(written.values())):
        raise StanadaptError(
            "parameter_sizes",
            f"The fit has more elements of a parameter than {target.name} under its data: "
            f"{spare[0]}. Keep the data on which the sizes of parameters depend.",
        )
    sizes = results.dataset(fit, "posterior").sizes
    none = np.empty((sizes["chain"], sizes["draw"], 0))  # of a program without parameters
    return np.concatenate([none, *(columns[name][..., None] for name in written.values())], axis=-1)


def require_exact_density(target: Target, code: str, why: str, cure: str) -> None:
    """Raise StanadaptError if the density is an estimate: after the reason, with the cure."""
    if target.noise:
        names = ", ".join(target.noise)
        text = f"{why}the density of {target.name} is an estimate with noise {names}: {cure}"
        raise StanadaptError(code, text)


def check_same_target(target: Target, fit: Any) -> None:
    """Raise StanadaptError, stage "settings", unless a fit has the target's program and data."""
    if not results.is_fit(fit):
        raise StanadaptError(
            "fit_of_another_target", f"an earlier fit of {target.name} is expected, got {fit!r}."
        )
    ours = {"program_hash": target.program.hash, "data_hash": target.data_hash}
    for name, expected in ours.items():
        actual = results.attribute(fit, name, expected)
        if actual != expected:
            raise StanadaptError(
                "fit_of_another_target",
                f"the fit and {target.name} differ in their program or data: {name} is {actual} in "
                f"the fit and {expected} in the target. Give the target that was sampled.",
            )
