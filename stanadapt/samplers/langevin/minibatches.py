"""Mini-batches: a target with a log density that is estimated from batches of the data's rows.

`minibatch_density` has the estimate. The program stays unchanged and is bound to the rows of each
batch; `read_rows` finds out which data are rows. Draws, columns and initial values are those of the
program with all rows.
"""

import re
from collections.abc import Sequence
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import scipy

from stanadapt.engine.density import Density
from stanadapt.engine.one_blas_thread import one_blas_thread
from stanadapt.errors import StanadaptError, require_flag, require_names, require_whole
from stanadapt.samplers.langevin.minibatch_density import BatchTerms, minibatch_density
from stanadapt.targets.constrainer import TransformedDraws
from stanadapt.targets.stan.declarations import Declaration
from stanadapt.targets.target import Samplable, Target, require_exact_density, require_target

# --- rows of the data -----------------------------------------------------------------------------


class Rows(NamedTuple):
    """Data that have one row for each observation."""

    data: dict[str, Any]  # all data of the program, by name
    names: tuple[str, ...]  # names of the variables with rows
    sizes: tuple[str, ...]  # names of the whole numbers that give their length
    length: int  # number of rows

    def select(self, indices: np.ndarray) -> dict[str, Any]:
        """Return the data with the rows of these indices, from 0 on, and their number as length."""
        part = {name: np.asarray(self.data[name])[indices] for name in self.names}
        return {**self.data, **part, **dict.fromkeys(self.sizes, len(indices))}


def read_rows(target: Target, names: Sequence[str]) -> Rows:
    """Find the rows of a target's data.

    StanadaptError, stage "settings", unless the named variables are data of the same length,
    declared by a variable that no other data depend on.
    """
    declared = {d.name: d for d in target.program.declared("data")}
    data = target.checked.values
    if not names:
        raise _wrong_rows("name at least one variable with a row for each observation.")
    lengths, sizes = {}, {}
    for name in names:
        sizes[name] = _size(target, name, declared)
        lengths[name] = len(data[name])
    if len(set(lengths.values())) > 1:
        listed = ", ".join(f"{name} has {length}" for name, length in lengths.items())
        raise _wrong_rows(f"all must have a row for each observation, but {listed}.")
    _require_own_size(declared, names, set(sizes.values()))
    return Rows(data, tuple(names), tuple(sorted(set(sizes.values()))), lengths[names[0]])


def _size(target: Target, name: str, declared: dict[str, Declaration]) -> str:
    """Return the name of the variable that declares the length of another."""
    if name not in declared:
        raise _wrong_rows(
            f"{target.name} has no data {name}; its data block declares "
            f"{', '.join(declared) or 'nothing'}."
        )
    dims = declared[name].dims
    if not dims:
        raise _wrong_rows(f"{name} is a single number: it has no row for each observation.")
    size = dims[0].source.strip()
    if size not in declared:
        raise _wrong_rows(
            f"the length of {name} is declared as {size}: it must be a variable of the data block, "
            "such as N, so that a batch can be shorter."
        )
    return size


def _require_own_size(
    declared: dict[str, Declaration], names: Sequence[str], sizes: set[str]
) -> None:
    """Raise StanadaptError if other data than the rows depend on their length."""
    for name, variable in declared.items():
        dims = variable.dims[1:] if name in names else variable.dims
        limits = [limit for limit in (variable.lower, variable.upper) if limit is not None]
        for size in sizes:
            roles = {"size": dims, "bound": limits}
            used = [
                role for role, parts in roles.items() if any(_uses(p.source, size) for p in parts)
            ]
            if used:
                raise _wrong_rows(
                    f"{size}, the length of {', '.join(names)}, is also a {used[0]} of {name}. If "
                    f"{name} has a row for each observation, name it too. Otherwise declare "
                    f"another {used[0]} for it in the program."
                )


def _uses(source: str, name: str) -> bool:
    return re.search(rf"(?<![\w.]){name}(?!\w)", source) is not None


def _wrong_rows(message: str) -> StanadaptError:
    return StanadaptError("invalid_rows", f"rows: {message}")


# --- the target -----------------------------------------------------------------------------------

RADIUS = 2.0  # range of random points in the unconstrained space, as for Stan's initial values
POINTS, TRIES = 2, 100
# difference that rounding may leave, over the sum of the sizes of a coordinate's terms
AGREEMENT = 1e-6
# the largest number of rows that a program may require, plus one
FEWEST_ROWS = 4
CURE = (
    "if the program computes something from all rows, such as standardized predictors, pass the "
    "result as data. The rows of a time series are never independent."
)


