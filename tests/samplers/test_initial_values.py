"""Starting points of chains: every form of `inits`, and every error in it."""

import copy
import json
from pathlib import Path

import numpy as np
import pytest

import stanadapt as sa
from stanadapt import results
from stanadapt.samplers.initial_values import RADIUS, TRIES, initial_positions, positions_of_fit
from stanadapt.targets.stan.checked_data import CheckedData
from tests.helpers.codes import raises
from tests.helpers.stan_target import shared_target

CODE = """
parameters { real x; real<lower=0> s; simplex[3] p; matrix[2, 2] M; }
model { x ~ normal(0, 1); s ~ exponential(1); to_vector(M) ~ normal(0, 1); }
"""
VALUES = {
    "x": 0.5, "s": 2.0, "p": np.array([0.2, 0.3, 0.5]), "M": np.array([[1.0, 2.0], [3.0, 4.0]]),
}  # fmt: skip
# the density throws if x < 50
FAR = "parameters { real x; } model { 0 ~ normal(0, x - 50); }"
target = shared_target(CODE)


@pytest.fixture(scope="module")
def fit(target):
    return sa.sample(target, "gad_mala", chains=2, iter_warmup=20, iter_sampling=30, seed=5)


def starts(target, inits, chains=2, seed=1, gradient=True):
    rngs = [np.random.default_rng([seed, i]) for i in range(chains)]
    return np.array(initial_positions(target, inits, rngs, gradient))


def refused(code, target, inits, *facts, chains=2):
    with raises(code, *facts) as caught:
        starts(target, inits, chains)
    assert caught.value.stage == "initialization"
    return caught.value


def test_starts_are_uniform_and_the_first_iteration_is_there(target):
    positions = starts(target, None, chains=200)
    assert positions.shape == (200, target.dim)
    assert (np.abs(positions) < RADIUS).all()
    # 200 * dim uniform draws: with probability e^-80 all lie in 95 % of the interval
    assert np.abs(positions).max() > 0.95 * RADIUS
    np.testing.assert_allclose(positions.std(), RADIUS / np.sqrt(3), rtol=0.05)
    # with steps of 1e-9, the first draw equals the starting point
    fit = sa.sample(
        target, "gad_mala", inits=VALUES, initial_scale=1e-9, iter_warmup=0, iter_sampling=3,
        chains=1, seed=1,
    )  # fmt: skip
    np.testing.assert_allclose(fit["posterior"]["M"].values[0, 0], VALUES["M"], atol=1e-7)
    np.testing.assert_allclose(fit["posterior"]["s"].values[0, 0], 2.0, atol=1e-7)


@pytest.mark.parametrize("radius", [1, 0.5, np.float64(0.25), np.int64(1)])
def test_a_radius(target, radius):
    positions = starts(target, radius, chains=50)
    assert 0.9 * radius < np.abs(positions).max() < radius


@pytest.mark.parametrize("zero", [0, 0.0])
def test_zero_is_the_origin(target, zero):
    np.testing.assert_array_equal(starts(target, zero), np.zeros((2, target.dim)))


def test_values_for_all_chains_or_each(target):
    for position in starts(target, VALUES):
        for name, value in target.constrain(position).items():
            np.testing.assert_allclose(value, VALUES[name], rtol=1e-14, atol=1e-14)
    lists = {name: np.asarray(value).tolist() for name, value in VALUES.items()}
    np.testing.assert_array_equal(starts(target, lists), starts(target, VALUES))
    given = [{**VALUES, "x": float(i)} for i in range(3)]
    found = [target.constrain(position)["x"] for position in starts(target, given, chains=3)]
    assert found == pytest.approx([0.0, 1.0, 2.0])
    positions = starts(target, {"s": 2.0, "M": VALUES["M"]}, chains=3)
    constrained = [target.constrain(position) for position in positions]
    assert [c["s"] for c in constrained] == pytest.approx([2.0] * 3)
    np.testing.assert_allclose(constrained[2]["M"], VALUES["M"])
    assert len({float(c["x"]) for c in constrained}) == 3


