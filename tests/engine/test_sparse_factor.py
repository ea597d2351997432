"""The factor of a sparse precision matrix, whatever the order of its coordinates."""

import numpy as np
import pytest
from scipy import sparse

from stanadapt.engine import metric_factor
from stanadapt.engine.sparse_factor import BAND, LARGEST_WIDTH, sparse_factor


def seasonal(n, means, rng):
    """A precision with links to the next and the fourth next state, and means; shuffled."""
    links = sparse.diags_array([1.0, -1.0], offsets=[0, 1], shape=(n, n)).tolil()
    links += sparse.diags_array([0.3], offsets=[4], shape=(n, n))
    design = sparse.hstack([links, rng.uniform(0.5, 1.0, (n, means))])
    matrix = (design.T @ design + 0.1 * sparse.eye_array(n + means)).tocsr()
    order = rng.permutation(n + means)
    return matrix[order][:, order]


@pytest.mark.parametrize("means", [0, 1, 3])
def test_the_covariance_is_the_inverse(means):
    precision = seasonal(60, means, np.random.default_rng(means))
    factor = sparse_factor(precision)
    n = 60 + means
    assert factor.shape[1] <= BAND + 8 + means
    root = metric_factor.written_out(factor, n)
    np.testing.assert_allclose(root @ root.T @ precision, np.eye(n), atol=1e-10)
    determinant = np.log(metric_factor.diagonal(factor, n)).sum()
    assert determinant == pytest.approx(-0.5 * np.linalg.slogdet(precision.toarray())[1])
    # estimates from 72 draws
    exact = np.sqrt(np.diag(np.linalg.inv(precision.toarray())))
    np.testing.assert_allclose(metric_factor.scales(factor, n) / exact, 1.0, atol=0.4)


def test_there_is_none_of_an_indefinite_or_a_wide_matrix():
    precision = seasonal(60, 0, np.random.default_rng(0))
    assert sparse_factor(sparse.csr_array(precision - 0.2 * sparse.eye_array(60))) is None
    n = 2 * LARGEST_WIDTH
    wide = sparse.eye_array(n) + 1e-4 * np.ones((n, n))
    assert sparse_factor(sparse.csr_array(wide)) is None
