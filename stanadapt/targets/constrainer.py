"""Constraining draws: from unconstrained positions to the columns a result holds."""

import ctypes
from typing import Any

import numpy as np

from stanadapt.engine.density import constrain

# rows between two seeds of Stan's generator: making one takes 25 us
BLOCK = 256


def address_of(function: Any) -> int:
    """Return the address of a C function loaded by ctypes, as an integer."""
    return ctypes.cast(function, ctypes.c_void_p).value or 0


class Constrainer:
    """Constrains the draws of one chain row by row in compiled code, with its own generator.

    The state of Stan's generator cannot be read. So that a run can go on in another process, a
    generator serves for a block of rows only, and the next block has one with a seed of its own.

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
        self._seed, self._row = seed, 0
        self._rng = self._model.new_rng(seed)
        # of programs with random quantities: the positions of this block
        self._random = "_rng" in target.program.code
        self._block = np.empty((BLOCK if self._random else 0, target.dim))
        self._address = address_of(self._model.stanlib.bs_param_constrain)
        self.failed_position = np.full(target.dim, np.nan)

    def __call__(self, positions: np.ndarray, out: np.ndarray) -> int:
        """Fill out (draw, column); return in how many rows generated quantities threw (NaN)."""
        if self._target.is_unconstrained:
            out[:] = positions
            return 0
        if not self._random:
            return self._rows(positions, out)
        failures = first = 0
        while first < len(positions):
            at = self._row % BLOCK
            if at == 0 and self._row:
                self._rng = self._model.new_rng(self._seed_of_block())
            count = min(BLOCK - at, len(positions) - first)
            rows = slice(first, first + count)
            self._block[at : at + count] = positions[rows]
            failures += self._rows(positions[rows], out[rows])
            self._row, first = self._row + count, first + count
        return failures

    def _seed_of_block(self) -> int:
        words = np.random.SeedSequence([self._seed, self._row // BLOCK])
        return int(words.generate_state(1, np.uint32)[0])

    def _rows(self, positions: np.ndarray, out: np.ndarray) -> int:
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

    def held(self) -> dict[str, Any]:
        """What `resume` needs to go on from here: the row, and the positions of its block."""
        block = self._block[: self._row % BLOCK].copy()
        return {"row": self._row, "block": block, "failed_position": self.failed_position.copy()}

    def resume(self, held: dict[str, Any]) -> None:
        """Go on from where another constrainer of the same seed was, by repeating its block."""
        block = held["block"]
        self._row = held["row"] - len(block)
        self._rng = self._model.new_rng(self._seed_of_block() if self._row else self._seed)
        self(block, np.empty((len(block), len(self._target.column_names))))
        self._row, self.failed_position = held["row"], held["failed_position"]

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
