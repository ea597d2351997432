"""The past of a chain: evenly thinned, evenly drawn from, and its statistics."""

import numpy as np
import pytest
from scipy.spatial.distance import pdist

from stanadapt.engine.numerics import triangular
from stanadapt.samplers.kameleon import history


def recorded(length, capacity, dim=2):
    """Return a History of positions (t, -t); the third entry must not be kept."""
    kept = history.no_past(capacity, dim)
    for t in range(length):
        kept = history.record(kept, np.array([t, -t, 1e9]))
    return kept


@pytest.mark.parametrize("capacity", [10, 11])
@pytest.mark.parametrize("length", [0, 1, 9, 10, 11, 39, 40, 41, 1000, 5119, 5120])
def test_positions_are_thinned_evenly(capacity, length):
    kept = recorded(length, capacity)
    assert kept.seen == length
    times = kept.rows[: kept.count, 0]
    np.testing.assert_array_equal(times, np.arange(kept.stride - 1, length, kept.stride))
    np.testing.assert_array_equal(kept.rows[: kept.count, 1], -times)
    assert len(kept.rows) == 10
    if length >= 10:
        assert 5 <= kept.count <= 10


def test_all_positions_or_one_of_each_stretch_are_drawn():
    out = np.full((2, 12), np.nan)
    assert history.draw_columns(recorded(7, 20), out, np.random.default_rng(1)) == 7
    np.testing.assert_array_equal(out[:, :7], [np.arange(7), -np.arange(7)])
    # each is equally likely: 600 draws of 5 among 17; six standard errors
    kept, out, rng = recorded(17, 20), np.empty((2, 5)), np.random.default_rng(2)
    counts = np.zeros(17)
    for _ in range(600):
        assert history.draw_columns(kept, out, rng) == 5
        drawn = out[0].astype(int)
        assert (np.diff(drawn) >= 0).all()
        np.testing.assert_array_equal(drawn * 5 // 17 - np.arange(5) <= 1, True)
        counts[drawn] += 1
    share = 5 / 17
    assert np.abs(counts / 600 - share).max() < 6 * np.sqrt(share * (1 - share) / 600)


def test_covariances_are_shrunk_and_equal_pairs_left_out():
    rows = np.random.default_rng(3).standard_normal((7, 3)) @ np.diag([1.0, 5.0, 0.1]) + 2
    out = np.empty((3, 3))
    history.covariance(rows, out)
    expected = np.cov(rows.T, bias=True)
    expected[np.tril_indices(3, -1)] *= 7 / 10
    np.testing.assert_allclose(np.tril(out), np.tril(expected), rtol=1e-12)
    rows = np.repeat([[0.0, 0.0], [3.0, 4.0], [0.0, 1.0]], [50, 1, 1], axis=0)
    distances = np.sort([5.0] * 50 + [1.0] * 50 + [np.hypot(3, 3)])
    found = history.median_distance(rows, np.ones((1, 2)))
    assert found == pytest.approx(np.median(distances))
    for without_pairs in (rows[:50], rows[:1], rows[:0]):
        assert history.median_distance(without_pairs, np.ones((1, 2))) == 0.0


@pytest.mark.parametrize("n", [2, 3, 5])
def test_few_positions_have_a_positive_definite_covariance(n):
    rows, out = np.random.default_rng(4).standard_normal((n, 6)), np.empty((6, 6))
    history.covariance(rows, out)
    assert triangular.cholesky(out)
    rows[:, 2] = 1.0
    history.covariance(rows, out)
    assert not triangular.cholesky(out)


@pytest.mark.parametrize("n", [2, 40, 500, 1731])
def test_median_distance(n):
    rows = np.random.default_rng(5).standard_normal((n, 3))
    units = np.array([[0.5, 0.0, 0.0], [0.2, 2.0, 0.0], [0.1, -0.3, 1.0]])
    chosen = np.linalg.solve(units, rows.T).T
    if n > 500:
        chosen = chosen[np.arange(500) * n // 500]
    assert history.median_distance(rows, units) == pytest.approx(np.median(pdist(chosen)))
