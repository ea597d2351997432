"""Agreement of a published number, a mean over repeats, with repeats of our own.

The published number has no standard error. We take the standard deviation s of our repeats for
theirs, so that the joint Monte Carlo error of the difference of the means is
s sqrt(1 / n + 1 / m) for n repeats of ours and m of theirs. The rounding of the published number,
to three digits, is added to it in squares. A number agrees if the difference is below the quantile
of Student's t with n - 1 degrees of freedom that belongs to three standard errors of a normal.
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
    """Our mean and standard deviation over repeats beside the published number.

    joint_error
        Joint standard error of the difference.
    verdict
        One of `CLASSES`.

    """

    mean: float
    sd: float
    repeats: int
    published: float
    joint_error: float
    verdict: str


def compare(
    ours: Iterable[float], published: float, published_repeats: int, more_is_better: bool = True
) -> Comparison:
    """Compare repeats of one number with a published mean; NaN means that it is not known.

    Examples
    --------
    >>> compare([98.0, 101.0, 104.0], 100.0, 10).verdict
    'agrees'
    >>> compare([198.0, 201.0, 204.0], 100.0, 10).verdict
    'better'

    """
    values = np.asarray(list(ours), dtype=float)
    values = values[np.isfinite(values)]
    n = len(values)
    mean = float(values.mean()) if n else np.nan
    sd = float(values.std(ddof=1)) if n > 1 else np.nan
    if not np.isfinite(published) or n < FEWEST:
        return Comparison(mean, sd, n, published, np.nan, NOT_JUDGED)
    variance = sd**2 * (1 / n + 1 / published_repeats) + _rounding(published) ** 2 / 12
    error, difference = float(np.sqrt(variance)), mean - published
    if abs(difference) <= limit(n) * error:
        verdict = AGREES
    else:
        verdict = BETTER if more_is_better and difference > 0 else DIFFERS
    return Comparison(mean, sd, n, published, error, verdict)


def limit(repeats: int) -> float:
    """Return the number of joint errors that a difference may have."""
    return float(stats.t.ppf(stats.norm.cdf(LIMIT), repeats - 1))


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
