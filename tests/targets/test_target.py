"""A target as an object: copies, processes, chains, and the names of its variables."""

import copy
import pickle

import numpy as np
import pytest

import stanadapt as sa
from tests.helpers.codes import raises, raises_in
from tests.helpers.short_runs import WALL

PROGRAM = """
data { real m; }
parameters { vector[2] x; real<lower=0> s; vector[3] u; }
model { x ~ normal(m, s); s ~ gamma(2, 1); u ~ std_normal(); }
generated quantities { real z = normal_rng(0, s); }
"""
POSITION = np.array([0.3, -1.0, 0.2, 1.0, -2.0, 0.5])


@pytest.fixture(scope="module")
def target():
    labels = {"dims": {"x": ["side"]}, "coords": {"side": ["left", "right"]}}
    options = {"noise": "u", "rho": 0.4, "labels": labels}
    return sa.Target(PROGRAM, {"m": 1.5}, **options)


@pytest.mark.parametrize(
    "again", [lambda t: pickle.loads(pickle.dumps(t)), copy.copy, copy.deepcopy]
)
def test_a_copy_is_an_equal_target(target, again):
    other = again(target)
    assert other is not target
    assert other.value(POSITION) == target.value(POSITION)
    assert (other.noise, other.rho, other.labels) == (("u",), 0.4, target.labels)
    assert other.program == target.program
    assert other.backend == target.backend


def test_labels_of_parameters_hold_for_other_data():
    code = """data { int N; vector[N] y; } parameters { vector[2] x; } model { x ~ normal(0, 1); }
    generated quantities { vector[N] fit = y * x[1]; }"""
    dims = {"x": ["side"], "y": ["row"], "fit": ["row"]}
    coords = {"side": ["left", "right"], "row": ["a", "b"]}
    options = {"dims": dims, "coords": coords}
    target = sa.Target(
        code, {"N": 2, "y": [1, 2]}, labels={"log_likelihood": {"y": "fit"}}, **options
    )
    for count in (1, 2):  # as many rows are still other rows
        labels = target.with_data({"N": count, "y": [3.0] * count}).labels
        assert labels.dims == dims
        assert list(labels.coords) == ["side"]
        assert labels.log_likelihood == {"y": "fit"}


def test_a_chain_draws_quantities_in_blocks_that_can_be_resumed(target):
    positions = np.random.default_rng(2).normal(size=(700, 6))
    whole, parts = (np.empty((700, len(target.column_names))) for _ in range(2))
    target.constrainer(5)(positions, whole)
    first = target.constrainer(5)
    first(positions[:300], parts[:300])
    second = target.constrainer(5)
    second.resume(first.state())
    for rows in (slice(300, 511), slice(511, 513), slice(513, 700)):
        second(positions[rows], parts[rows])
    np.testing.assert_array_equal(whole, parts)
    assert len(np.unique(whole[:, -1])) == 700


def test_a_transposed_matrix_is_no_position():
    """The embedded backend counts its elements only."""
    program = """
    parameters { matrix[3, 2] m; array[2] vector[3] v; real x; }
    model { to_vector(m) ~ std_normal(); v[1] ~ std_normal(); v[2] ~ std_normal();
            x ~ std_normal(); }
    """
    target = sa.Target(program)
    values = {"m": np.arange(6.0).reshape(3, 2), "v": np.ones((2, 3)).tolist(), "x": 1.0}
    np.testing.assert_array_equal(target.unconstrain(values)[:6], [0, 2, 4, 1, 3, 5])
    for name, wrong in {"m": values["m"].T, "v": np.ones(6), "x": [1.0]}.items():
        with raises("invalid_position", name, np.shape(values[name]), np.shape(wrong)):
            target.unconstrain({**values, name: wrong})


@pytest.mark.parametrize("name", ["log_lik", "y_rep"])
def test_a_parameter_stays_in_the_posterior(name):
    program = f"parameters {{ vector[2] {name}; }} model {{ {name} ~ normal(0, 1); }}"
    target = sa.Target(program)
    assert target.labels.log_likelihood == {}
    assert target.labels.posterior_predictive == {}
    with raises_in("settings", "log_likelihood"):
        sa.Target(program, labels={"log_likelihood": {"y": name}})


@pytest.mark.parametrize(
    ("code", "option"),
    [
        ("not_a_name", {"noise": 5}),
        ("not_a_name", {"noise": [5]}),
        ("invalid_include_path", {"include_paths": 5}),
    ],
)
def test_options_of_a_wrong_type_are_named(code, option):
    ((name, value),) = option.items()
    with raises(code, name, repr(value)):
        sa.Target(PROGRAM, {"m": 0.0}, **option)


def test_a_link_to_itself_is_no_program(tmp_path):
    loop = tmp_path / "loop.stan"
    loop.symlink_to(loop)
    with raises_in("files"):
        sa.Target(loop)
    with raises("invalid_include_path", "include_paths", loop.name):
        sa.Target(PROGRAM, {"m": 0.0}, include_paths=loop)


def test_rows_and_parameters_are_evaluated_one_by_one():
    target = sa.Target(WALL)
    positions = np.array([[0.3], [-1.0], [np.nan], [2.0]])  # the density throws at the second
    values, gradients = target.evaluate_rows(positions)
    for i in (0, 3):
        assert (values[i], gradients[i]) == target.evaluate(positions[i])[:2]
    assert (values[1:3] == -np.inf).all()
    assert np.isnan(gradients[1:3]).all()
    program = """
    parameters { real<lower=0> s; } model { s ~ gamma(2, 1); }
    generated quantities { real z = normal_rng(0, s - 3); }
    """
    target = sa.Target(program)
    for position in (0.5, 2.0):
        assert target.constrain(np.array([position])) == {"s": pytest.approx(np.exp(position))}
