"""Agreement of a published number, a mean over repeats, with repeats of our own.

The published number has no standard error. We take the standard deviation s of our repeats for
theirs, so that the joint Monte Carlo error of the difference of the means is
s sqrt(1 / n + 1 / m) for n repeats of ours and m of theirs. The rounding of the published number,
to three digits, is added to it in squares. A number agrees if the difference is below the quantile
of Student's t with n - 1 degrees of freedom that belongs to three standard errors of a normal. If a
paper gives the standard deviation of its repeats, the joint error has both, with the degrees of
freedom of Welch (1947).
"""

from collections.abc import Iterable
from typing import NamedTuple

import numpy as np
from scipy import stats

AGREES, BETTER, DIFFERS, NOT_JUDGED = "agrees", "better", "differs", "not judged"
CLASSES = (AGREES, BETTER, DIFFERS, NOT_JUDGED)
# standard errors of a normal distribution, and repeats from which a spread is worth a verdict
LIMIT, FEWEST = 3.0, 3
DIGITS = 3  # of a published number


class Comparison(NamedTuple):
    """Our mean and standard deviation over repeats next to the published number.

    joint_error
        Joint standard error of the difference.
    allowed
        Largest difference that agrees.
    verdict
        One of `CLASSES`.
    """

    mean: float
    sd: float
    repeats: int
    published: float
    joint_error: float
    allowed: float
    verdict: str

    @property
    def tolerance(self) -> float:
        """Largest difference that agrees, as a share of the published number."""
        return self.allowed / abs(self.published) if self.published else np.nan


class Spread(NamedTuple):
    """A standard deviation that several methods share, and its degrees of freedom."""

    sd: float
    freedom: int


def pooled_spread(groups: Iterable[Iterable[float]]) -> Spread:
    """Pool the standard deviations within groups, for methods with few repeats each.

    Examples
    --------
    >>> pooled_spread([[1.0, 3.0], [10.0, 12.0, 14.0]])
    Spread(sd=1.8257418583505538, freedom=3)
    """
    arrays = [np.asarray(list(group), dtype=float) for group in groups]
    freedom = sum(len(values) - 1 for values in arrays)
    squares = sum(float(((values - values.mean()) ** 2).sum()) for values in arrays)
    return Spread(float(np.sqrt(squares / freedom)), freedom)


def compare(
    ours: Iterable[float],
    published: float,
    published_repeats: int,
    more_is_better: bool = True,
    less_is_better: bool = False,
    pooled: Spread | None = None,
) -> Comparison:
    """Compare repeats of one number with a published mean; NaN means that it is not known.

    If neither more nor less is better, a number outside the error differs. `pooled` takes the place
    of the standard deviation of these repeats.

    Examples
    --------
    >>> compare([98.0, 101.0, 104.0], 100.0, 10).verdict
    'agrees'
    >>> compare([198.0, 201.0, 204.0], 100.0, 10).verdict
    'better'
    """
    mean, sd, n = _summarized(ours)
    if not np.isfinite(published) or n < FEWEST:
        return Comparison(mean, sd, n, published, np.nan, np.nan, NOT_JUDGED)
    spread = Spread(sd, n - 1) if pooled is None else pooled
    variance = spread.sd**2 * (1 / n + 1 / published_repeats) + _rounding(published) ** 2 / 12
    error, difference = float(np.sqrt(variance)), mean - published
    allowed = _quantile(spread.freedom) * error
    if abs(difference) <= allowed:
        verdict = AGREES
    else:
        better = (more_is_better and difference > 0) or (less_is_better and difference < 0)
        verdict = BETTER if better else DIFFERS
    return Comparison(mean, sd, n, published, error, allowed, verdict)


class Published(NamedTuple):
    """A published mean over repeats with their standard deviation; `exact` if the truth is known.

    A number of ours that is outside the joint error is better if it has the truth within its own
    error, while the published one has not.
    """

    mean: float
    sd: float
    repeats: int
    exact: float = np.nan


def compare_with_spread(
    ours: Iterable[float], published: Published, less_is_better: bool = False
) -> Comparison:
    """Compare repeats of one number with a mean whose standard deviation is published, too.

    With `less_is_better`, smaller numbers outside the error are better, whatever the truth is.

    Examples
    --------
    >>> compare_with_spread([98.0, 101.0, 104.0], Published(100.0, 2.0, 20)).verdict
    'agrees'
    """
    (mean, sd, n), m = _summarized(ours), published.repeats
    if not np.isfinite(published.mean) or n < FEWEST:
        return Comparison(mean, sd, n, published.mean, np.nan, np.nan, NOT_JUDGED)
    parts = sd**2 / n, published.sd**2 / m
    error = float(np.sqrt(sum(parts)))
    freedom = sum(parts) ** 2 / (parts[0] ** 2 / (n - 1) + parts[1] ** 2 / (m - 1))
    allowed = _quantile(freedom) * error
    if abs(mean - published.mean) <= allowed:
        verdict = AGREES
    else:
        ours_off, theirs_off = abs(mean - published.exact), abs(published.mean - published.exact)
        right = ours_off <= limit(n) * np.sqrt(parts[0])
        wrong = theirs_off > limit(m) * np.sqrt(parts[1])
        better = mean < published.mean if less_is_better else right and wrong
        verdict = BETTER if better else DIFFERS
    return Comparison(mean, sd, n, published.mean, error, allowed, verdict)


def compare_spreads(ratio: float, repeats: int, published_repeats: int) -> str:
    """Judge a ratio of standard deviations, ours over the published one, by an F test.

    "wider" and "narrower" are beyond the level of three standard errors of a normal.

    Examples
    --------
    >>> compare_spreads(1.2, 10, 20), compare_spreads(3.4, 12, 20), compare_spreads(0.2, 12, 20)
    ('agrees', 'wider', 'narrower')
    """
    if min(repeats, published_repeats) < FEWEST or not np.isfinite(ratio):
        return NOT_JUDGED
    law = stats.f(repeats - 1, published_repeats - 1)
    if min(law.sf(ratio**2), law.cdf(ratio**2)) >= stats.norm.sf(LIMIT):
        return AGREES
    return "wider" if ratio > 1.0 else "narrower"


def _summarized(repeats: Iterable[float]) -> tuple[float, float, int]:
    """Return mean, standard deviation and number of the repeats that are finite."""
    values = np.asarray(list(repeats), dtype=float)
    values = values[np.isfinite(values)]
    mean = float(values.mean()) if len(values) else np.nan
    return mean, float(values.std(ddof=1)) if len(values) > 1 else np.nan, len(values)


def limit(repeats: int) -> float:
    """Return the number of joint errors that a difference may have."""
    return _quantile(repeats - 1)


def _quantile(freedom: float) -> float:
    return float(stats.t.ppf(stats.norm.cdf(LIMIT), freedom))


def _rounding(published: float) -> float:
    """Return the unit of the last of three digits."""
    if published == 0:
        return 0.0
    return float(10.0 ** (np.floor(np.log10(abs(published))) + 1 - DIGITS))


def class_of(comparisons: Iterable[Comparison]) -> str:
    """Return the class of a row of several numbers.

    It differs if one of them is worse than published beyond the error; it is better if one is
    better and none worse; otherwise it agrees.
    """
    verdicts = {comparison.verdict for comparison in comparisons} - {NOT_JUDGED}
    for verdict in (DIFFERS, BETTER, AGREES):
        if verdict in verdicts:
            return verdict
    return NOT_JUDGED
