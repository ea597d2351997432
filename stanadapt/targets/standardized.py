"""A target in standardized coordinates z, with unconstrained position x = m + L z.

See `engine/standardized_density.py`. Only samplers see z: draws, messages and everything that is
saved refer to x. With a triangular map, y = m + L z are the coordinates of the map, and x is the
place of y; see `engine/straightened_density.py`.
"""

from collections.abc import Callable
from typing import Any

import numpy as np

from stanadapt.engine import metric_factor
from stanadapt.engine.compiled.jit import as_python
from stanadapt.engine.density import Density
from stanadapt.engine.standardized_density import original, standardized
from stanadapt.engine.straightened_density import places, residuals, slope_at, straightened
from stanadapt.engine.triangular_map import is_used, no_map, with_memory
from stanadapt.errors import StanadaptError
from stanadapt.targets.constrainer import TransformedDraws
from stanadapt.targets.target import Samplable, StandardCoordinates, Target


class Standardized(Samplable):
    """A target in shifted and scaled, and possibly rotated, coordinates.

    `base` is the distribution in its original coordinates. The location m has shape (k,); k is the
    dimension without the noise of an estimated density. The factor L is stored as in
    `metric_factor`: shape (1, k) diagonal, (k, k) lower triangular, (1 + r, k + 1) of low rank, or
    narrower, of a sparse precision matrix.
    `map_rows` and `map_block` are rows and block of a `TriangularMap`; None, or without an entry,
    for none. StanadaptError if location or factor is not finite or L has no inverse.
    """

    def __init__(
        self,
        base: Samplable,
        location: np.ndarray,
        factor: np.ndarray,
        map_rows: np.ndarray | None = None,
        map_block: np.ndarray | None = None,
    ) -> None:
        self._base, self.name, self.dim = base, base.name, base.dim
        self.location = np.ascontiguousarray(location, dtype=float)
        self.factor = np.ascontiguousarray(factor, dtype=float)
        self._map = no_map() if map_block is None else no_map(np.array(map_block, dtype=float))
        if map_rows is not None:
            self._map = self._map._replace(rows=np.ascontiguousarray(map_rows, dtype=float))
        self.is_straightened = bool(as_python(is_used)(self._map))
        used = (self._map.rows, self._map.block) if self.is_straightened else (None, None)
        self.standard_coordinates = StandardCoordinates(self.location, self.factor, *used)
        self.evaluations_per_call = base.evaluations_per_call
        self._calls: list[np.ndarray] = []
        size = len(self.location)
        if not (
            np.isfinite(self.location).all()
            and np.isfinite(self.factor).all()
            and np.all(metric_factor.diagonal(self.factor, size) > 0.0)
        ):
            raise StanadaptError(
                "unusable_scales",
                f"the location and scales of {self.name} must be finite, scales > 0.",
            )
        self.description = {**base.description, "standardized": self.kind}

    @property
    def base(self) -> Samplable:
        """The distribution in its original coordinates."""
        return self._base

    @property
    def kind(self) -> str:
        """Form of the factor, such as "diagonal", "dense, straightened", "low rank, rank 3"."""
        mapped = ", straightened" if self.is_straightened else ""
        if self.factor.shape[0] == 1:
            return f"diagonal{mapped}"
        if metric_factor.is_sparse(self.factor, len(self.location)):
            return f"sparse{mapped}"
        if self.factor.shape[1] == len(self.location):
            return f"dense{mapped}"
        return f"low rank, rank {len(self.factor) - 1}{mapped}"

    @property
    def coordinate_names(self) -> list[str]:
        """Names of the base's coordinates, if each has only another unit and origin here."""
        each_alone = len(self.factor) == 1 and not self.is_straightened
        return self.base.coordinate_names if each_alone else super().coordinate_names

    @property
    def log_volume(self) -> float:
        """Log of |det L|, to be added to the log of an integral over z for one over x.

        The density of z contains the Jacobian of a map.
        """
        return float(np.log(metric_factor.diagonal(self.factor, len(self.location))).sum())

    @property
    def has_pseudo_samples(self) -> bool:
        return self.base.has_pseudo_samples

    @property
    def target(self) -> Target:
        """The Stan program and its data."""
        return self.base.target

    def __repr__(self) -> str:
        return f"Standardized({self.base!r}, {self.kind})"

    def original(self, positions: np.ndarray) -> np.ndarray:
        """Transform positions z to positions x of the base; shape (..., dim) or (..., k)."""
        return self._places(positions)[0]

    def log_jacobians(self, positions: np.ndarray) -> np.ndarray | None:
        """Return the log Jacobian of the map at each z, shape (m, dim); None without a map."""
        return self._places(positions)[1] if self.is_straightened else None

    def _places(self, positions: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        y = self._mapped(positions)
        log_jacobians, x = np.zeros(len(y)), y
        if self.is_straightened:
            x = np.empty_like(y)
            places(with_memory(self._map, y.shape[1]), y, x, log_jacobians)
        return x.reshape(np.shape(positions)), log_jacobians

    def _mapped(self, positions: np.ndarray) -> np.ndarray:
        """Return rows of y = m + L z."""
        rows = np.ascontiguousarray(positions, dtype=float).reshape(-1, np.shape(positions)[-1])
        out = np.empty_like(rows)
        original(self.location, self.factor, rows, out)
        return out

    def standardized(self, positions: np.ndarray) -> np.ndarray:
        """Transform positions x of the base to positions z; both of shape (..., dim)."""
        z, size = np.array(positions, dtype=float, order="C"), len(self.location)
        if self.is_straightened:
            x = z.reshape(-1, z.shape[-1])
            z = np.empty_like(x)
            residuals(with_memory(self._map, x.shape[1]), x, z)
            z = z.reshape(np.shape(positions))
        centered = z[..., :size] - self.location
        rows = metric_factor.inverse_times_rows(self.factor, centered.reshape(-1, size))
        z[..., :size] = rows.reshape(centered.shape)
        return z

    def density(self, chain: int = 0) -> Density:
        """Make a density with separate memory, for one chain. This object must outlive it."""
        base = self.base.density(chain)
        self._calls.append(base.calls)  # owns the memory of a density that is made of others
        if self.is_straightened:
            base = straightened(base, self._map)
            self._calls.append(base.calls)
        return standardized(base, self.location, self.factor)

    def value(self, position: np.ndarray) -> float:
        """Return the log density at z as samplers without gradients see it; -inf if it fails."""
        x, log_jacobians = self._places(position)
        return self.base.value(x) + float(log_jacobians[0])

    @np.errstate(all="ignore")  # of a failed evaluation, whose gradient is NaN
    def evaluate(self, position: np.ndarray) -> tuple[float, np.ndarray, str]:
        """Return log density and gradient at z, and Stan's message if the evaluation fails."""
        x, log_jacobians = self._places(position)
        log_density, gradient, message = self.base.evaluate(x)
        slope, size = np.array(gradient, dtype=float), len(self.location)
        if self.is_straightened:
            slope_at(with_memory(self._map, len(slope)), self._mapped(position)[0], slope)
        slope[:size] = metric_factor.transposed_times_rows(self.factor, slope[None, :size])[0]
        return log_density + float(log_jacobians[0]), slope, message

    def constrainer(self, seed: int, chain: int = 0) -> "FromStandardized":
        """Make a callable that turns the draws z of one chain into columns of the program."""
        return FromStandardized(self, self.base.constrainer(seed, chain))

    def initial_position(
        self, draw: Callable[[], np.ndarray], rng: np.random.Generator
    ) -> np.ndarray:
        """Return the position z of an initial position of the base."""
        return self.standardized(self.base.initial_position(draw, rng))

    def dropped_constant(self, position: np.ndarray) -> float:
        """Return the constant that evaluations with a gradient drop from the log density."""
        return self.base.dropped_constant(self.original(position))

    def split_positions(self, positions: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Split positions z into pseudo-samples of the base."""
        return self.base.split_positions(self.original(positions))


class FromStandardized(TransformedDraws):
    """Turns draws z into columns of the program."""

    def __init__(self, target: Standardized, constrain: Any) -> None:
        super().__init__(constrain, target.original)
        self._target = target

    def log_jacobians(self, positions: np.ndarray) -> np.ndarray | None:
        """Return the log Jacobian of the map at each draw, which `lp` does not contain; or None."""
        return self._target.log_jacobians(positions)
