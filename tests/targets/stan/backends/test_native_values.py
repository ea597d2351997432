"""Native models: constraining, unconstraining, and initial values."""

import json

import numpy as np
import pytest
import stanio

import stanadapt as sa
from stanadapt.targets.stan import toolchain
from stanadapt.targets.stan.backends import refusals
from stanadapt.targets.stan.program import read
from tests.helpers.codes import raises
from tests.helpers.coordinate_moves import misnamed
from tests.helpers.native_targets import backend, every_type, points, schools

__all__ = ["backend", "every_type", "schools"]  # fixtures

pytestmark = pytest.mark.cmdstan

EMPTY = {"nothing": [], "no_s": [], "no_matrix": []}


def test_coordinates_have_the_names_of_what_moves(every_type):
    assert misnamed(every_type) == []


PARTS = """
parameters {
  tuple(real, array[2] vector[2]) t; array[2, 2] tuple(real, array[2] real) at;
  array[2] complex_matrix[2, 2] z; tuple(real, tuple(real, array[2] simplex[2])) tt;
}
model { }
"""


def test_parts_of_tuples_and_of_complex_numbers_have_the_names_of_what_moves(backend):
    if refusals.refused_by(toolchain.require_cmdstan(), read(PARTS)):
        pytest.skip("this release of Stan has no tuples")
    target = sa.Target(PARTS, backend=backend)
    names, columns = target.coordinate_names, target.model.param_names()
    assert names[-2:] == ["tt:2:2.1.1", "tt:2:2.2.1"]  # simplexes of two: a coordinate moves both
    for k, name in enumerate(names[:-2]):
        there = target.model.param_constrain(0.1 * np.eye(target.dim)[k])
        (moved,) = np.flatnonzero(there != target.model.param_constrain(np.zeros(target.dim)))
        assert columns[moved] == name


def test_unconstraining_inverts_constraining(every_type):
    """Except the length of unit vectors, which their constrained values do not determine.

    Logarithms and Cholesky factors of 3 x 3 matrices: about a hundred roundings.
    """
    names = every_type.model.param_unc_names()
    determined = np.array([not name.startswith(("u.", "many_u.")) for name in names])
    assert (~determined).sum() == 9
    for position in points(every_type, 50):
        flat = every_type.model.param_constrain(position)
        back = every_type.model.param_unconstrain(flat)
        np.testing.assert_allclose(back[determined], position[determined], rtol=1e-10, atol=1e-10)
        again = every_type.model.param_constrain(back)
        np.testing.assert_allclose(again, flat, rtol=1e-10, atol=1e-10)
        by_name = {k: v.tolist() for k, v in every_type.constrain(position).items()}
        text = json.dumps(by_name | EMPTY)
        np.testing.assert_array_equal(every_type.model.param_unconstrain_json(text), back)
        np.testing.assert_array_equal(every_type.unconstrain(by_name), back)


def refused_values(target, values):
    with raises("invalid_position", target.name) as caught:
        target.unconstrain(values)
    return caught.value.stan


@pytest.mark.parametrize(("name", "value"), [
    ("low", -2.0), ("s", [0.5, 0.5, 0.5]), ("o", [1.0, 0.0, 2.0]),
    ("C", [[2.0, 0, 0], [0, 1, 0], [0, 0, 1]]),
])  # fmt: skip
def test_values_outside_a_constraint_are_refused(every_type, name, value):
    x = every_type.constrain(points(every_type, 1)[0])
    assert "free: " in refused_values(every_type, x | {name: value})
    flat = every_type.model.param_constrain(points(every_type, 1)[0])
    flat[every_type.model.param_names().index("low")] = -2.0
    with pytest.raises(RuntimeError, match="Lower bounded variable is -2"):
        every_type.model.param_unconstrain(flat)


@pytest.mark.parametrize(("name", "value", "shapes"), [
    ("vlow", [1.0], "(2), got (1)"), ("vlow", [1.0] * 3, "(2), got (3)"),
    ("vlow", [[1.0, 1.0]], "(2), got (1, 2)"), ("low", [1.0], "(), got (1)"),
    ("s", 1.0, "(3), got ()"), ("grid", [[0.5, 0.5], [0.5, 0.5], [0.5, 0.5]], "(2, 3), got (3, 2)"),
    ("many_C", [[[1.0, 0], [0, 1]]], "(2, 2, 2), got (1, 2, 2)"),
])  # fmt: skip
def test_values_of_another_shape_are_refused(every_type, name, value, shapes):
    """Unchecked, CmdStan 2.27 reads beyond them in memory; from 2.33 on Stan checks shapes.

    `unconstrain` refuses them for any backend; the model itself is asked too.
    """
    x = every_type.constrain(points(every_type, 1)[0]) | every_type.empty_parameters()
    with raises("invalid_position", every_type.name, f"{name} must have shape"):
        every_type.unconstrain(x | {name: value})
    model = every_type.model
    with pytest.raises(RuntimeError) as caught:
        model.param_unconstrain_json(stanio.dump_stan_json(x | {name: value}))
    message = str(caught.value)
    if "stanadapt's bridge" in model.model_info():
        ours, stans = f"{name} must have shape {shapes}", f"variable name={name};"
        assert message == ours or ("mismatch" in message and stans in message)


def test_a_missing_value_is_reported(every_type):
    """Unchecked, CmdStan 2.27 crashes."""
    x = every_type.constrain(points(every_type, 1)[0])
    for name in ("free", "many_C"):
        some = {key: value for key, value in x.items() if key != name}
        assert name in refused_values(every_type, some)
