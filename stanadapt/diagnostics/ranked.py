"""R-hat and effective sample sizes of a column of draws, which is ranked once.

ArviZ sorts a column seven times for R-hat and the two effective sample sizes. Here it is sorted
once: the distances from the median of sorted draws fall and then rise, so that they are merged, and
scores of ranks without ties are looked up. The results equal those of ArviZ, and tests compare
both; its import alone takes longer than most runs.

References
----------
Vehtari, Gelman, Simpson, Carpenter and Bürkner (2021), Rank-normalization, folding, and
localization: an improved R-hat, Bayesian Analysis 16. Margossian, Hoffman, Sountsov, Riou-Durand,
Vehtari and Gelman (2024), Nested R-hat: assessing the convergence of Markov chain Monte Carlo when
running many short chains, Bayesian Analysis. Geyer (1992), Practical Markov chain Monte Carlo,
Statistical Science 7, section 3.3: the initial monotone sequence.
"""

import functools

import numpy as np
from scipy.special import ndtri

from stanadapt.results import quantile

SHORTEST = 8  # draws per chain: ArviZ refuses to estimate from halves of fewer than four
# Parts of chains with fewer draws than this vary more than R-hat allows, although nothing is wrong.
# With this many chains, of a run that gave them this number of starts in turn, those are compared
# instead that consist of the chains with the same start: superchains
MANY_CHAINS, FEW_DRAWS, SUPERCHAINS = 32, 100, 16
LONE = 8.0  # distance of a chain from the others, in robust sds of their means, that is no chance
NO_SPREAD = 1e-15  # a range of draws below which ArviZ takes them for equal
CHANCE = 4.5  # sds of a correlation of independent beginnings and ends, in all columns


class Ranked:
    """The diagnostics of one column, shape (chain, draw), which is sorted once.

    Draws are finite, and at least `SHORTEST` per chain.
    """

    def __init__(self, draws: np.ndarray, shared_starts: bool = False) -> None:
        self._nested = shared_starts and is_nested(*draws.shape)
        half = draws.shape[1] // 2
        self._draws = draws
        self._halves = np.concatenate([draws[:, :half], draws[:, -half:]])
        flat = self._halves.ravel()
        self._order = np.argsort(flat)
        self._sorted = flat[self._order]
        self._scores = self._normal_scores(self._order, self._sorted)

    def _normal_scores(self, order: np.ndarray, ordered: np.ndarray) -> np.ndarray:
        """Return normal scores in the shape of the halves, given their order and ordered values."""
        n = len(ordered)
        scores = _scores(n)
        starts = np.flatnonzero(np.concatenate([[True], ordered[1:] != ordered[:-1]]))
        if len(starts) < n:  # equal draws have their average rank
            counts = np.diff(np.append(starts, n))
            ranks = starts + (counts + 1) / 2.0
            scores = np.repeat(_score(ranks, n), counts)
        in_place = np.empty(n)
        in_place[order] = scores
        return in_place.reshape(self._halves.shape)

    def r_hat(self) -> float:
        """Return the larger R-hat of the scores of the draws, and of their distances."""
        middle = len(self._sorted) // 2  # their number is even
        median = np.mean(self._sorted[middle - 1 : middle + 1])
        distances = np.abs(self._sorted - median)
        order = np.argsort(distances, kind="stable")  # merges the two sorted parts
        folded = self._normal_scores(self._order[order], distances[order])
        measure = nested_r_hat if self._nested else _plain_r_hat
        return float(max(measure(x) for x in (self._scores, folded)))

    def ess_bulk(self) -> float:
        """Return the effective sample size of the scores."""
        return effective_size(self._scores)

    def ess_tail(self, tails: tuple[float, float]) -> float:
        """Return the smaller effective sample size of the two quantiles."""
        odd = self._draws.shape[1] % 2  # halves lack the middle draw
        ordered = np.sort(self._draws, axis=None) if odd else self._sorted
        below = [self._halves <= quantile(ordered, p) for p in tails]
        return min(effective_size(x) for x in below)


def is_nested(chains: int, draws: int) -> bool:
    """Whether R-hat of this many chains, of so many draws each, is nested if they share starts."""
    return chains >= MANY_CHAINS and SHORTEST <= draws < FEW_DRAWS


def _plain_r_hat(halves: np.ndarray) -> float:
    length = halves.shape[1]
    between = halves.mean(axis=1).var(ddof=1)
    within = halves.var(axis=1, ddof=1).mean()
    return float(np.sqrt(between / within + (length - 1.0) / length))


