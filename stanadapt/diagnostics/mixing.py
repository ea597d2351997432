"""How well chains mix in a column: R-hat and effective sample sizes, once for the same draws.

A run looks whether it has enough draws, the verdict judges them, and tables show them: three looks
at the same draws, whose ranks and Fourier transforms take 0.3 s per column of 4 x 80,000. So what
was found is kept by what a column contains, for the columns of some fits.

References
----------
Vehtari, Gelman, Simpson, Carpenter and Bürkner (2021), Rank-normalization, folding, and
localization: an improved R-hat, Bayesian Analysis 16.

"""

import hashlib
import threading
import warnings
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple

import numpy as np

from stanadapt.results import arviz_module

TAILS = (0.05, 0.95)  # ArviZ 0.23's; 1.x would take 5.5 % and 94.5 %
# columns that are kept, of a hundred bytes each
KEPT = 2000
# draws of a column from which on threads gain more than they cost: below, Python's own part is most
LONG = 20_000


class Mixing(NamedTuple):
    """Of one column; NaN where ArviZ cannot compute it.

    r_hat
        Split, rank-normalised and folded; NaN for a single chain.
    ess_bulk, ess_tail
        Rank-normalised effective sample sizes of all chains together, the latter the smaller one of
        the two `TAILS`.

    """

    r_hat: float
    ess_bulk: float
    ess_tail: float


_found: dict[bytes, Mixing] = {}
_changing = threading.Lock()  # which column is the oldest cannot be asked while others are added


def mixing(draws: np.ndarray) -> Mixing:
    """Return the `Mixing` of a column, shape (chain, draw): finite draws, at least four a chain."""
    draws = np.ascontiguousarray(draws, dtype=float)
    shape = np.array(draws.shape, dtype=np.int64).tobytes()
    key = hashlib.blake2b(draws.data, digest_size=16, salt=shape).digest()
    found = _found.get(key)
    if found is None:
        found = _computed(draws)
        with _changing:
            while len(_found) >= KEPT:
                del _found[next(iter(_found))]
            _found[key] = found
    return found


def _computed(draws: np.ndarray) -> Mixing:
    arviz = arviz_module()
    with np.errstate(divide="ignore", invalid="ignore"):  # chains of which none moved
        return Mixing(
            float(arviz.rhat(draws)) if len(draws) > 1 else np.nan,
            float(arviz.ess(draws, method="bulk")),
            float(arviz.ess(draws, method="tail", prob=TAILS)),
        )


def of_each(measure: Callable[[np.ndarray], Any], columns: Iterable[np.ndarray]) -> list[Any]:
    """Return what `measure` finds of each column, in threads where columns are long."""
    columns = list(columns)
    # ArviZ ignores warnings for moments: threads that leave these in another order than they
    # entered would have all later warnings ignored, ours of bad fits among them
    with warnings.catch_warnings():
        if not columns or columns[0].size < LONG:
            return [measure(draws) for draws in columns]
        with ThreadPoolExecutor() as pool:
            try:  # sorting and Fourier transforms release the GIL
                return list(pool.map(measure, columns))
            except BaseException:  # Ctrl-C is not to wait for columns that have not been begun
                pool.shutdown(wait=False, cancel_futures=True)
                raise


def of_columns(columns: dict[str, np.ndarray]) -> dict[str, Mixing]:
    """Return the `Mixing` of columns that move, by name."""
    return dict(zip(columns, of_each(mixing, columns.values()), strict=True))