@pytest.mark.parametrize("several", [False, True])
@pytest.mark.parametrize("as_file", [False, True])
def test_json_as_text_and_as_a_file(target, tmp_path, several, as_file):
    plain = {name: np.asarray(value).tolist() for name, value in VALUES.items()}
    inits = json.dumps([plain, plain] if several else plain)
    expected = starts(target, VALUES)
    if as_file:
        path = tmp_path / "inits.json"
        path.write_text(inits)
        np.testing.assert_array_equal(starts(target, str(path)), expected)
        inits = path
    np.testing.assert_array_equal(starts(target, inits), expected)


def test_files_of_an_earlier_fit_start_chains_at_its_draws(target, fit, tmp_path):
    sa.save(fit, tmp_path / "csv", format="cmdstan")
    first = next((tmp_path / "csv").glob("*_1.csv"))
    files = [*(tmp_path / "csv").glob("*.csv")]
    store = sa.save(fit, tmp_path / "fit.zarr", format="zarr")
    for path in (sa.save(fit, tmp_path / "fit.nc"), store, tmp_path / "csv", str(first), files):
        found = [target.constrain(position)["x"] for position in starts(target, path)]
        drawn = fit.posterior["x"].values
        assert np.isclose(found, drawn[..., None], rtol=1e-4).any(axis=(0, 1)).all()
    refused("unreadable_inits", target, tmp_path, "no CSV files")
    refused("unreadable_inits", target, str(tmp_path / "none.CSV"), "none.CSV", "is no CSV file")
    refused("unreadable_inits", target, [first, first], "cannot be read")
    refused("unreadable_inits", target, [store, store], "not a single zarr store")


@pytest.mark.parametrize("shape", [(8,), (3, 8)])
@pytest.mark.parametrize("kind", [int, float])
def test_unconstrained_positions_for_all_chains_or_each(target, shape, kind):
    positions = np.arange(np.prod(shape), dtype=kind).reshape(shape) / (20 if kind is float else 1)
    expected = np.broadcast_to(positions, (3, target.dim))
    np.testing.assert_array_equal(starts(target, positions.astype(kind), chains=3), expected)


def test_positions_are_copies_and_fits_provide_draws(target, fit):
    given = np.zeros((2, target.dim))
    starts(target, given)[:] = 7
    assert not given.any()
    draws = fit["posterior"]["x"].values
    for position in starts(target, fit, chains=4):
        assert np.isclose(draws, target.constrain(position)["x"], rtol=1e-12).sum() >= 1
    other = sa.Target("parameters { real quite_else; } model { quite_else ~ normal(0, 1); }")
    error = refused("unsuitable_fit", other, fit, "quite_else", other.name)
    assert "Could not find node" not in str(error)  # which is xarray's message


def test_a_partial_mapping_with_an_empty_parameter():
    target = sa.Target(
        "data { int N; } parameters { real y; vector[N] x; } model { y ~ normal(0, 1); }", {"N": 0}
    )
    np.testing.assert_allclose(starts(target, {"y": 1.5}), [[1.5], [1.5]])


NAMES = "x, s, p, M"
WRONG = [
    *[("invalid_inits", bad, "radius", repr(bad)) for bad in (-1, -0.5, np.nan, np.inf)],
    *[("invalid_inits", bad, "inits", type(bad).__name__) for bad in (True, object(), {1.0}, len)],
    ("invalid_position", VALUES | {"s": -1.0}, "s", "-1"),
    ("invalid_position", VALUES | {"p": [0.5, 0.6, 0.7]}, "p", "simplex"),
    *[("invalid_inits", VALUES | {name: [1.0, 2.0]}, name, "(2,)") for name in "Mx"],
    *[("unknown_parameter", {**dict.fromkeys("qr", 1.0), **more}, "parameter q", "program", NAMES)
      for more in ({}, {"t": 2.0})],
    ("unknown_parameter", [{"q": 1.0}] * 2, "parameter q", NAMES),
    # a misspelled name must not silently become a random start
    ("unknown_parameter", {"x": 1.0, "sigma": 2.0}, "sigma", NAMES),
    ("invalid_inits", {}, NAMES), ("invalid_inits", [0.0, 1.0], "[0.0, 1.0]"),
    *[("invalid_inits", [VALUES] * count, "2 in all") for count in (1, 3)],
    *[("invalid_inits", np.zeros(shape), "(8,)", "(2, 8)", str(shape))
      for shape in [(5,), (3, 7), (2, 2), (), (1, 2, 7)]],
    *[("invalid_inits", np.array([bad] * 8), "inits", np.array([bad]).dtype)
      for bad in ("a", 1j, None)],
    *[("initialization_failed", np.r_[bad, np.zeros(7)], "chain 1", bad)
      for bad in (np.nan, np.inf)],
    ("unreadable_inits", Path("none.json"), "none.json"),
    ("unreadable_inits", "none.json", "none.json"),
    ("unreadable_inits", '{"x": ', "JSON", "line 1"),
]  # fmt: skip


