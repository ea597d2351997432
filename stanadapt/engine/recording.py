"""What one phase of a chain keeps."""

from collections.abc import Callable

import numpy as np

Constrain = Callable[[np.ndarray, np.ndarray], int]


class Recording:
    """What one phase of a chain keeps: draws on the constrained scale, and statistics.

    constrained (row, n_constrained), stats (row, n_stats) and, where asked, unconstrained
    (row, dim) and extra (row, n_extra); `rows` of them are filled. `constrain` fills rows of the
    first.
    """

    def __init__(self, rows: int, constrain: Constrain, widths: tuple[int, int, int, int]) -> None:
        n_constrained, n_stats, dim, n_extra = widths
        self.constrain = constrain
        self.constrained = np.empty((rows, n_constrained))
        self.stats = np.empty((rows, n_stats))
        self.unconstrained = np.empty((rows, dim)) if dim else None
        self.extra = np.empty((rows, n_extra))
        self.rows = 0

    def grow(self, rows: int) -> None:
        """Make room for so many rows in all; those that are filled stay."""
        for name in ("constrained", "stats", "unconstrained", "extra"):
            kept = getattr(self, name)
            if kept is not None and len(kept) < rows:
                longer = np.empty((rows, kept.shape[1]))
                longer[: self.rows] = kept[: self.rows]
                setattr(self, name, longer)

    def trim(self) -> None:
        """Give up the rows that were not filled: warm-up may end early."""
        for name in ("constrained", "stats", "unconstrained", "extra"):
            kept = getattr(self, name)
            if kept is not None:
                setattr(self, name, kept[: self.rows])
