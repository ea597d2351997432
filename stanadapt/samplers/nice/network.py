"""A trained network as plain arrays: construction, checks and files, without JAX."""

import itertools
import json
import zipfile
from collections.abc import Mapping, Sequence
from os import PathLike
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np

from stanadapt.errors import StanadaptError
from stanadapt.results import replace_file
from stanadapt.samplers.nice import additive_couplings
from stanadapt.samplers.nice.additive_couplings import CompiledNetwork

FORMAT = 1  # format of the file; increased when older files can no longer be read
ARRAYS = ("mean", "factor", "weights")


class Coupling(NamedTuple):
    """Variable that a coupling moves, "z" or "v", and the widths of its network."""

    moves: str
    widths: tuple[int, ...]


class Network:
    """A volume-preserving map of (x, v), for `sample(target, "nice", network=...)`.

    Parameters
    ----------
    couplings : sequence of (str, sequence of int)
        Couplings in the order in which they are applied: for each, the variable that moves, "z" or
        "v", and the widths of its network from input to output. Hidden units are ReLUs.
    weights : array_like
        Flat array: for each layer, the matrix of shape (input, output), then the biases.
    mean : array_like
        Mean of x on the unconstrained scale, shape (dim,).
    factor : array_like
        Lower-triangular L of the covariance L L^T of x, shape (dim, dim), or its standard
        deviations, shape (1, dim).
    description : mapping, optional
        Origin of the network: program, program_hash, data_hash, seconds, ...; any JSON.

    Raises
    ------
    StanadaptError
        Stage "settings" for arrays that do not fit together, or are not finite.

    Examples
    --------
    >>> import numpy as np
    >>> from stanadapt.samplers.nice.network import Network
    >>> network = Network.untrained(dim=2, auxiliary=2, widths=[[8], [8]], seed=1)
    >>> network
    Network(2 parameters, 84 weights, for no program)
    >>> x, v = network.map([0.5, -1.0], [0.1, 0.2])
    >>> np.allclose(network.map(x, v, forward=False), [[0.5, -1.0], [0.1, 0.2]])
    True
    """

    def __init__(
        self,
        couplings: Sequence[Any],
        weights: Any,
        mean: Any,
        factor: Any,
        description: Mapping[str, Any] = MappingProxyType({}),
    ) -> None:
        self.mean, self.factor = _numbers("mean", mean), _numbers("factor", factor)
        self.weights = _numbers("weights", weights)
        self.couplings = _couplings(couplings)
        self.description = dict(description)
        self.dim = self.mean.size
        self._require_standardization()
        self.auxiliary = self._require_widths()
        count = sum(weight_count(coupling.widths) for coupling in self.couplings)
        if self.weights.shape != (count,):
            raise _mismatch(
                f"these couplings have {count} weights, got shape {self.weights.shape}.",
            )

    def _require_standardization(self) -> None:
        n = self.dim
        if self.mean.ndim != 1 or n == 0 or self.factor.shape not in ((1, n), (n, n)):
            raise _mismatch(
                f"mean must have shape (dim,), and factor (dim, dim) or (1, dim), got "
                f"{self.mean.shape} and {self.factor.shape}.",
            )
        diagonal = self.factor[0] if self.factor.shape[0] < n else np.diag(self.factor)
        if not np.all(diagonal > 0):
            raise _wrong_values("the diagonal of factor must be positive: it consists of scales.")

    def _require_widths(self) -> int:
        """Return the size of v, if all couplings agree on both sizes."""
        sizes = set()
        for moves, widths in self.couplings:
            z, v = (widths[-1], widths[0]) if moves == "z" else (widths[0], widths[-1])
            if z != self.dim:
                raise _mismatch(
                    f"a coupling has {z} parameters, but mean has {self.dim}.",
                )
            sizes.add(v)
        if len(sizes) != 1 or {c.moves for c in self.couplings} != {"z", "v"}:
            raise _mismatch(
                "couplings must move both z and v, and agree on the size of v, got "
                f"{sorted(sizes)}.",
            )
        return sizes.pop()

    def __repr__(self) -> str:
        name = self.description.get("program", "no program")
        return f"Network({self.dim} parameters, {self.weights.size:,} weights, for {name})"

    @classmethod
    def untrained(
        cls, dim: int, auxiliary: int, widths: Sequence[Sequence[int]], seed: int = 0
    ) -> "Network":
        """Return a network with random weights; `dim` and `auxiliary` are sizes of x and of v.

        `widths` are those of the hidden layers of alternating v-, z-, v-, ... couplings.
        """
        rng, couplings, weights = np.random.default_rng(seed), [], []
        for k, hidden in enumerate(widths):
            ends = (auxiliary, dim) if k % 2 else (dim, auxiliary)
            couplings.append(Coupling("z" if k % 2 else "v", (ends[0], *hidden, ends[1])))
            for inputs, outputs in itertools.pairwise(couplings[-1].widths):
                bound = np.sqrt(6.0 / (inputs + outputs))
                weights += [rng.uniform(-bound, bound, inputs * outputs), np.zeros(outputs)]
        return cls(couplings, np.concatenate(weights), np.zeros(dim), np.ones((1, dim)))

    def compiled(self) -> CompiledNetwork:
        """Return the network for compiled code."""
        rows, first, begin = [], 0, 0
        for moves, widths in self.couplings:
            rows.append((moves == "z", len(widths) - 1, first, begin))
            first, begin = first + len(widths), begin + weight_count(widths)
        widths = [width for coupling in self.couplings for width in coupling.widths]
        return CompiledNetwork(
            np.array(rows, np.int64), np.array(widths, np.int64), self.weights, self.mean,
            self.factor,
        )  # fmt: skip

    def map(self, x: Any, v: Any, forward: bool = True) -> tuple[np.ndarray, np.ndarray]:
        """Return the image of (x, v), shapes (dim,) and (auxiliary,), or its preimage."""
        network = self.compiled()
        work = additive_couplings.workspace(network)
        additive_couplings.standardize(network, np.array(x, float), work.z)
        work.v[:] = v
        additive_couplings.apply(network, forward, work)
        position = np.empty(self.dim)
        additive_couplings.restore(network, work.z, position)
        return position, work.v

    def save(self, path: str | PathLike) -> None:
        """Write an .npz file; StanadaptError, stage "files", if that fails."""
        header = {
            "format": FORMAT, "couplings": self.couplings, "description": self.description,
        }  # fmt: skip
        try:
            with replace_file(Path(path)) as partial, partial.open("wb") as file:
                arrays = {name: getattr(self, name) for name in ARRAYS}
                np.savez(file, allow_pickle=False, network=np.array(json.dumps(header)), **arrays)
        except OSError as error:
            raise StanadaptError(
                "network_unwritable", f"{path} cannot be written: {error}."
            ) from None

    @classmethod
    def load(cls, path: str | PathLike) -> "Network":
        """Read a file written by `save`; StanadaptError, stage "files", for any other file."""
        try:
            if Path(path).is_fifo():  # reading would wait for ever
                raise OSError("it is a named pipe, not a file")
            # opened here, since NumPy does not close a broken file that it has opened
            with open(path, "rb") as file, np.load(file, allow_pickle=False) as content:
                header = json.loads(str(content["network"]))
                arrays = {name: content[name] for name in ARRAYS}
                couplings, number = header["couplings"], header["format"]
                description = dict(header["description"])
        except OSError as error:
            raise StanadaptError("network_unreadable", f"{path} cannot be read: {error}.") from None
        except (ValueError, TypeError, KeyError, EOFError, zipfile.BadZipFile, AttributeError):
            raise StanadaptError(
                "network_unreadable",
                f"{path} does not contain a network: give a file written by Network.save.",
            ) from None
        if number != FORMAT:
            raise StanadaptError(
                "network_format",
                f"{path} has format {number}, but this version reads format {FORMAT}: train the "
                "network again.",
            )
        return cls(couplings, arrays["weights"], arrays["mean"], arrays["factor"], description)


