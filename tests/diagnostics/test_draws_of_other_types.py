"""Fits of other libraries with draws that are truth values, integers complex or no numbers."""

import warnings

import numpy as np
import pytest

import stanadapt as sa
from stanadapt import results
from stanadapt.diagnostics.verdict import verdict
from tests.helpers.codes import raises

RNG = np.random.default_rng(1)
SHAPE = (2, 400)
REAL = {
    "truth values": RNG.random(SHAPE) < 0.3,
    "a constant": np.ones(SHAPE, bool),
    "integers": RNG.integers(-3, 4, SHAPE),
    "unsigned integers": RNG.integers(0, 4, SHAPE).astype(np.uint8),
    "two bytes": RNG.normal(size=SHAPE).astype(np.float16),
}
OTHER = {
    "objects": RNG.normal(size=SHAPE).astype(object),
    "text": RNG.integers(0, 3, SHAPE).astype(str),
}


REFERENCE, BESIDE = np.random.default_rng(2).normal(size=(2, *SHAPE))


def fit(x):
    return results.build({"posterior": {"x": x, "y": BESIDE}}, {})


def table(x):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return sa.compare({"one": fit(REFERENCE), "other": fit(x)}, baseline="one")


@pytest.mark.parametrize("x", REAL.values(), ids=list(REAL))
def test_draws_of_every_real_type_are_compared_as_floats(x):
    ours, theirs = table(x), table(x.astype(float))
    np.testing.assert_array_equal(ours.select_dtypes("number"), theirs.select_dtypes("number"))
    column = results.columns(fit(x))["x"]
    assert column.dtype == np.float64
    np.testing.assert_array_equal(column, x.astype(float))


def test_complex_draws_are_two_columns():
    rng = np.random.default_rng(3)
    x = rng.normal(size=(*SHAPE, 2)) + 1j * rng.normal(size=(*SHAPE, 2))
    one, several = results.columns(fit(x[..., 0])), results.columns(fit(x), wanted={"x"})
    assert list(one) == ["x.real", "x.imag", "y"]
    assert list(several) == ["x.real[1]", "x.real[2]", "x.imag[1]", "x.imag[2]"]
    np.testing.assert_array_equal(several["x.imag[2]"], x[..., 1].imag)
    far = x + 1j * np.arange(SHAPE[0])[:, None, None]
    assert (verdict(fit(x)).verdict, verdict(fit(far)).verdict) == ("fine", "do not use")


@pytest.mark.parametrize("x", OTHER.values(), ids=list(OTHER))
def test_what_is_no_number_is_left_out(x):
    assert list(results.columns(fit(x))) == ["y"]
    assert len(table(x)) == 2
    only = results.build({"posterior": {"x": x}}, {})
    with raises("no_numeric_draws", "'other'"):
        sa.compare({"one": fit(x), "other": only})
