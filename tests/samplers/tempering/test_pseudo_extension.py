"""The pseudo-extended density against its formula, its derivatives and its limits."""

import numpy as np
import pytest
from numba import carray
from scipy import stats

from stanadapt.engine.compiled.jit import CFunction, c_function
from stanadapt.engine.density import (
    FAILED_CALLS,
    GRADIENT_CALLS,
    GRADIENT_SIGNATURE,
    VALUE_SIGNATURE,
    make_density,
    value,
    value_and_gradient,
)
from stanadapt.samplers.tempering.extended import read_design
from stanadapt.samplers.tempering.pseudo_extension import (
    choose,
    extension_of,
    interpolate,
    make_extended,
    over_ladder,
    source_of,
    weigh,
)
from stanadapt.samplers.tempering.reference_distribution import ReferenceDistribution
from tests.helpers import pseudo_extension_formula
from tests.helpers.targets import Awkward
from tests.helpers.tempered_formula import log_target

LADDER = (np.array([0.0, 0.1, 0.35, 1.0]), np.array([0.3, -1.0, -1.4, 2.0]))
OPTIONS = {
    "free": {"between": (0.0, 1.0)},
    "narrow": {"between": (0.2, 0.9)},
    "calibrated": {"between": (0.05, 1.0), "ladder": LADDER},
    "fixed": {"fixed_at": 0.3},
    "collapsed": {"ladder": LADDER},
}
MODE = {"narrow": "free", "calibrated": "free"}
COVARIANCE = np.array([[1.0, 0.3, 0.1], [0.3, 4.0, -1.0], [0.1, -1.0, 9.0]])
CENTER = np.array([0.5, 0.0, -1.0])
PRIOR = stats.multivariate_normal(CENTER, np.diag([4.0, 1.0, 25.0]))
STUDENT = stats.multivariate_t(CENTER, np.diag([4.0, 1.0, 25.0]), df=3)
DENSE = stats.multivariate_normal(CENTER, COVARIANCE)
# as it is given, and its log density
REFERENCES = {
    "none": (None, lambda x: 0.0),
    "gaussian": (ReferenceDistribution(CENTER, [2.0, 1.0, 5.0]), PRIOR.logpdf),
    "student": (ReferenceDistribution(CENTER, [2.0, 1.0, 5.0], degrees=3.0), STUDENT.logpdf),
    "dense": (ReferenceDistribution(CENTER, covariance=COVARIANCE), DENSE.logpdf),
    "prior": (None, PRIOR.logpdf),
}
CASES = [(mode, reference) for mode in OPTIONS for reference in REFERENCES]
# by how much value calls of a base may exceed gradient calls, as on native libraries
OFFSET = 7.25


@c_function(VALUE_SIGNATURE)
def _prior_value(handle, propto, jacobian, position, out, message):
    x, total = carray(position, 3), 0.0
    total -= 0.5 * ((x[0] - 0.5) ** 2 / 4.0 + x[1] ** 2 + (x[2] + 1.0) ** 2 / 25.0)
    carray(out, 1)[0] = total - 1.5 * np.log(2 * np.pi) - np.log(10.0)
    return 0


@c_function(GRADIENT_SIGNATURE)
def _prior_gradient(handle, propto, jacobian, position, out, gradient, message):
    x, g, total = carray(position, 3), carray(gradient, 3), 0.0
    total -= 0.5 * ((x[0] - 0.5) ** 2 / 4.0 + x[1] ** 2 + (x[2] + 1.0) ** 2 / 25.0)
    carray(out, 1)[0] = total - 1.5 * np.log(2 * np.pi) - np.log(10.0)
    g[0], g[1], g[2] = -(x[0] - 0.5) / 4.0, -x[1], -(x[2] + 1.0) / 25.0
    return 0


@c_function(VALUE_SIGNATURE)
def _shifted_value(handle, propto, jacobian, position, out, message):
    """The awkward target as in a native library: without propto, with another constant."""
    if propto != 0:
        return -1
    x = carray(position, 3)
    a, b = (x[1] - 1.0) / 0.3, (x[2] + 2.0) / 4.0
    total = 2.0 * x[0] - np.exp(x[0]) - 0.5 / 0.51 * (a * a - 1.4 * a * b + b * b)
    carray(out, 1)[0] = total + OFFSET
    return 0


