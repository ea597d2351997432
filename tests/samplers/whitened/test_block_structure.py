"""The structure of Gaussian blocks is read from gradients to rounding error, or not at all."""

import numpy as np
import pytest
from scipy import linalg

from stanadapt.engine.block_map import INVERSE, PRECISION, RATIO
from stanadapt.samplers.whitened.block_structure import _symmetric, apply_block, find_block
from stanadapt.samplers.whitened.block_terms import Rows, search_functions
from stanadapt.targets.declared_bounds import CORRELATION
from tests.helpers.gaussian_blocks import LEVELS, STEP, LocalLevel, anywhere

SCALES = {LEVELS: None, LEVELS + 1: None}


def rows(count=300, seed=1, model=None):
    x = anywhere(np.random.default_rng(seed), count)
    model = model or LocalLevel()
    return x, np.array([model.gradient(row) for row in x])


def dense(block, k):
    """Return a matrix of a map as it is, in the order of the coordinates."""
    n = len(block.block)
    out = np.zeros((n, n))
    for i in range(n):
        begin, width = block.start[i], i - block.first[i] + 1
        out[i, block.first[i] : i + 1] = block.precisions[k, begin : begin + width]
    out = out + np.tril(out, -1).T
    back = np.argsort(block.block)
    return out[np.ix_(back, back)]


def test_the_local_level_is_read_from_few_rows_far_from_the_posterior():
    x, g = rows()
    block = find_block(x, g, SCALES)
    u, s = ((LEVELS, True, -2),), ((LEVELS + 1, True, -2),)
    assert sorted(block.functions) == [(), u, s]
    assert sorted(block.map.block) == list(range(LEVELS))
    # whole numbers are read to the bit, so that the neck is exact at any depth
    np.testing.assert_array_equal(dense(block.map, block.functions.index(u)), STEP.T @ STEP)
    np.testing.assert_array_equal(dense(block.map, block.functions.index(s)), np.eye(LEVELS))
    # a chain with its neighbors: 2 n - 1 entries
    assert block.map.precisions.shape[1] == 2 * LEVELS - 1
    y, slopes, _ = apply_block(block.map, x, g)
    np.testing.assert_allclose(slopes[:, :LEVELS], -y[:, :LEVELS], atol=1e-9)
    # what is left of the hubs' gradients is the marginal score: the same whatever the states are
    other = x.copy()
    other[:, :LEVELS] += np.random.default_rng(2).standard_normal((len(x), LEVELS))
    gradients = np.array([LocalLevel().gradient(row) for row in other])
    again = apply_block(block.map, other, gradients)[1]
    np.testing.assert_allclose(again[:, LEVELS:], slopes[:, LEVELS:], rtol=1e-7, atol=1e-7)


def test_scales_without_declared_bounds_and_their_marginal_score():
    block = find_block(*rows(400), {})
    assert block.map.hubs.tolist() == [LEVELS, LEVELS + 1]
    model, (x, g) = LocalLevel(), rows()
    block = find_block(x, g, SCALES)
    _, slopes, _ = apply_block(block.map, x[:5], g[:5])
    for row, found in zip(x[:5], slopes, strict=True):
        for j, step in ((0, [1e-5, 0.0]), (1, [0.0, 1e-5])):
            up, down = (model.marginal(*(row[LEVELS:] + s * np.array(step))) for s in (1, -1))
            assert found[LEVELS + j] == pytest.approx((up - down) / 2e-5, rel=1e-5, abs=1e-5)


def test_scales_with_an_upper_bound_are_found_too():
    x, g = rows()
    upper = np.array([50.0, 9.0])
    hubs = np.log(np.exp(x[:, LEVELS:]) / (upper - np.exp(x[:, LEVELS:])))
    bounded = np.column_stack([x[:, :LEVELS], hubs])
    block = find_block(
        bounded, g, {LEVELS + i: (1.0, 0.0, float(high)) for i, high in enumerate(upper)}
    )
    u, s = ((LEVELS, False, PRECISION),), ((LEVELS + 1, False, PRECISION),)
    assert sorted(block.functions) == [(), u, s]
    np.testing.assert_array_equal(dense(block.map, block.functions.index(u)), STEP.T @ STEP)
    y, slopes, _ = apply_block(block.map, bounded, g)
    np.testing.assert_allclose(slopes[:, :LEVELS], -y[:, :LEVELS], atol=1e-9)


