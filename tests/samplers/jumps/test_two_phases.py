"""Forced moves: the ratio of a pair, and the law of one move, against the formulas of the paper."""

import numpy as np
import pytest
from scipy import stats

from stanadapt.engine.compiled.jit import jit
from stanadapt.engine.points import unused_value, value_at
from stanadapt.samplers.jumps.repelling_attracting import forced_move, log_pair_ratio
from tests.helpers.gaussian_target import Gaussian

START, SCALE = 1.3, 1.7


def downhill(here, there):
    """Return a_D of a move between two densities; the ratio of two zeros is 1."""
    return 1.0 if there == 0.0 else min(1.0, here / there)


def test_ratio_of_a_pair_is_that_of_the_paper():
    """Moments do not show whether z or z* is confused with the other."""
    rng = np.random.default_rng(1)
    for _ in range(200):
        x, z, x_star, z_star = rng.gamma(0.7, size=4)
        z, z_star = np.where(rng.random(2) < 0.2, 0.0, (z, z_star))
        truth = x_star * downhill(x, z) / (x * downhill(x_star, z_star))
        with np.errstate(divide="ignore"):
            logs = np.log([x, z, x_star, z_star])
        assert log_pair_ratio(*logs) == pytest.approx(np.log(truth), abs=1e-12)


@jit
def _moves(density, sign, most_tries, rng, out):
    start, proposal = value_at(density, np.array([START])), unused_value(1)
    for row in range(out.shape[0]):
        end, tries, found = forced_move(
            density, start, proposal, np.array([SCALE]), sign, most_tries, rng
        )
        out[row, 0], out[row, 1], out[row, 2] = end.position[0], tries, found


@pytest.mark.parametrize("sign", [1.0, -1.0], ids=["downhill", "uphill"])
def test_one_move_has_the_law_of_the_paper(sign):
    """Density q a / A, A by quadrature; tries are geometric, and two fail with (1 - A)^2."""
    x = np.linspace(-30, 30, 200_001)
    pi, q = stats.norm.pdf(x), stats.norm.pdf(x, START, SCALE)
    rate = np.minimum(1.0, (stats.norm.pdf(START) / np.maximum(pi, 1e-300)) ** sign)
    step = x[1] - x[0]
    accepted = np.sum(q * rate) * step
    law = np.cumsum(q * rate) * step / accepted
    out = np.empty((20_000, 3))
    density = Gaussian([0.0], [1.0]).density()
    _moves(density, sign, 1000, np.random.default_rng(2), out)
    ends, tries, found = out.T
    assert found.all()
    # each of the two fails with probability 1e-4
    assert stats.kstest(ends, lambda at: np.interp(at, x, law)).pvalue > 1e-4
    error = np.sqrt(1.0 - accepted) / accepted / np.sqrt(len(tries))
    assert abs(tries.mean() - 1.0 / accepted) < 3.9 * error
    _moves(density, sign, 2, np.random.default_rng(3), out)
    given_up = (1.0 - accepted) ** 2
    assert out[:, 1].max() == 2
    error = np.sqrt(given_up * (1.0 - given_up) / len(out))
    assert abs(np.mean(out[:, 2] == 0) - given_up) < 3.9 * error
