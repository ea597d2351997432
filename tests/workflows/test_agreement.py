"""Verdicts on numbers with a published standard deviation, and on errors, of which less is better.

The verdicts without one are tested in test_reproduction.
"""

import numpy as np
import pytest
from scipy import stats

from workflows.reproduction.agreement import (
    Published,
    compare,
    compare_spreads,
    compare_with_spread,
    limit,
    pooled_spread,
)

OURS = 100 + 4 * np.array([-1.3, -0.9, -0.4, 0.4, 0.9, 1.3])  # mean 100, sd 4.27


def test_the_joint_error_has_both_standard_deviations():
    """The verdict turns where the p-value of Welch's test, by SciPy, is that of three errors."""
    verdicts = set()
    for published in np.linspace(100, 112, 49):
        one = compare_with_spread(OURS, Published(published, 2.0, 20))
        test = stats.ttest_ind_from_stats(one.mean, one.sd, 6, published, 2.0, 20, equal_var=False)
        agrees = test.pvalue > 2 * stats.norm.sf(3)
        assert one.verdict == ("agrees" if agrees else "differs")
        verdicts.add(one.verdict)
    assert len(verdicts) == 2
    assert one.joint_error == pytest.approx(np.sqrt(OURS.var(ddof=1) / 6 + 4 / 20))


def test_the_truth_and_spreads_are_judged():
    """Ours: 100 with standard error 1.68; six repeats, so 9.3 is allowed."""
    apart = Published(120.0, 2.0, 20, exact=101.0)
    assert limit(6) * OURS.std(ddof=1) / np.sqrt(6) == pytest.approx(9.3, abs=0.05)
    assert compare_with_spread(OURS, apart).verdict == "better"
    assert compare_with_spread(OURS, apart._replace(exact=119.5)).verdict == "differs"
    assert compare_with_spread(OURS, apart._replace(exact=111.0)).verdict == "differs"
    assert compare_with_spread(OURS, apart._replace(exact=np.nan)).verdict == "differs"
    # 12 repeats against 20: the 0.99865 quantile of F(11, 19) is 5.03, by tables of F
    root = np.sqrt(stats.f(11, 19).isf(stats.norm.sf(3)))
    assert root**2 == pytest.approx(4.9, abs=0.3)
    assert compare_spreads(1.001 * root, 12, 20) == "wider"
    assert compare_spreads(0.999 * root, 12, 20) == "agrees"
    assert compare_spreads(0.1, 12, 20) == "narrower"
    assert compare_spreads(9.0, 2, 20) == compare_spreads(np.nan, 12, 20) == "not judged"


@pytest.mark.parametrize("ours", [[], [1.0, 2.0], [np.nan] * 4])
def test_few_repeats_are_not_judged(ours):
    assert compare_with_spread(ours, Published(1.0, 0.1, 20)).verdict == "not judged"
    assert compare_with_spread(OURS, Published(np.nan, 0.1, 20)).verdict == "not judged"


def test_few_repeats_and_smaller_errors_are_judged():
    """Ours: 0.10, standard error 0.0017."""
    sides = {"more_is_better": False, "less_is_better": True}
    assert compare(OURS / 1000, 0.9, 10, **sides).verdict == "better"
    assert compare(OURS / 1000, 0.01, 10, **sides).verdict == "differs"
    assert compare(OURS / 1000, 0.9, 10, more_is_better=False).verdict == "differs"
    known = Published(120.0, 2.0, 20)
    assert compare_with_spread(OURS, known, less_is_better=True).verdict == "better"
    below = known._replace(mean=80.0)
    assert compare_with_spread(OURS, below, less_is_better=True).verdict == "differs"
    # alone, three repeats say nothing: 19 joint errors are allowed; with 27 degrees, 3.3
    three = [1.0, 1.4, 1.1]
    assert compare(three, 2.5, 10).verdict == "agrees"
    pooled = pooled_spread([three, *np.random.default_rng(1).normal(0, 0.2, (5, 6))])
    assert pooled.freedom == 27
    assert pooled.sd == pytest.approx(0.2, abs=0.08)  # three standard errors
    one = compare(three, 2.5, 10, pooled=pooled)
    assert one.verdict == "differs"
    assert one.joint_error == pytest.approx(pooled.sd * np.sqrt(1 / 3 + 1 / 10), rel=1e-3)
