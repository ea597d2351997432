"""A Stan program bound to its data: the models of a backend, and positions of its parameters."""

import contextlib
import threading
from collections.abc import Mapping
from functools import cached_property
from os import PathLike
from typing import Any

import numpy as np
import stanio

from stanadapt.engine.console import silent, status
from stanadapt.engine.density import unconstrain
from stanadapt.engine.plan import usable_cores
from stanadapt.errors import StanadaptError
from stanadapt.targets.constrainer import AFTER_PARAMETERS, address_of
from stanadapt.targets.coordinates import Coordinate, coordinates, element_name
from stanadapt.targets.projection import Violation, project, shapes_of, wrong_shape
from stanadapt.targets.stan import backends
from stanadapt.targets.stan.checked_data import CheckedData
from stanadapt.targets.stan.declarations import Declaration
from stanadapt.targets.stan.program import Program
from stanadapt.targets.stan.syntax import without_blocks

# characters of JSON; all chains share one copy of larger data
SHARED_ABOVE = 200_000
# seconds for which the embedded backend binds a program; then its unrolled loops are as large
LONG = 3.0
Data = Mapping[str, Any] | str | PathLike | CheckedData | None


class BoundProgram:
    """A program and its data, as a backend evaluates them.

    Its attributes, and the arguments, are those of `Target`.
    """

    is_unconstrained = False

    def __init__(
        self, program: Program, data: Data, backend: str, unsafe: bool, show_progress: bool
    ) -> None:
        self.program, self.name, self.unsafe = program, program.name, unsafe
        self._lock = threading.Lock()
        self._reduced: dict[tuple[str, ...], Any] = {}  # models without some blocks
        self._chain_models: list[Any] = []
        with status(show_progress) as report:
            first = backends.load_first(backends.choose(backend), program, data, unsafe, report)
            loaded, self._backend, self.checked = first.loaded, first.backend, first.data
            self.backend, self.backend_reason = first.backend.name, first.reason
            self._binding_seconds, self._native = first.seconds, first.backend.native
        self.model, self.backend_version = loaded.model, loaded.version
        self._inverse = loaded.inverse or loaded.model
        self.compile_seconds, self.density_check = loaded.seconds, loaded.density_check
        self.remarks, self._loaded = loaded.remarks, loaded.program or program
        self._value_propto = 0 if self._native else 1
        self.dim = self.model.param_unc_num()
        self.names = self.model.param_names() if self.dim else []
        self.parameters = stanio.parse_header(",".join(self.names)) if self.names else {}

    @property
    def data(self) -> str:
        """The checked data as JSON text, which is written at each call if it is large."""
        return self.checked.text

    @property
    def is_native(self) -> bool:
        """Whether the density is compiled code, which can leave out blocks and Jacobians."""
        return self._native

    def model_of(self, chain: int) -> Any:
        """Return the model that a chain evaluates: for chain 0, the attribute `model`.

        Concurrent calls of one stanli model briefly wait for each other, which matters if the
        density takes less than a microsecond. With stanli, there are therefore as many models as
        chains that can run at the same time, one per core. Each has a copy of the data and of the
        unrolled loops; if these are large, the density is slow anyway and chains share one model.
        Native models are always shared.
        """
        large = self.checked.size > SHARED_ABOVE or self._binding_seconds > LONG
        which = 0 if self._native or large else chain % usable_cores()
        if which == 0:
            return self.model
        with self._lock:
            while len(self._chain_models) < which:
                self._chain_models.append(self._load_again(self._loaded))
            return self._chain_models[which - 1]

    def _load_again(self, program: Program) -> Any:
        """Load a program that has already passed the backend's checks a second time."""
        return self._backend.load(program, self.checked, True, silent).model

    def dropped_constant(self, position: np.ndarray) -> float:
        """Return the constants that `~` drops from the log density; zero for stanli."""
        return self.value(position) - self.evaluate(position)[0] if self._native else 0.0

    def value(self, position: np.ndarray) -> float:
        """Return the log density as samplers without gradients see it; -inf if it throws."""
        try:
            return self.model.log_density(position, propto=bool(self._value_propto))
        except RuntimeError:
            return -np.inf

    def evaluate(self, position: np.ndarray) -> tuple[float, np.ndarray, str]:
        """Return log density and gradient at a position, and Stan's message if it throws."""
        try:
            value, gradient = self.model.log_density_gradient(np.ascontiguousarray(position))
        except RuntimeError as error:
            return -np.inf, np.full(self.dim, np.nan), str(error)
        return value, gradient, ""

    def constrain(self, position: np.ndarray) -> dict[str, np.ndarray]:
        """Return the parameters on the constrained scale by name, in Stan's shapes."""
        return stanio.stan_variables(self.parameters, self._constrained(position))

    def elements(self, position: np.ndarray) -> dict[str, float]:
        """Return the parameters on the constrained scale by the names of their elements."""
        names = map(element_name, self.model.param_names())
        return dict(zip(names, self._constrained(position).tolist(), strict=True))

    def _constrained(self, position: np.ndarray) -> np.ndarray:
        position = np.ascontiguousarray(position, dtype=float)
        try:
            return self.model.param_constrain(position)
        except RuntimeError:  # later blocks threw: the backend stanli runs them too
            return self.without(*AFTER_PARAMETERS).param_constrain(position)

    @cached_property
    def coordinates(self) -> list[Coordinate]:
        """Name, variable and index of each unconstrained coordinate, checked by moving them."""
        names, columns = self.model.param_unc_names(), self.model.param_names()
        ranks = {d.name: len(d.array_sizes) for d in self.declared_parameters}
        return coordinates(names, columns, self._constrained, ranks)

    def unconstrain(self, values: Mapping[str, Any]) -> np.ndarray:
        """Return the position, shape (dim,), of constrained values of all parameters.

        Values that rounding has moved off a constraint are moved back onto it; see `projection`.
        """
        complete = {**self.empty_parameters(), **values}
        if wrong := wrong_shape(self.parameters, shapes_of(values)):
            raise self._invalid_position(wrong)
        try:
            return self._position(complete)
        except (RuntimeError, TypeError, ValueError) as error:
            refused, reason = str(error), "they must match the declared shapes and constraints"
        try:
            return self._position(project(self.declared_parameters, complete))
        except Violation as error:
            reason = str(error)
        except (RuntimeError, TypeError, ValueError):
            pass
        raise self._invalid_position(reason, refused)

    def _invalid_position(self, reason: str, stan: str = "") -> StanadaptError:
        text = f"these values are not a position of {self.name}: {reason}."
        return StanadaptError("invalid_position", text, stan)

    def _position(self, values: Mapping[str, Any]) -> np.ndarray:
        return self.model.param_unconstrain_json(stanio.dump_stan_json(values))

    def unconstrain_rows(self, rows: np.ndarray) -> np.ndarray:
        """Return positions, shape (draw, dim), of rows that begin with all parameters.

        Rows that rounding has moved off a constraint are moved back onto it. A draw that rounding
        has put on a boundary becomes NaN.
        """
        if self.is_unconstrained:
            return rows
        rows = np.ascontiguousarray(rows[:, : len(self.model.param_names())], dtype=float)
        positions = np.empty((len(rows), self.dim))
        address = address_of(self._inverse.stanlib.bs_param_unconstrain)
        unconstrain(address, self._inverse.model, rows, positions)
        for i in np.flatnonzero(np.isnan(positions).any(axis=1)):
            with contextlib.suppress(StanadaptError):  # callers count and report rows of NaN
                positions[i] = self.unconstrain(stanio.stan_variables(self.parameters, rows[i]))
        return positions

    def empty_parameters(self) -> dict[str, list]:
        """Return parameters of size zero, which BridgeStan omits but Stan requires in inits."""
        return {d.name: [] for d in self.declared_parameters if d.name not in self.parameters}

    @cached_property
    def declared_parameters(self) -> list[Declaration]:
        """The declarations of the block `parameters`."""
        return self.program.declared("parameters")

    def without(self, *blocks: str) -> Any:
        """Return a model without these blocks, made at the first call, or one that can omit them.

        stanli always runs all. If they throw, only this model can constrain the parameters.
        """
        if self._native:
            return self.model
        with self._lock:
            if blocks not in self._reduced:
                code = without_blocks(self._loaded.code, blocks)
                self._reduced[blocks] = self._load_again(self.program._replace(code=code))
            return self._reduced[blocks]
