"""Gradients that are not finite where the density is: draws of some samplers lack that region."""

import numpy as np
import pytest
from numba import carray, cfunc

import stanadapt as sa
from stanadapt.diagnostics.verdict import verdict
from stanadapt.engine.density import GRADIENT_SIGNATURE, VALUE_SIGNATURE, make_density
from stanadapt.errors.codes import codes_of
from tests.helpers.codes import warns

DIM = 2
PROGRAM = "parameters { vector[2] x; } model { x ~ std_normal(); }"


@cfunc(VALUE_SIGNATURE)
def _value(edge, propto, jacobian, position, value, message):
    x = carray(position, DIM)
    carray(value, 1)[0] = -0.5 * (x[0] ** 2 + x[1] ** 2)
    return 0


@cfunc(GRADIENT_SIGNATURE)
def _gradient(edge, propto, jacobian, position, value, gradient, message):
    x, limit, slope = carray(position, DIM), carray(edge, 1, np.float64), carray(gradient, DIM)
    carray(value, 1)[0] = -0.5 * (x[0] ** 2 + x[1] ** 2)
    for i in range(DIM):
        slope[i] = -x[i] if x[0] < limit[0] else np.nan
    return 0


class CutOff(sa.Target):
    """A standard normal density without a gradient beyond an edge."""

    def __init__(self, edge):
        self.edge = np.array([edge])
        super().__init__(PROGRAM, backend="stanli")

    def density(self, chain=0):
        return make_density(_value.address, _gradient.address, self.edge.ctypes.data, DIM)

    def evaluate(self, position):
        slope = -position if position[0] < self.edge[0] else np.full(DIM, np.nan)
        return -0.5 * float(position @ position), slope, ""


@pytest.mark.parametrize("sampler", ["gad_mala", "nuts"])
def test_draws_that_lack_a_region_are_suspect(sampler):
    lengths = {"iter_warmup": 1000, "iter_sampling": 1000, "chains": 2, "seed": 1}
    with warns("failed_evaluations", "or its gradient was not finite", "lack that region"):
        fit = sa.sample(CutOff(1.0), sampler, **lengths)
    assert fit.posterior["x"].values[..., 0].max() < 1.0
    assert verdict(fit).verdict == "suspect"
    assert "no_gradient" in codes_of(verdict(fit).reasons)


def test_far_out_it_is_of_no_consequence():
    """Steps that are far too long end where no draw would be."""
    lengths = {"iter_warmup": 0, "iter_sampling": 400, "chains": 2, "seed": 1}
    with warns("failed_evaluations", "had no finite density and"):
        fit = sa.sample(CutOff(7.0), "hmc", step_size=40.0, standardize=False, **lengths)
    assert fit.attrs["n_failed"] > 0
    assert "no_gradient" not in codes_of(verdict(fit).reasons)
