"""Measure mixing: R-hat, effective sample sizes and Monte Carlo errors of columns of draws.

A fast screening finds the columns that mix worst, so that exact diagnostics are computed only for
these. A run checks whether it has enough draws, the verdict judges them, and tables show them:
ranks and Fourier transforms of the same draws take 0.1 s per column of 4 x 80,000. Results are
therefore cached by the contents of a column.

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
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from stanadapt.diagnostics.ranked import SHORTEST, SUPERCHAINS, Ranked, size_of_mean
from stanadapt.diagnostics.screening import MEASURES, WORST, Screened, is_constant, screen
from stanadapt.results import Fit, arviz_module, attribute, dataset

# chains have converged up to the first limit of R-hat; above the second, the draws are unusable
R_HAT, R_HAT_UNUSABLE = 1.01, 1.05
# of chains that do not overlap, R-hat is a ratio of rounding errors: infinite
LARGEST_R_HAT = 1000.0
# smallest effective sample size, in the bulk and in the tails; of many chains, that of all suffices
ESS_PER_CHAIN, ESS_IN_ALL = 100, 1000
TAILS = (0.05, 0.95)  # as in ArviZ 0.23; 1.x uses 5.5 % and 94.5 %
FEWEST = 4  # draws per chain from which ArviZ estimates an effective sample size
# draws per chain from which the estimate depends on the draws: of fewer, it is ArviZ's upper limit
FEWEST_TOLD = 10
CACHED = 2000  # columns in the cache, a hundred bytes each
# draws of a fit, of all columns together, up to which each column is measured exactly: two seconds
EXACT = 4_000_000
# Limits, relative to those of the verdict, beyond which a screened column is far from failing. The
# screening is an approximation: no column that failed ArviZ's limits was beyond all of these, with
# any of the faults in tests/diagnostics/test_screening.py
FAR_ESS, CLOSE_R_HAT = 4.0, 0.5
# with fewer draws per column, Python's overhead exceeds the gain from threads
LONG = 20_000


class Mixing(NamedTuple):
    """Diagnostics of one column; NaN if ArviZ cannot compute them."""

    # split, rank-normalized and folded R-hat, or nested of many short chains with shared starts;
    # NaN for one chain
    r_hat: float
    # rank-normalized effective sample size of all chains together; with fewer than `FEWEST_TOLD`
    # draws per chain, no more than there are draws
    ess_bulk: float
    ess_tail: float  # the smaller effective sample size of the two quantiles `TAILS`


def _compute(draws: np.ndarray, shared_starts: bool = False) -> Mixing:
    with np.errstate(divide="ignore", invalid="ignore"):  # no chain moved
        if draws.shape[1] < SHORTEST:
            mixed = _as_arviz(draws)
        else:
            ranked = Ranked(draws, shared_starts)
            r_hat = ranked.r_hat() if len(draws) > 1 else np.nan
            r_hat = np.inf if r_hat > LARGEST_R_HAT else r_hat
            mixed = Mixing(r_hat, ranked.ess_bulk(), ranked.ess_tail(TAILS))
    most = _most_ess(draws)
    return Mixing(mixed.r_hat, min(mixed.ess_bulk, most), min(mixed.ess_tail, most))


def _most_ess(draws: np.ndarray) -> float:
    return float(draws.size) if draws.shape[1] < FEWEST_TOLD else np.inf


def _as_arviz(draws: np.ndarray) -> Mixing:
    """Return the diagnostics of a few draws, ranked by ArviZ."""
    arviz = arviz_module()
    return Mixing(
        float(arviz.rhat(draws)) if len(draws) > 1 else np.nan,
        float(arviz.ess(draws, method="bulk")),
        float(arviz.ess(draws, method="tail", prob=TAILS)),
    )


class MixingCache:
    """The `Mixing` of columns, by their contents; the oldest are forgotten."""

    def __init__(
        self, compute: Callable[[np.ndarray], Mixing] = _compute, size: int = CACHED
    ) -> None:
        self.known: dict[bytes, Mixing] = {}
        self._compute, self._size = compute, size
        # the oldest entry cannot be looked up while others are added
        self._changing = threading.Lock()

    def __call__(self, draws: np.ndarray) -> Mixing:
        """Return the `Mixing` of a column, shape (chain, draw), of at least four finite draws."""
        draws = np.ascontiguousarray(draws, dtype=float)
        shape = np.array(draws.shape, dtype=np.int64).tobytes()
        key = hashlib.blake2b(draws.data, digest_size=16, salt=shape).digest()
        mixed = self.known.get(key)
        if mixed is None:
            mixed = self._compute(draws)
            with self._changing:
                while len(self.known) >= self._size:
                    del self.known[next(iter(self.known))]
                self.known[key] = mixed
        return mixed


mixing = MixingCache()
_mixing_with_shared_starts = MixingCache(partial(_compute, shared_starts=True))


def mixing_of(fit: Fit) -> MixingCache:
    """Return the measure of a fit's columns: nested R-hat needs chains with shared starts.

    They are those of a run that recorded them, all of its chains, and none of another run.
    """
    chains = np.arange(1, dataset(fit, "posterior").sizes.get("chain", 0) + 1)
    shared = np.array_equal(attribute(fit, "superchains", 0), SUPERCHAINS)
    whole = np.array_equal(attribute(fit, "chains_kept", 0), chains)
    return _mixing_with_shared_starts if shared and whole else mixing


def halves_r_hat(draws: np.ndarray) -> float:
    """Return R-hat of the halves of a single chain, shape (1, draw), of at least eight draws."""
    half = draws.shape[1] // 2
    halves = draws[0, : 2 * half].reshape(2, half)
    with np.errstate(divide="ignore", invalid="ignore"):
        return Ranked(halves).r_hat() if half >= SHORTEST else float(arviz_module().rhat(halves))


def map_columns(
    measure: Callable[[np.ndarray], Any], columns: Iterable[np.ndarray], long: int = LONG
) -> list[Any]:
    """Apply `measure` to each column, in threads if columns have `long` or more draws."""
    columns = list(columns)
    # ArviZ suppresses warnings temporarily: if threads restore the filters in another order than
    # they changed them, all later warnings would be suppressed, ours about bad fits included
    with warnings.catch_warnings():
        if not columns or columns[0].size < long:
            return [measure(draws) for draws in columns]
        with ThreadPoolExecutor() as pool:
            try:  # sorting and Fourier transforms release the GIL
                return list(pool.map(measure, columns))
            except BaseException:  # after Ctrl-C, no further columns are started
                pool.shutdown(wait=False, cancel_futures=True)
                raise


def measure_mixing(
    columns: dict[str, np.ndarray], measure: Callable[[np.ndarray], Mixing] = mixing
) -> dict[str, Mixing]:
    """Return the `Mixing` of columns that are not constant, by name."""
    return dict(zip(columns, map_columns(measure, columns.values()), strict=True))


def measure_worst(
    columns: dict[str, np.ndarray],
    screened: Screened | None = None,
    measure: Callable[[np.ndarray], Mixing] = mixing,
) -> dict[str, Mixing]:
    """Return the `Mixing` of the columns that decide a verdict.

    If all columns are far from the limits according to the screening, and so are the exact figures
    of the worst by each of its measures, these decide. Otherwise, the `WORST` by each are measured.
    Columns, shape (chain, draw), are finite and not constant.
    """
    names, screened = list(columns), screened or screen(list(columns.values()))
    chains = len(columns[names[0]])
    r_hat, ess = limits(*columns[names[0]].shape)
    close = 1.0 + CLOSE_R_HAT * (r_hat - 1.0)
    if len(names) > MEASURES and screened.is_clear(close, FAR_ESS * ess):
        mixed = measure_mixing({names[i]: columns[names[i]] for i in screened.worst(1)}, measure)
        if all(_is_far(one, chains == 1, close, FAR_ESS * ess / 2.0) for one in mixed.values()):
            return mixed
    if len(names) > 2 * WORST:
        names = [names[i] for i in screened.worst(WORST)]
    return measure_mixing({name: columns[name] for name in names}, measure)


def limits(chains: int, draws: float = np.inf) -> tuple[float, float]:
    """Return the largest R-hat, and the smallest effective sample size, of a fit that is fine.

    A single chain is compared with itself: its few draws per part may exceed the lower limit of
    R-hat by chance. With fewer than `FEWEST_TOLD` draws per chain, no fit has the size.
    """
    ess = ESS_PER_CHAIN * chains
    ess = ess if draws < FEWEST_TOLD else min(ess, ESS_IN_ALL)
    return (R_HAT if chains > 1 else R_HAT_UNUSABLE), float(ess)


def _is_far(mixed: Mixing, one_chain: bool, r_hat: float, ess: float) -> bool:
    """Whether exact figures are far from the limits; False if one of several chains' is NaN."""
    agree = one_chain or mixed.r_hat < r_hat
    return bool(agree and mixed.ess_bulk > ess and mixed.ess_tail > ess)