def pairs(rng, count):
    """Rows of six pairs of effects: log scales, atanh of their correlation, log noise, effects."""
    x = rng.standard_normal((count, 16)) * 0.5
    g = np.zeros_like(x)
    for row, out in zip(x, g, strict=True):
        r, scales = np.tanh(row[2]), np.exp(row[:2])
        inverse = np.array([[1.0, -r], [-r, 1.0]]) / (1.0 - r * r)
        precision = inverse / np.outer(scales, scales)
        effects = row[4:].reshape(6, 2)
        out[4:] = (-effects @ precision + np.exp(-2.0 * row[3]) * (1.0 - effects)).ravel()
        out[:4] = -row[:4]  # something: hubs are not members
    return x, g


def test_correlations_and_free_coordinates_are_exact():
    x, g = pairs(np.random.default_rng(3), 400)
    block = find_block(x, g, {0: None, 1: None, 2: CORRELATION, 3: None})
    assert {f for f in block.functions if f} == {
        ((0, True, -2), (2, False, INVERSE)), ((1, True, -2), (2, False, INVERSE)),
        ((0, True, -1), (1, True, -1), (2, False, RATIO)), ((3, True, -2),),
    }  # fmt: skip
    y, slopes, _ = apply_block(block.map, x, g)
    np.testing.assert_allclose(slopes[:, 4:], -y[:, 4:], atol=1e-8)
    # beside a block there may be others, and its mean is linear in these
    rng = np.random.default_rng(5)
    x = rng.standard_normal((300, 8))
    precision = np.exp(-2.0 * x[:, :1])
    away = x[:, 2:] - 0.5 * x[:, 1:2]
    g = np.column_stack([rng.standard_normal((300, 1)), -(x[:, 1] ** 3), -precision * away])
    block = find_block(x, g, {0: None})
    assert block.map.free.tolist() == [1]
    y, slopes, _ = apply_block(block.map, x, g)
    np.testing.assert_allclose(y[:, 2:], away * np.sqrt(precision), atol=1e-9)
    np.testing.assert_allclose(slopes[:, 2:], -y[:, 2:], atol=1e-9)


def smooths(rng, count):
    """Rows of two smooth terms as brms writes them, drawn where the data know the noise well.

    An intercept whose prior is not normal, a slope, standard normal weights of each term, their
    scales, and the noise.
    """
    sizes, data = (6, 5), 150
    bases = [rng.standard_normal((data, 1)), *(rng.standard_normal((data, k)) for k in sizes)]
    y = rng.standard_normal(data)
    x, n = np.empty((count, 13 + 3)), 13
    g = np.zeros_like(x)
    x[:, n:] = rng.standard_normal((count, 3)) * [0.3, 0.5, 0.06] + [0.0, -1.0, -0.5]
    x[:, 0] = 0.1 * rng.standard_normal(count)
    for row, out in zip(x, g, strict=True):
        scales = np.exp(np.repeat([0.0, row[n], row[n + 1]], (1, *sizes)))
        design, precise = np.column_stack(bases) * scales, np.exp(-2.0 * row[n + 2])
        prior = np.diag(np.append(0.04, np.ones(sum(sizes))))
        factor = linalg.cholesky(prior + precise * design.T @ design, lower=True)
        mean = linalg.cho_solve((factor, True), precise * design.T @ (y - row[0]))
        noise = linalg.solve_triangular(factor.T, rng.standard_normal(n - 1))
        row[1:n] = mean + noise
        rest = precise * (y - row[0] - design @ row[1:n])
        out[1:n] = design.T @ rest - prior @ row[1:n]
        out[0] = rest.sum() - 4.0 * row[0] / (1.0 + row[0] ** 2)
    return x, g


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_scales_of_weights_and_a_noise_that_hardly_varies_are_found_together(seed):
    x, g = smooths(np.random.default_rng(seed), 350)
    block = find_block(x, g, {13: None, 14: None, 15: None})
    one, other, noise = (13, True, 1), (14, True, 1), (15, True, -2)
    assert set(block.functions) == {
        (), (noise,), (one, noise), (other, noise), (one, other, noise),
        ((13, True, 2), noise), ((14, True, 2), noise),
    }  # fmt: skip
    assert sorted(block.map.block) == list(range(1, 13))
    assert block.map.free.tolist() == [0]


