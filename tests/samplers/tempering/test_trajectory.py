"""Leapfrogs between reference and target end like plain leapfrogs on the same density."""

import numpy as np
import pytest

from stanadapt.engine.compiled.jit import jit
from stanadapt.engine.density import FAILED_CALLS, GRADIENT_CALLS, value_and_gradient
from stanadapt.engine.leapfrog import leapfrog
from stanadapt.samplers.tempering.moves import integrate
from stanadapt.samplers.tempering.path import (
    DISTRIBUTION,
    POSITION,
    POWER,
    PRIOR,
    PRIOR_COUNTERS,
    Tempered,
    evaluate,
    no_replicas,
)
from tests.helpers.targets import MEAN, SD
from tests.helpers.tempered_formula import REFERENCE_SD
from tests.helpers.tempering import make_path

_CORRELATION = np.array([[1.0, 0.5, -0.2], [0.5, 1.0, 0.3], [-0.2, 0.3, 1.0]])
DENSE = {"covariance": _CORRELATION * np.outer(REFERENCE_SD, REFERENCE_SD)}
REFERENCES = {
    "gaussian": (DISTRIBUTION, {}),
    "dense": (DISTRIBUTION, DENSE),
    "student": (DISTRIBUTION, {"degrees": 4.0}),
    "dense student": (DISTRIBUTION, {**DENSE, "degrees": 4.0}),
    "power": (POWER, {}),
    "prior": (PRIOR, {}),
}
TEMPERATURES = [0.0, 1e-3, 0.3, 1.0]
STEPS, STEP_SIZE, SCALE = 5, 0.3, np.array([[1.2, 0.15, 3.0]])


@jit
def _integrate(density, replicas, momentum, scale, step_size, steps):
    return integrate(density, replicas, 1, momentum, scale, step_size, steps)


def both(name, b, x, momentum, **walls):
    """End points of `integrate` and of `leapfrog`: position, momentum, log density, steps.

    Also returns the density that `integrate` used.
    """
    kind, chosen = REFERENCES[name]
    path, replicas = make_path(kind, **walls, **chosen), no_replicas(2, 3)
    density, plain = (Tempered(path, b, 3, no_replicas(1, 3)) for _ in range(2))
    replicas.vectors[1, POSITION] = x
    evaluate(path, replicas, 1, True)
    before, ours = replicas.vectors[1].copy(), momentum.copy()
    calls = path.target.calls.copy()
    log_density, steps = _integrate(density, replicas, ours, SCALE, STEP_SIZE, STEPS)
    assert path.target.calls[GRADIENT_CALLS] - calls[GRADIENT_CALLS] == steps
    prior_calls = (path.target.calls - calls)[PRIOR_COUNTERS + GRADIENT_CALLS]
    assert prior_calls == (steps if name == "prior" else 0)
    np.testing.assert_array_equal(replicas.vectors[1], before)
    position, theirs, gradient = x.copy(), momentum.copy(), np.empty(3)
    value_and_gradient(plain, position, gradient)
    end = leapfrog(plain, position, theirs, gradient, SCALE[0], STEP_SIZE, STEPS)
    one = (density.latest.vectors[0, POSITION], ours, log_density, steps)
    return one, (position, theirs, *end), density


def starts(count, seed):
    rng = np.random.default_rng(seed)
    for _ in range(count):
        yield MEAN + SD * rng.standard_normal(3), rng.standard_normal(3)


@pytest.mark.slow
@pytest.mark.parametrize("b", TEMPERATURES)
@pytest.mark.parametrize("name", REFERENCES)
def test_ends_like_plain_leapfrogs(name, b):
    for x, momentum in starts(20, 1):
        one, other, density = both(name, b, x, momentum)
        assert one[3] == other[3] == STEPS
        for ours, theirs in zip(one[:3], other[:3], strict=True):
            np.testing.assert_allclose(ours, theirs, rtol=1e-9, atol=1e-9)
        assert not np.allclose(one[0], x, rtol=0.01)
        # the stored densities of the end point are those of an evaluation there
        again = no_replicas(1, 3)
        again.vectors[0, POSITION] = one[0]
        evaluate(density.path, again, 0, True)
        np.testing.assert_allclose(density.latest.logs, again.logs, rtol=1e-12)
        np.testing.assert_allclose(density.latest.vectors, again.vectors, rtol=1e-12)


@pytest.mark.parametrize("walls", [{"wall": 0.3}, {"prior_wall": 0.3}], ids=str)
@pytest.mark.parametrize("b", TEMPERATURES)
@pytest.mark.parametrize("name", REFERENCES)
def test_stops_like_plain_leapfrogs(name, b, walls):
    """A density that fails but has no weight does not stop it."""
    counts = np.zeros(STEPS + 1, int)
    for x, momentum in starts(40, 2):
        if x[0] > 0.3:
            continue
        one, other, density = both(name, b, x, momentum, **walls)
        assert one[2:] == pytest.approx(other[2:], rel=1e-9)
        assert (one[3] < STEPS) <= (one[2] == -np.inf)
        counts[one[3]] += 1
        failed = density.path.target.calls[FAILED_CALLS]
        assert (failed > 0) <= ("wall" in walls)
    fails = b > 0 if "wall" in walls else b < 1 and name == "prior"
    assert (counts[:STEPS].sum() > 0) == fails
    assert counts[STEPS] > 0