def effective_size(chains: np.ndarray) -> float:
    """Return the effective sample size of chains, shape (chain, draw), neither split nor ranked.

    By Geyer's initial monotone sequence of their common autocorrelations. NaN if draws are not
    finite, or fewer than four per chain.
    """
    chains, (number, n) = np.asarray(chains, dtype=float), np.shape(chains)
    if n < 4 or not np.isfinite(chains).all():
        return np.nan
    if np.ptp(chains) < NO_SPREAD:
        return float(chains.size)
    means = chains.mean(axis=1)
    spectrum = np.fft.rfft(chains - means[:, None], 1 << (2 * n - 1).bit_length())
    power = (spectrum.real**2 + spectrum.imag**2).mean(axis=0)
    covariance = np.fft.irfft(power)[:n] / n
    within = covariance[0] * n / (n - 1.0)
    total = covariance[0] + (means.var(ddof=1) if number > 1 else 0.0)
    correlations = 1.0 - (within - covariance) / total
    correlations[0] = 1.0
    last = (n - 3) // 2
    pairs = correlations[: 2 * last + 2].reshape(-1, 2).sum(axis=1)
    ended = np.flatnonzero(~(pairs > 0.0))
    last = ended[0] if ended.size else last
    time = 2.0 * np.minimum.accumulate(pairs[:last]).sum() - 1.0
    time += max(correlations[2 * last], 0.0)
    # limited as in Stan, since the value for antithetic chains has no upper bound
    return float(chains.size / max(time, 1.0 / np.log10(chains.size)))


def size_of_mean(draws: np.ndarray) -> float:
    """Return the effective sample size for the mean of draws, shape (chain, draw): of halves."""
    half = draws.shape[1] // 2
    return effective_size(np.concatenate([draws[:, :half], draws[:, -half:]]))


def nested_r_hat(halves: np.ndarray) -> float:
    """Return the nested R-hat of halves of chains, first all first ones: shape (2 chain, draw).

    Compared are superchains, of the chains with the same start, and the two halves of all chains,
    in which a common drift shows. One chain far from all others would hardly change the mean of a
    superchain: it is compared with them. Chains from the same start may also end apart, each in a
    mode or with a different width.
    """
    chains = len(halves) // 2
    whole = np.hstack([halves[:chains], halves[chains:]])
    superchains = [whole[k::SUPERCHAINS] for k in range(SUPERCHAINS)]
    found = max(
        _r_hat_of(superchains), _r_hat_of([halves[:chains], halves[chains:]]), _lasting_r_hat(whole)
    )
    lone = lone_chain(whole)
    if lone is not None:
        found = max(found, _r_hat_of([whole[lone : lone + 1], np.delete(whole, lone, axis=0)]))
    return found


def _r_hat_of(superchains: list[np.ndarray]) -> float:
    """Return nested R-hat, the variances within chains and between those of a superchain pooled."""
    means = [chains.mean(axis=1) for chains in superchains]
    between = [mean.var(ddof=1) if len(mean) > 1 else 0.0 for mean in means]
    within = [chains.var(axis=1, ddof=1).mean() for chains in superchains]
    apart = np.var([mean.mean() for mean in means], ddof=1)
    return float(np.sqrt(1.0 + apart / np.mean(np.add(between, within))))


def _lasting_r_hat(whole: np.ndarray) -> float:
    """Return R-hat, the variance between chains that of differences which last for their length.

    It is the covariance of the means of their first and last quarters: of chains that mix it is 0,
    however few their draws. 1 if it may be chance.
    """
    quarter = whole.shape[1] // 4
    variances = np.cov(whole[:, :quarter].mean(axis=1), whole[:, -quarter:].mean(axis=1))
    correlation = variances[0, 1] / np.sqrt(variances[0, 0] * variances[1, 1])
    if not np.arctanh(min(correlation, 1.0)) * np.sqrt(len(whole) - 3) > CHANCE:
        return 1.0
    return float(np.sqrt(1.0 + variances[0, 1] / whole.var(axis=1, ddof=1).mean()))


def lone_chain(draws: np.ndarray) -> int | None:
    """Return the index of the chain whose mean is farthest from the others, if it is `LONE`."""
    means = draws.mean(axis=1)
    distances = np.abs(means - np.median(means))
    lone = int(np.argmax(distances))
    return lone if distances[lone] > LONE * 1.4826 * np.median(distances) else None


@functools.lru_cache(maxsize=4)
def _scores(n: int) -> np.ndarray:
    """Return the normal scores of n different draws, in order."""
    scores = _score(np.arange(1.0, n + 1.0), n)
    scores.flags.writeable = False
    return scores


def _score(ranks: np.ndarray, n: int) -> np.ndarray:
    """Return Blom's normal scores of ranks among n draws."""
    return ndtri((ranks - 0.375) / (n + 0.25))