@pytest.mark.filterwarnings("ignore:Casting complex")
@pytest.mark.parametrize("case", WRONG)
def test_wrong_values_are_refused(target, case):
    code, inits, *facts = case
    error = refused(code, target, inits)
    for fact in facts:
        assert str(fact).lower() in str(error).lower()


@pytest.mark.parametrize(("content", "fact"), [(b"x = 1", "JSON"), (b"\xff\xfe\x00", "inits.json")])
def test_files_that_are_not_json(target, tmp_path, content, fact):
    (tmp_path / "inits.json").write_bytes(content)
    refused("unreadable_inits", target, tmp_path / "inits.json", fact)


def test_a_fit_of_other_sizes():
    """The embedded backend would take the elements in another order."""
    code = """
    data { int R; int C; } parameters { matrix[R, C] M; } model { to_vector(M) ~ cauchy(0, 1); }
    """
    long, wide = (sa.Target(code, {"R": r, "C": 5 - r}) for r in (3, 2))
    fit = results.build({"posterior": {"M": np.ones((2, 9, 2, 3))}}, {})
    refused("unsuitable_fit", long, fit, "M", "(3, 2)", "(2, 3)")
    with raises("unsuitable_fit", "warm_start", "M", "(3, 2)", "(2, 3)"):
        positions_of_fit(long, fit)
    assert positions_of_fit(wide, fit).shape == (18, 6)


def evaluating(target, evaluate):
    """Return a target of the same parameters that evaluates its density so."""
    other = copy.copy(target)
    other.evaluate = evaluate
    return other


def test_starts_are_tried_once_if_given_and_else_a_hundred_times(target):
    points = []

    def nowhere(position):
        points.append(position)
        return -np.inf, np.zeros(target.dim), "no."

    error = refused("initialization_failed", evaluating(target, nowhere), None, 100)
    assert error.stan == "no."
    assert len(points) == TRIES == 100
    assert len({tuple(point) for point in points}) == TRIES
    missing = evaluating(target, nowhere)
    # compiled programs accept these
    missing.checked = CheckedData({"n": np.array(3), "y": np.array([[1.0, np.inf, 2.0]])})
    refused("initialization_failed", missing, None, " y[1,2] is inf in the data. Check")
    points = []

    def nowhere(position):
        points.append(position)
        return np.nan, np.zeros(target.dim), ""

    for inits in (0, VALUES, np.zeros(target.dim)):
        points.clear()
        refused("initialization_failed", evaluating(target, nowhere), inits, "nan")
        assert len(points) == 1


@pytest.mark.filterwarnings(r"ignore:.*\[nothing_compared\]")
def test_the_message_names_the_chain_and_shortens_long_positions():
    target = sa.Target(FAR)
    inits = [{"x": 60.0}, {"x": 1.0}]
    error = refused("initialization_failed", target, inits, "chain 2", "[1.]")
    assert "Scale parameter is -49" in error.stan
    target = sa.Target(
        "parameters { vector[500] x; } model { x ~ normal(0, 1); 0 ~ normal(0, x[1] - 9); }"
    )
    assert len(refused("initialization_failed", target, None, "...").message) < 500


def test_a_start_needs_a_finite_gradient(target):
    slope = np.zeros(target.dim)
    slope[3] = np.nan
    target = evaluating(target, lambda position: (-1.0, slope, ""))
    refused("initialization_failed", target, None, "gradient", 100)
    # samplers without gradients may start there
    assert starts(target, None, gradient=False).shape == (2, target.dim)