class Efficiency(NamedTuple):
    """Summary of each column of one fit; arrays of shape (column,)."""

    names: list[str]
    # mean, sd: posterior mean and standard deviation
    mean: np.ndarray
    sd: np.ndarray
    # mcse_mean, mcse_sd: their Monte Carlo standard errors
    mcse_mean: np.ndarray
    mcse_sd: np.ndarray
    # ess_bulk, ess_tail: rank-normalized effective sample sizes of all chains together (Vehtari et
    # al., 2021)
    ess_bulk: np.ndarray
    ess_tail: np.ndarray
    r_hat: np.ndarray  # NaN for a single chain


def efficiency(
    columns: dict[str, np.ndarray],
    most: int = EXACT,
    measure: Callable[[np.ndarray], Mixing] = mixing,
) -> Efficiency:
    """Compute `Efficiency` of columns of shape (chain, draw), leaving out constant ones.

    Of more than `most` draws, those columns are measured exactly that a screening finds worst. The
    figures of the others are those of the screening: errors are within some 15 %.
    """
    moving = {name: x for name, x in columns.items() if not is_constant(x)}
    values, row = list(moving.values()), partial(_row, measure=measure)
    if (
        len(values) <= 2 * WORST
        or len(values) * values[0].size <= most
        or values[0].shape[1] < FEWEST
    ):
        table = np.array(map_columns(row, values), dtype=float).reshape(len(values), 7)
        return Efficiency(list(moving), *table.T)
    screened = screen(values)
    table = np.column_stack([*screened.moments, *screened.ess, screened.r_hat.max(axis=0)])
    finite = np.flatnonzero(screened.finite)
    worst = finite[Screened(*(each[..., finite] for each in screened)).worst(WORST)]
    exact = np.array(map_columns(row, [values[i] for i in worst])).reshape(len(worst), 7)
    # the others are no worse, as in the verdict
    table[:, 4:6] = np.maximum(table[:, 4:6], np.fmin.reduce(exact[:, 4:6], initial=np.inf))
    table[:, 4:6] = np.minimum(table[:, 4:6], _most_ess(values[0]))
    several = len(values[0]) > 1
    table[:, 6] = (
        np.minimum(table[:, 6], np.fmax.reduce(exact[:, 6], initial=1.0)) if several else np.nan
    )
    table[worst] = exact
    return Efficiency(list(moving), *table.T)


@np.errstate(all="ignore")  # called in threads: draws may be too large for their squares
def _row(draws: np.ndarray, measure: Callable[[np.ndarray], Mixing]) -> tuple[float, ...]:
    draws = np.asarray(draws, dtype=float)
    if not np.isfinite(draws).all():
        return (np.nan,) * 7  # a failed quantity shows as NaN
    mean, sd = draws.mean(), draws.std(ddof=1)
    if draws.shape[1] < FEWEST:
        return (mean, sd, *(np.nan,) * 5)
    mixed = measure(draws)
    squares = (draws - mean) ** 2
    error_of_mean = sd / np.sqrt(size_of_mean(draws))
    # by the delta method, as ArviZ's mcse(method="sd"), which in 0.23 fails on arrays under current
    # NumPy
    error_of_sd = float(np.sqrt(squares.var() / size_of_mean(squares) / squares.mean()) / 2)
    return mean, sd, error_of_mean, error_of_sd, mixed.ess_bulk, mixed.ess_tail, mixed.r_hat
