"""Leapfrogs between reference and target go where the plain ones go on the same density."""

import numpy as np
import pytest
from targets import MEAN, SD, Awkward
from tempered_formula import MIDDLE, WIDE

from stanadapt._jit import jit
from stanadapt.density import FAILED_CALLS, GRADIENT_CALLS, value_and_gradient
from stanadapt.hamiltonian import leapfrog
from stanadapt.reference_law import ReferenceLaw
from stanadapt.tempered_path import (
    LAW,
    POSITION,
    POWER,
    PRIOR,
    PRIOR_COUNTERS,
    Path,
    Tempered,
    evaluate,
    no_places,
)
from stanadapt.tempered_trajectory import follow

_CORRELATION = np.array([[1.0, 0.5, -0.2], [0.5, 1.0, 0.3], [-0.2, 0.3, 1.0]])
DENSE = {"covariance": _CORRELATION * np.outer(WIDE, WIDE)}
REFERENCES = {
    "gaussian": (LAW, {"sd": WIDE}),
    "dense": (LAW, DENSE),
    "student": (LAW, {"sd": WIDE, "degrees": 4.0}),
    "dense student": (LAW, {**DENSE, "degrees": 4.0}),
    "power": (POWER, {"sd": WIDE}),
    "prior": (PRIOR, {"sd": WIDE}),
}
TEMPERATURES = [0.0, 1e-3, 0.3, 1.0]
STEPS, STEP_SIZE, SCALE = 5, 0.3, np.array([[1.2, 0.15, 3.0]])


@jit
def _followed(density, places, momentum, scale, step_size, steps):
    return follow(density, places, 1, momentum, scale, step_size, steps)


def make_path(name, wall=np.inf, prior_wall=np.inf):
    kind, chosen = REFERENCES[name]
    prior = Awkward(prior_wall).wall.ctypes.data
    return Path(Awkward(wall).density(), ReferenceLaw(MIDDLE, **chosen).law(3), kind, prior)


def both(name, b, x, momentum, **walls):
    """Two ends: of position, momentum, log density and steps; and what the first one found."""
    path, places = make_path(name, **walls), no_places(2, 3)
    density, plain = (Tempered(path, b, 3, no_places(1, 3)) for _ in range(2))
    places.vectors[1, POSITION] = x
    evaluate(path, places, 1, True)
    before, ours = places.vectors[1].copy(), momentum.copy()
    calls = path.target.calls.copy()
    log_density, steps = _followed(density, places, ours, SCALE, STEP_SIZE, STEPS)
    assert path.target.calls[GRADIENT_CALLS] - calls[GRADIENT_CALLS] == steps
    asked = path.target.calls[PRIOR_COUNTERS + GRADIENT_CALLS]
    assert asked - calls[PRIOR_COUNTERS + GRADIENT_CALLS] == (steps if name == "prior" else 0)
    np.testing.assert_array_equal(places.vectors[1], before)
    position, theirs, gradient = x.copy(), momentum.copy(), np.empty(3)
    value_and_gradient(plain, position, gradient)
    end = leapfrog(plain, position, theirs, gradient, SCALE[0], STEP_SIZE, STEPS)
    found = density.found
    return (found.vectors[0, POSITION], ours, log_density, steps), (position, theirs, *end), density


def starts(count, seed):
    rng = np.random.default_rng(seed)
    for _ in range(count):
        yield MEAN + SD * rng.standard_normal(3), rng.standard_normal(3)


@pytest.mark.parametrize("b", TEMPERATURES)
@pytest.mark.parametrize("name", REFERENCES)
def test_it_ends_where_plain_leapfrogs_do(name, b):
    for x, momentum in starts(20, 1):
        one, other, density = both(name, b, x, momentum)
        assert one[3] == other[3] == STEPS
        for mine, theirs in zip(one[:3], other[:3], strict=True):
            np.testing.assert_allclose(mine, theirs, rtol=1e-9, atol=1e-9)
        assert not np.allclose(one[0], x, rtol=0.01)
        # what is kept of the end is what an evaluation finds there
        again = no_places(1, 3)
        again.vectors[0, POSITION] = one[0]
        evaluate(density.path, again, 0, True)
        np.testing.assert_allclose(density.found.logs, again.logs, rtol=1e-12)
        np.testing.assert_allclose(density.found.vectors, again.vectors, rtol=1e-12)


@pytest.mark.parametrize("walls", [{"wall": 0.3}, {"prior_wall": 0.3}], ids=str)
@pytest.mark.parametrize("b", TEMPERATURES)
@pytest.mark.parametrize("name", REFERENCES)
def test_it_stops_where_plain_leapfrogs_do(name, b, walls):
    """A density that fails where it has no weight does not end it."""
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