def make(mode, reference="none", n=2, base=None):
    options = {"between": (0.0, 1.0), "fixed_at": 0.5, "ladder": None, **OPTIONS[mode]}
    design = read_design(n, MODE.get(mode, mode), *options.values())
    prior = None
    if reference == "prior":
        prior = source_of(make_density(_prior_value.address, _prior_gradient.address, 0, 3))
    given, _ = REFERENCES[reference]
    distribution = given and given.compiled(3)
    return make_extended(design, 3, base or source_of(Awkward().density()), distribution, prior)


def formula(function, density, mode, reference, position):
    n = len(extension_of(density).weight)
    x, u = position[: 3 * n].reshape(n, 3), np.resize(position[3 * n :], n)
    options = OPTIONS[mode]
    low, high = options.get("between", (options.get("fixed_at", 0.0), 1.0))
    others = REFERENCES[reference][1], MODE.get(mode, mode), low, high, options.get("ladder")
    return function(x, u, log_target, *others)


def positions(density, count=4, seed=1):
    """Positions near and far; in the last, one pseudo-sample has all the weight."""
    rows = 2.0 * np.random.default_rng(seed).standard_normal((count, density.dim))
    n = len(extension_of(density).weight)
    rows[:, : 3 * n] += np.tile([0.4, 1.0, -2.0], n)
    rows[:, 1 : 3 * n : 3] = 1.0 + 0.1 * (rows[:, 1 : 3 * n : 3] - 1.0)
    rows[-1, 0] = -30.0
    return rows


def extrapolated(density, x, i):
    """d/dx_i by central differences of three widths with Richardson extrapolation."""
    e, table = np.eye(len(x))[i], []
    for h in (4e-3, 2e-3, 1e-3):
        table.append((value(density, x + h * e) - value(density, x - h * e)) / (2 * h))
    a, b, c = table
    first, second = (4 * b - a) / 3, (4 * c - b) / 3
    return (16 * second - first) / 15


@pytest.mark.parametrize("n", [1, 2, 5])
@pytest.mark.parametrize(("mode", "reference"), CASES)
def test_value_and_gradient_are_those_of_the_mixture(mode, reference, n):
    density = make(mode, reference, n)
    for x in positions(density, 3)[:2]:
        gradient = np.empty(density.dim)
        assert np.isfinite(value_and_gradient(density, x, gradient))
        numeric = [extrapolated(density, x, i) for i in range(density.dim)]
        np.testing.assert_allclose(gradient, numeric, rtol=1e-7, atol=1e-8)
    for x in positions(density):
        expected = formula(pseudo_extension_formula.log_extended, density, mode, reference, x)
        assert value(density, x) == pytest.approx(expected, rel=1e-12, abs=1e-11)
        assert value_and_gradient(density, x, np.empty(density.dim)) == value(density, x)


@pytest.mark.parametrize(("mode", "reference"), CASES)
def test_weights_and_values_without_propto_are_those_of_the_mixture(mode, reference):
    density = make(mode, reference, 3)
    rows = positions(density)
    temperatures, weights = np.empty((2, 4, 3))
    weigh(extension_of(density), rows, temperatures, weights)
    for row, found in zip(rows, weights, strict=True):
        expected = formula(pseudo_extension_formula.weights, density, mode, reference, row)
        np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-12)
    assert temperatures.min() >= OPTIONS[mode].get("between", (0.0, 1.0))[0]
    assert temperatures.max() <= 1.0
    # otherwise their constant would change g and the weights, except with N = 1
    awkward = source_of(Awkward().density())
    shifted = awkward._replace(
        value_address=_shifted_value.address, value_propto=0, offset=OFFSET
    )  # fmt: skip
    one, other = make(mode, reference), make(mode, reference, base=shifted)
    for x in positions(one):
        assert value(other, x) == pytest.approx(value(one, x), rel=1e-12, abs=1e-11)
    ignored = make(mode, reference, base=shifted._replace(offset=0.0))
    assert abs(value(ignored, x) - value(one, x)) > 1.0  # the test above can fail