def weight_count(widths: Sequence[int]) -> int:
    """Number of weights and biases of a network of these widths."""
    return sum((inputs + 1) * outputs for inputs, outputs in itertools.pairwise(widths))


def _couplings(values: Sequence[Any]) -> list[Coupling]:
    try:
        couplings = [
            Coupling(str(moves), tuple(int(w) for w in widths)) for moves, widths in values
        ]
    except (TypeError, ValueError):
        raise _wrong_values(f"couplings must be pairs (moves, widths), got {values!r}.") from None
    for moves, widths in couplings:
        if moves not in ("z", "v") or len(widths) < 2 or min(widths) < 1:
            raise _wrong_values(
                "a coupling must move z or v, with widths of at least 1 for input and output, got "
                f"{moves!r}, {widths}.",
            )
    return couplings


def _numbers(name: str, values: Any) -> np.ndarray:
    try:
        array = np.ascontiguousarray(values, dtype=float)
    except (TypeError, ValueError):
        raise _wrong_values(f"{name} must be numbers.") from None
    if not np.all(np.isfinite(array)):
        raise _wrong_values(f"{name} must be finite.")
    return array


def _mismatch(message: str) -> StanadaptError:
    return StanadaptError("network_mismatch", f"network: {message}")


def _wrong_values(message: str) -> StanadaptError:
    return StanadaptError("network_values", f"network: {message}")