class Minibatches(Samplable):
    """A program with its data split into batches of rows that are independent given the parameters.

    For `sgld`, which evaluates one batch per move, and the program without rows. If there are many
    rows, this is a small fraction of the cost of all rows; if there are few, the overhead of calls
    dominates.

    Parameters
    ----------
    target : Target
        A Stan program with all of its data.
    rows : str or list of str
        Names of the data variables that have one row (or element) for each observation. The
        variable that declares their length, such as N, is set to the size of a batch.
    batches : int
        Number of batches, of nearly equal size, into which rows are split at random; at least 1.
    control_variates : bool
        Also evaluate all batches at the mode of the density, and subtract the deviation of a batch
        there. This reduces the noise a lot if the posterior is narrow compared with the prior.
    seed : int
        Random seed of the split.

    Raises
    ------
    StanadaptError
        Stage "settings": for rows that are not data, or differ in length; if other variables have
        the same length; for more batches than rows; and if the batches do not add up to the density
        of all rows, because rows depend on each other.

    Examples
    --------
    >>> import stanadapt as sa
    >>> from stanadapt.samplers.langevin import Minibatches
    >>> code = '''
    ... data { int N; vector[N] y; }
    ... parameters { real mu; }
    ... model { mu ~ normal(0, 9); y ~ normal(mu, 1); }
    ... '''
    >>> data = {"N": 4, "y": [1.0, 2.0, 3.0, 2.5]}
    >>> target = sa.Target(code, data, backend="stanli", show_progress=False)
    >>> Minibatches(target, rows="y", batches=2)
    Minibatches('program', 2 batches of y, seed 0)
    """

    moves_parameters = True
    in_batches = True

    def __init__(
        self,
        target: Target,
        rows: str | Sequence[str],
        batches: int = 20,
        *,
        control_variates: bool = False,
        seed: int = 0,
    ) -> None:
        self._base = require_target(target)
        require_exact_density(
            self._base, "invalid_batches", "Minibatches: ", "make the target without `noise`."
        )
        self.rows = tuple(require_names("rows", rows))
        self.batches = require_whole("batches", batches, 1)
        self.control_variates = require_flag("control_variates", control_variates)
        self.seed = require_whole("seed", seed, 0)
        self.name, self.dim = self._base.name, self._base.dim
        data = read_rows(self._base, self.rows)
        if self.batches > data.length:
            raise _wrong(f"there are {data.length} rows, too few for {self.batches} batches.")
        order = np.random.default_rng(self.seed).permutation(data.length)
        parts = np.array_split(order, self.batches)
        self._parts = [self._with(data, np.sort(part)) for part in parts]
        self._fixed, self._weights = self._without_rows(data)
        self._require_sum()
        self._center = np.zeros(self.dim)
        self._corrections = np.zeros((self.batches, self.dim))
        if self.control_variates:
            self._center = _mode(self._base)
            self._corrections = self._corrected(self._center)
        self.description = {
            "batches": self.batches,
            "rows_per_batch": data.length / self.batches,
            "row_variables": list(self.rows),
            "control_variates": self.control_variates,
        }

    @property
    def target(self) -> Target:
        """The program with all of its data."""
        return self._base

    def __repr__(self) -> str:
        extra = ", control variates" if self.control_variates else ""
        return (
            f"Minibatches({self.name!r}, {self.batches} batches of {', '.join(self.rows)}{extra}, "
            f"seed {self.seed})"
        )

    def __reduce__(self) -> tuple:
        """Pickle and copy by the arguments, since densities are addresses."""
        make = partial(Minibatches, control_variates=self.control_variates, seed=self.seed)
        return make, (self._base, self.rows, self.batches)

    def _with(self, rows: Rows, indices: np.ndarray) -> Target:
        """Return the program with some rows."""
        part = self._base.with_data(rows.select(indices))
        if part.dim != self.dim or _sizes(part) != _sizes(self._base):
            raise _wrong(
                f"the parameters of {self.name} have other sizes with other rows "
                f"({', '.join(rows.sizes)}): each row has its parameter, and a batch of rows would "
                "leave the others without data.",
                "invalid_rows",
            )
        return part

    def _without_rows(self, rows: Rows) -> tuple[list[Target], np.ndarray]:
        """Return the targets and weights that give (1 - K) l_0.

        If the program requires rows, there are two targets: with one row m times, and m + 1 times,
        (m + 1) l_m - m l_{m + 1} is the log density without that row.
        """
        weight = 1.0 - self.batches
        if self.batches == 1:
            return [], np.empty(0)
        try:
            empty = self._with(rows, np.empty(0, int))
            if np.isfinite(empty.evaluate(np.zeros(self.dim))[0]):
                return [empty], np.array([weight])
        except StanadaptError:
            pass  # a lower bound on the length, or a backend that reads no empty array
        for m in range(1, FEWEST_ROWS):
            try:
                two = [self._with(rows, np.zeros(n, int)) for n in (m, m + 1)]
            except StanadaptError:
                continue
            return two, weight * np.array([m + 1.0, -m])
        raise _wrong(
            f"{self.name} fails without rows, and with one row several times: {CURE}",
            "dependent_rows",
        )

    def _gradients(self, position: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return gradients of the batches, shape (K, dim), and (1 - K) times that without rows."""
        each = np.array([part.evaluate(position)[1] for part in self._parts])
        fixed = np.zeros(self.dim)
        for weight, part in zip(self._weights, self._fixed, strict=True):
            fixed += weight * part.evaluate(position)[1]
        return each, fixed

    def _require_sum(self) -> None:
        """Raise StanadaptError unless batches add up to the density of all rows."""
        rng, done = np.random.default_rng(19), 0
        for _ in range(TRIES):
            position = rng.uniform(-RADIUS, RADIUS, self.dim)
            whole = self._base.evaluate(position)[1]
            if not np.isfinite(whole).all():
                continue
            each, fixed = self._gradients(position)
            scale = np.abs(each).sum(axis=0) + np.abs(fixed) + np.abs(whole)
            wrong = np.abs(each.sum(axis=0) + fixed - whole)
            if not np.all(wrong <= AGREEMENT * scale):
                i = int(np.nanargmax(np.where(np.isfinite(wrong), wrong, np.inf)))
                raise _wrong(
                    f"the rows of {self.name} are not independent given the parameters: the "
                    f"gradient of coordinate {i + 1} is {whole[i]:.6g} with all rows, but that of "
                    f"the batches adds up to {(each.sum(axis=0) + fixed)[i]:.6g}: {CURE}",
                    "dependent_rows",
                )
            done += 1
            if done == POINTS:
                return
        raise _wrong(f"no point was found at which the gradient of {self.name} is finite.")

    def _corrected(self, center: np.ndarray) -> np.ndarray:
        """Return the corrections c_k at a position, shape (K, dim); their sum is zero."""
        each, _ = self._gradients(center)
        return each.sum(axis=0) - self.batches * each

    def density(self, chain: int = 0) -> Density:
        """Make a density with new memory, for one chain. This object must outlive it."""
        return minibatch_density(
            BatchTerms(
                [part.density(chain) for part in self._fixed], self._weights,
                [part.density(chain) for part in self._parts], self._corrections, self._center,
            )
        )  # fmt: skip

    def gradient_noise(self, position: np.ndarray) -> np.ndarray:
        """Return the covariance of the estimated gradient at a position, shape (dim, dim)."""
        each, fixed = self._gradients(np.asarray(position, dtype=float))
        estimates = self.batches * each + fixed + self._corrections
        deviations = estimates - estimates.mean(axis=0)
        return deviations.T @ deviations / self.batches

    def value(self, position: np.ndarray) -> float:
        """Return the log density of all rows; -inf if it fails."""
        return self._base.value(np.ascontiguousarray(position[: self.dim]))

    def evaluate(self, position: np.ndarray) -> tuple[float, np.ndarray, str]:
        """Return log density and gradient of all rows and, if they fail, Stan's message."""
        return self._base.evaluate(np.ascontiguousarray(position[: self.dim]))

    def constrainer(self, seed: int, chain: int = 0) -> TransformedDraws:
        """Make a callable that turns draws of one chain into columns, without the batch's entry."""
        return TransformedDraws(
            self._base.constrainer(seed, chain),
            lambda positions: np.ascontiguousarray(positions[:, : self.dim]),
        )


def _sizes(target: Target) -> dict[str, tuple]:
    return {name: tuple(variable.dimensions) for name, variable in target.parameters.items()}


def _mode(target: Target) -> np.ndarray:
    """Return the position of a maximum of the density, by a climb from a random point."""

    def cost(position: np.ndarray) -> tuple[float, np.ndarray]:
        log_density, gradient, _ = target.evaluate(position)
        if not (np.isfinite(log_density) and np.isfinite(gradient).all()):
            return 1e300, np.zeros_like(position)
        return -log_density, -gradient

    rng = np.random.default_rng(23)
    for _ in range(TRIES):
        start = rng.uniform(-RADIUS, RADIUS, target.dim)
        if np.isfinite(target.evaluate(start)[0]):
            with one_blas_thread():
                return scipy.optimize.minimize(
                    cost, start, jac=True, method="L-BFGS-B", options={"maxiter": 2000}
                ).x
    raise _wrong(f"no point was found at which the density of {target.name} is finite.")


def _wrong(message: str, code: str = "invalid_batches") -> StanadaptError:
    return StanadaptError(code, f"Minibatches: {message}")