def test_one_pseudo_sample_and_the_ends_of_the_temperature():
    base, x = Awkward().density(), np.array([0.3, -1.0, 2.0])
    expected, found = np.empty(3), np.empty(3)
    log_density = value_and_gradient(base, x, expected)
    for reference in REFERENCES:
        density = make("fixed", reference, 1)
        assert value_and_gradient(density, x, found) == log_density == value(density, x)
        np.testing.assert_array_equal(found, expected)
    density = make("free", "gaussian")
    x = positions(density, 2)[0]
    for u in (-800.0, -40.0, 40.0, 800.0):
        x[6:] = u, -u
        gradient = np.empty(8)
        assert np.isfinite(value_and_gradient(density, x, gradient))
        assert gradient[6] == pytest.approx(-np.sign(u), abs=1e-10)


@pytest.mark.parametrize("wall", ["base", "prior"])
@pytest.mark.parametrize("n", [1, 3])
def test_the_density_fails_if_any_pseudo_sample_fails(n, wall):
    walled = source_of(Awkward(wall=1.0).density())
    base, prior = (walled, None) if wall == "base" else (source_of(Awkward().density()), walled)
    design = read_design(n, "fixed", (0, 1), 0.5, None)
    density = make_extended(design, 3, base, None, prior)
    inside = np.tile([0.5, 1.0, -2.0], n)
    assert np.isfinite(value(density, inside))
    for i in range(n):
        x = inside.copy()
        x[3 * i] = 1.5
        gradient = np.ones(3 * n)
        assert value(density, x) == -np.inf
        assert value_and_gradient(density, x, gradient) == -np.inf
        assert not gradient.any()
        x[3 * i] = np.nan
        assert value(density, x) == -np.inf
    assert density.calls[FAILED_CALLS] == 3 * n
    assert density.calls[GRADIENT_CALLS] == n
    assert value(density, inside) == value(make_extended(design, 3, base, None, prior), inside)


def test_densities_share_no_memory_and_compile_late():
    one, other = make("free", "dense"), make("free", "dense")
    x, y = positions(one, 2)
    before = value(one, x)
    value(other, y)
    assert extension_of(one).weight.sum() == pytest.approx(1.0)
    assert not np.array_equal(extension_of(one).weight, extension_of(other).weight)
    assert value(one, x) == before
    assert one.calls[0] == 2
    assert other.calls[0] == 1
    function = c_function(VALUE_SIGNATURE)(lambda *arguments: 0)
    assert isinstance(function, CFunction)
    assert function._compiled is None


def test_ladders_are_summed_without_overflow_and_interpolated():
    b, log_z = LADDER
    for delta in (-1e6, -3.0, 0.0, 2.0, 1e6):
        log_sum, mean = over_ladder(b, log_z, delta)
        terms = b * delta - log_z
        w = np.exp(terms - terms.max())
        assert log_sum == pytest.approx(terms.max() + np.log(w.sum()), rel=1e-14)
        assert mean == pytest.approx((w * b).sum() / w.sum(), rel=1e-14)
    cubics = read_design(2, "free", (0.0, 1.0), 0.5, LADDER).cubics
    for b, log_z in zip(*LADDER, strict=True):
        assert interpolate(LADDER[0], cubics, b)[0] == pytest.approx(log_z, abs=1e-14)
    for b in (0.05, 0.2, 0.9):
        h = 1e-6
        up, down = (interpolate(LADDER[0], cubics, b + s * h)[0] for s in (1, -1))
        assert interpolate(LADDER[0], cubics, b)[1] == pytest.approx(
            (up - down) / (2 * h), rel=1e-6
        )


def test_choose_draws_by_weight():
    n = 40_000
    weights = np.tile([0.2, 0.0, 0.7, 0.1], (n, 1))
    rows = np.tile(np.arange(8.0), (n, 1))
    out = np.empty((n, 2))
    choose(rows, weights, np.random.default_rng(3), out)
    np.testing.assert_array_equal(out[:, 1], out[:, 0] + 1)
    counts = np.bincount((out[:, 0] / 2).astype(int), minlength=4) / n
    # five standard errors of a binomial share: a false alarm has probability 2e-6
    assert np.all(np.abs(counts - weights[0]) <= 5 * np.sqrt(weights[0] * (1 - weights[0]) / n))
