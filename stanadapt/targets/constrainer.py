"""Constraining draws: from unconstrained positions to the columns a result holds."""

import ctypes
from typing import Any

import numpy as np

from stanadapt.kernels.density import constrain


def address_of(function: Any) -> int:
    """Return the address of a C function loaded by ctypes, as an integer."""
    return ctypes.cast(function, ctypes.c_void_p).value or 0


class Constrainer:
    """Constrains the draws of one chain row by row in compiled code, with its own generator.

    Parameters
    ----------
    target
        The `Target`; kept alive for as long as this object is.
    seed
        Of Stan's generator, at most 2**32 - 1, for generated quantities.
    chain
        Number of the chain, which decides which of the target's models is used.

    """

    def __init__(self, target: Any, seed: int, chain: int) -> None:
        self._target, self._model = target, target.model_of(chain)
        self._rng = self._model.new_rng(seed)
        self._address = address_of(self._model.stanlib.bs_param_constrain)
        self.failed_position = np.full(target.dim, np.nan)

    def __call__(self, positions: np.ndarray, out: np.ndarray) -> int:
        """Fill out (draw, column); return in how many rows generated quantities threw (NaN)."""
        if self._target.is_unconstrained:
            out[:] = positions
            return 0
        kept = self._target.kept_columns
        full = out if kept.all() else np.empty((len(positions), kept.size))
        failures = constrain(
            self._address, self._model.model, self._rng.ptr, positions, full,
            self.failed_position,
        )  # fmt: skip
        if failures:
            self._recover(positions, full)
        if full is not out:
            out[:] = full[:, kept]
        return failures

    def _recover(self, positions: np.ndarray, out: np.ndarray) -> None:
        """Fill in all other columns of the rows in which generated quantities threw."""
        model = self._target.without_generated_quantities()
        for i in np.flatnonzero(np.isnan(out).all(axis=1)):
            values = model.param_constrain(positions[i], include_tp=True)
            out[i, : values.size] = values

    def explain(self) -> str:
        """Stan's message for the last row that threw."""
        try:
            self._model.param_constrain(
                self.failed_position, include_tp=True, include_gq=True, rng=self._rng
            )
        except RuntimeError as error:
            return str(error)
        return ""
