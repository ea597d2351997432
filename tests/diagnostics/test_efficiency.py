"""Effective sample sizes and Monte Carlo errors of processes for which they are known.

An autoregression x[t] = rho x[t-1] + sqrt(1 - rho^2) e[t] has sd 1 and, for its mean,
ESS = n (1 - rho) / (1 + rho); its square has lag-k correlation rho^(2k), so for the variance
ESS = n (1 - rho^2) / (1 + rho^2), and the error of the sd is sqrt(2 / ESS) / 2.
"""

import threading
import warnings
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from stanadapt.diagnostics import mixing
from stanadapt.diagnostics.mixing import efficiency, map_columns
from tests.helpers.autoregression import autoregression


def test_infinite_and_missing_values_give_missing_numbers():
    """A column with NaN is listed, with NaN, so that its failure is visible."""
    x = autoregression(0.3, (2, 100))
    missing, infinite = x.copy(), x.copy()
    missing[0, 3], infinite[1, 7] = np.nan, np.inf
    result = efficiency({"x": x, "missing": missing, "infinite": infinite})
    assert result.names == ["x", "missing", "infinite"]
    assert np.isfinite(result.ess_bulk[0])
    assert np.isnan(result.ess_bulk[1])
    assert np.isnan(result.ess_bulk[2])


@pytest.mark.parametrize("rho", [-0.4, 0.0, 0.6, 0.9])
def test_known_ess(rho):
    """Over 40 replicates the mean ESS is within 5 errors, of at most 3 % each, of the truth."""
    n = 4 * 2000
    result = efficiency(
        {str(i): x for i, x in enumerate(autoregression(rho, (40, 4, 2000), seed=7))}
    )
    true_mean, true_square = n * (1 - rho) / (1 + rho), n * (1 - rho**2) / (1 + rho**2)
    # ArviZ caps the ESS at n log10(n), which rho = -0.4 does not reach
    bulk, error = result.ess_bulk.mean(), result.ess_bulk.std() / np.sqrt(40)
    assert error < 0.03 * true_mean
    # Geyer's truncation of the sum makes the estimate a little too high or too low
    assert abs(bulk - true_mean) < 5 * error + 0.05 * true_mean
    from_mean = (result.sd / result.mcse_mean) ** 2
    assert abs(from_mean.mean() - true_mean) < 5 * error + 0.05 * true_mean
    from_sd = 0.5 / result.mcse_sd**2
    assert abs(from_sd.mean() - true_square) < 0.1 * true_square


def test_of_many_draws_the_worst_columns_are_exact_and_the_others_estimated():
    """Batch means of 4 x 500 draws give ESS and errors within a third or so."""
    slow = {"slow": autoregression(0.97, (4, 500), seed=5), "broken": np.full((4, 500), np.nan)}
    slow["broken"][0] = 1.0
    usual = dict(zip(map(str, range(100)), autoregression(0.5, (100, 4, 500), seed=4), strict=True))
    exact, screened = (efficiency(usual | slow, most=most) for most in (10**9, 0))
    assert screened.names == exact.names
    for name, one, other in zip(exact._fields[1:], exact[1:], screened[1:], strict=True):
        assert one[100] == other[100], name
        assert np.isnan(other[101]), name
        if name.startswith(("ess", "mcse")):
            ratio = other[:100] / one[:100]
            assert np.abs(np.log(ratio)).max() < 0.5, name
            assert np.median(ratio) == pytest.approx(1.0, abs=0.15), name
    np.testing.assert_allclose(screened.mean[:100], exact.mean[:100], atol=1e-12)
    np.testing.assert_allclose(screened.sd[:101], exact.sd[:101], rtol=1e-12)
    assert np.nanmin(screened.ess_bulk) == np.nanmin(exact.ess_bulk)
    assert np.nanmax(screened.r_hat) == np.nanmax(exact.r_hat)


def test_columns_keep_order_and_scale_unless_constant():
    x = autoregression(0.3, (2, 400))
    result = efficiency({"b": x, "a": 1e-3 * x + 7, "c": -1e6 * x})
    assert result.names == ["b", "a", "c"]
    np.testing.assert_allclose(result.sd, result.sd[0] * np.array([1, 1e-3, 1e6]), rtol=1e-9)
    np.testing.assert_allclose(
        result.mcse_sd, result.mcse_sd[0] * np.array([1, 1e-3, 1e6]), rtol=1e-6
    )
    np.testing.assert_allclose(result.ess_bulk[:2], result.ess_bulk[0])
    assert result.mean[1] == pytest.approx(7, abs=1e-3)
    x = autoregression(0.3, (2, 100))
    result = efficiency({"fixed": np.full((2, 100), 3.0), "x": x, "whole": np.ones((2, 100), int)})
    assert result.names == ["x"]
    assert all(len(field) == 1 for field in result)
    assert all(len(field) == 0 for field in efficiency({"fixed": np.zeros((2, 50))}))


@pytest.mark.parametrize("values", [(1.535, -1.693, -1.637, -0.557), (0.0, 1.0)])
def test_chains_that_never_moved_cause_no_warnings_of_numpy(values):
    """Their R-hat is NaN or infinite: never a pass."""
    result = efficiency({"x": np.repeat(np.array(values)[:, np.newaxis], 500, axis=1)})
    assert not result.r_hat[0] < 1.01


def test_filters_of_warnings_are_restored():
    """There are many columns, so that several threads are inside ArviZ at the same time."""
    before = list(warnings.filters)
    columns = autoregression(0.5, (60, 4, 200))
    for _ in range(5):
        map_columns(lambda x: efficiency({"x": x}), columns, long=1)
        assert warnings.filters == before


def test_ctrl_c_does_not_wait_for_columns_that_have_not_started(monkeypatch):
    """Also while columns are submitted, which takes a second for 20,000."""
    begun, submitted, canceled = [], iter(range(10_000)), threading.Event()

    class Pressed(ThreadPoolExecutor):
        def submit(self, *arguments):
            if next(submitted) == 1000:
                raise KeyboardInterrupt
            return super().submit(*arguments)

        def shutdown(self, *arguments, **options):
            super().shutdown(*arguments, **{**options, "wait": False})
            canceled.set()
            super().shutdown(*arguments, **options)

    def slow(draws):
        begun.append(1)
        assert canceled.wait(60)

    monkeypatch.setattr(mixing, "ThreadPoolExecutor", Pressed)
    with pytest.raises(KeyboardInterrupt):
        map_columns(slow, [np.arange(4.0)] * 10_000, long=1)
    assert len(begun) < 100
