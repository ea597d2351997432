"""Constraining draws: from unconstrained positions to the columns of a result."""

import ctypes
from collections.abc import Callable
from typing import Any

import numpy as np

from stanadapt.engine.density import constrain

# rows between two seeds of Stan's generator; creating a generator takes 25 us
BLOCK = 256
# the blocks of a program that parameters do not need; stanli runs the first two with them
AFTER_PARAMETERS = ("transformed parameters", "generated quantities", "model")


def address_of(function: Any) -> int:
    """Return the address of a C function loaded by ctypes, as an integer."""
    return ctypes.cast(function, ctypes.c_void_p).value or 0


class Constrainer:
    """A callable that constrains the draws of one chain row by row in compiled code.

    Generated quantities need random numbers, and the state of Stan's generator cannot be read. To
    let a run continue in another process, each block of rows has a new generator with a seed (at
    most 2**32 - 1) that depends on the number of the block. The number of the chain selects one of
    the target's models.
    """

    def __init__(self, target: Any, seed: int, chain: int) -> None:
        self._target, self._model = target, target.model_of(chain)
        self._seed, self._row = seed, 0
        self._rng = self._model.new_rng(seed)
        # positions of the current block, if the program draws random numbers
        self._random = "_rng" in target.program.code
        self._block = np.empty((BLOCK if self._random else 0, target.dim))
        self.failed_position = np.full(target.dim, np.nan)

    def __call__(self, positions: np.ndarray, out: np.ndarray) -> int:
        """Fill out (draw, column); return the number of rows with failed computed quantities.

        These quantities are NaN in such rows.
        """
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
        stored = self._target.kept_columns
        full = out if stored.all() else np.empty((len(positions), stored.size))
        address = address_of(self._model.stanlib.bs_param_constrain)
        failures = constrain(
            address, self._model.model, self._rng.ptr, positions, full, self.failed_position
        )
        if failures:
            self._recover(positions, full)
        if full is not out:
            out[:] = full[:, stored]
        return failures

    def state(self) -> dict[str, Any]:
        """Return the state that `resume` needs: the row, and the positions of its block."""
        block = self._block[: self._row % BLOCK].copy()
        return {"row": self._row, "block": block, "failed_position": self.failed_position.copy()}

    def resume(self, state: dict[str, Any]) -> None:
        """Continue from the state of a constrainer with the same seed, by repeating its block."""
        block = state["block"]
        self._row = state["row"] - len(block)
        self._rng = self._model.new_rng(self._seed_of_block() if self._row else self._seed)
        self(block, np.empty((len(block), len(self._target.column_names))))
        self._row, self.failed_position = state["row"], state["failed_position"]

    def _recover(self, positions: np.ndarray, out: np.ndarray) -> None:
        """Fill in the other columns of rows with failed generated quantities.

        Transformed parameters may throw too where they are not part of the density that was drawn
        from, as at draws of a prior: then only parameters are filled in.
        """
        model = self._target.without("generated quantities")
        for i in np.flatnonzero(np.isnan(out).all(axis=1)):
            try:
                values = model.param_constrain(positions[i], include_tp=True)
            except RuntimeError:
                values = self._target.without(*AFTER_PARAMETERS).param_constrain(positions[i])
            out[i, : values.size] = values

    def explain(self) -> str:
        """Return Stan's message for the last row that failed."""
        try:
            self._model.param_constrain(
                self.failed_position, include_tp=True, include_gq=True, rng=self._rng
            )
        except RuntimeError as error:
            return str(error)
        return ""


class TransformedDraws:
    """Turns draws into columns of the program, after a transform to positions of the program."""

    def __init__(self, constrain: Any, transform: Callable[[np.ndarray], np.ndarray]) -> None:
        self._constrain, self._transform = constrain, transform

    def __call__(self, positions: np.ndarray, out: np.ndarray) -> int:
        """Fill out (draw, column); return the number of rows with failed computed quantities."""
        return self._constrain(self._transform(positions), out)

    def state(self) -> dict[str, Any]:
        """Return the state that `resume` needs to continue from here."""
        return self._constrain.state()

    def resume(self, state: dict[str, Any]) -> None:
        """Continue from the state of another object with the same seed."""
        self._constrain.resume(state)

    def explain(self) -> str:
        """Return Stan's message for the last row that failed."""
        return self._constrain.explain()