@pytest.mark.parametrize("spoil", ["noise", "poisson", "improper", "fixed", "partly"])
def test_what_is_not_exact_is_not_taken(spoil):
    x, g = rows(600)
    if spoil == "noise":
        g = g * (1.0 + 1e-4 * np.random.default_rng(1).standard_normal(g.shape))
    elif spoil == "poisson":
        g[:, :LEVELS] -= np.exp(np.clip(x[:, :LEVELS], -5, 5))
    elif spoil == "partly":  # it is Gaussian for small steps alone
        large = x[:, LEVELS] > 0.3
        g[large, :LEVELS] += np.tanh(x[large, :LEVELS])
    elif spoil == "improper":  # linear in the states, but no density
        g[:, :LEVELS] *= -1.0
    else:  # hubs that never vary are no hubs
        x[:, LEVELS:] = 0.0
        g = np.array([LocalLevel().gradient(row) for row in x])
    assert find_block(x, g, SCALES) is None


def test_members_without_hubs_and_shared_hubs():
    """Two effects without data are standard normal; those with counts are not Gaussian."""
    rng = np.random.default_rng(8)
    x = 0.5 * rng.standard_normal((300, 12))
    s = np.exp(x[:, [0]])
    g = -x
    g[:, 3:] += s * (1.0 - np.exp(s * x[:, 3:]))
    assert search_functions(Rows.standardize(x, g, {0: None})) != [()]
    assert find_block(x, g, {0: None}) is None
    rng = np.random.default_rng(7)
    x = rng.standard_normal((300, 9))
    shared, own = np.exp(-2.0 * x[:, [0]]), np.exp(-2.0 * x[:, [1]])
    first, second = x[:, 2:5], x[:, 5:]
    g = np.column_stack([x[:, :2] ** 3, -shared * (first - 1.0), -shared * second - own * second])
    block = find_block(x, g, {0: None, 1: None})
    assert block.map.hubs.tolist() == [0, 1]
    y, slopes, _ = apply_block(block.map, x, g)
    np.testing.assert_allclose(slopes[:, 2:], -y[:, 2:], atol=1e-9)


def test_rounding_leaves_no_term_indefinite():
    """Far in the neck, where this term is much larger than the others, Q would not be definite."""
    matrix = 0.3 * STEP.T @ STEP - 1e-8 * np.eye(LEVELS)
    (found,) = _symmetric(matrix[None], [((LEVELS, True, -2),)])
    assert np.linalg.eigvalsh(found)[0] > -1e-13


@pytest.mark.parametrize("count", [0, 1, 20, 60])
def test_too_few_rows_show_nothing(count):
    x, g = rows()
    assert find_block(x[:count], g[:count], SCALES) is None


def test_failed_rows_are_left_out_and_searches_end():
    x, g = rows(600)
    g[::10, 3] = np.nan
    x[1::10, 5] = np.inf
    assert len(find_block(x, g, SCALES).map.block) == LEVELS
    # functions that gain on some coordinates, and are needless on all, must not come again
    rng = np.random.default_rng(1)
    x = rng.normal(size=(240, 3))
    g = -(x + 0.3 * np.exp(0.6 * x[:, [1, 2, 0]]) - 0.2 * np.tanh(2.0 * x[:, [2, 0, 1]]))
    assert search_functions(Rows.standardize(x, g, {})) == [()]
