"""Networks: the inverse, the volume, the closed form, the file; and refusals."""

import itertools
import json

import numpy as np
import pytest

from stanadapt.samplers.nice import additive_couplings
from stanadapt.samplers.nice.network import Coupling, Network
from tests.helpers.codes import raises

MEAN = np.array([3.0, -20.0, 0.1])
FACTOR = np.array([[2.0, 0.0, 0.0], [30.0, 5.0, 0.0], [0.01, 0.002, 0.003]])


def network(seed=0):
    """Three parameters, two of v; layers of unequal widths, biases that are not zero."""
    made = Network.untrained(3, 2, [[7], [5, 4], [6], [3]], seed)
    weights = made.weights + 0.1 * np.random.default_rng(seed).normal(size=made.weights.size)
    return Network(made.couplings, weights, MEAN, FACTOR, {"program": "one"})


def points(count, seed=1):
    rng = np.random.default_rng(seed)
    x = MEAN + rng.normal(size=(count, 3)) @ FACTOR.T
    return zip(x, rng.normal(size=(count, 2)), strict=True)


def in_numpy(made, x, v):
    """The map by its formulas."""
    z, begin = np.linalg.solve(made.factor, x - made.mean), 0
    for moves, widths in made.couplings:
        h = v if moves == "z" else z
        for k, (inputs, outputs) in enumerate(itertools.pairwise(widths)):
            matrix = made.weights[begin : begin + inputs * outputs].reshape(inputs, outputs)
            begin += inputs * outputs
            h = h @ matrix + made.weights[begin : begin + outputs]
            begin += outputs
            h = np.maximum(h, 0) if k < len(widths) - 2 else h
        z, v = (z + h, v) if moves == "z" else (z, v + h)
    return made.mean + made.factor @ z, v


def test_the_map_is_its_formula_and_its_inverse_exact():
    made = network()
    for x, v in points(20):
        for found, wanted in zip(made.map(x, v), in_numpy(made, x, v), strict=True):
            np.testing.assert_allclose(found, wanted, rtol=1e-11)
    # in units of standard deviations: 1e-12, both ways round
    made = network()
    for x, v in points(50):
        for forward in (True, False):
            there = made.map(x, v, forward)
            back = made.map(*there, not forward)
            assert np.abs(there[0] - x).max() > 1e-3
            np.testing.assert_allclose(np.linalg.solve(FACTOR, back[0] - x), 0.0, atol=1e-12)
            np.testing.assert_allclose(back[1], v, atol=1e-12)


def test_weights_depend_on_the_seed_and_files_hold_all(tmp_path):
    one, same, other = (additive_couplings.untrained(4, 6, seed) for seed in (1, 1, 2))
    np.testing.assert_array_equal(one.weights, same.weights)
    assert not np.array_equal(one.weights, other.weights)
    assert one.weights.size == 3 * (5 * 6 + 7 * 4)
    # uniform in +-sqrt(6 / 10), so variance 0.2: 144 of 174 weights, the others are biases
    found = one.weights[one.weights != 0.0]
    assert len(found) == 144
    assert found.var() == pytest.approx(0.2, rel=0.4)
    made, path = network(), tmp_path / "network.npz"
    made.save(path)
    read = Network.load(path)
    assert read.couplings == made.couplings
    assert read.description == made.description
    for name in ("weights", "mean", "factor"):
        np.testing.assert_array_equal(getattr(read, name), getattr(made, name))
    assert [file.name for file in tmp_path.iterdir()] == ["network.npz"]


def rewritten(path, **changes):
    with np.load(path) as held:
        arrays = dict(held)
    header = json.loads(str(arrays["network"])) | changes
    np.savez(path, **(arrays | {"network": np.array(json.dumps(header))}))


def test_other_files_are_refused(tmp_path):
    path, whole = tmp_path / "network.npz", tmp_path / "whole.npz"
    network().save(whole)
    for written in (
        lambda: None, lambda: path.write_text("no network"), lambda: np.savez(path, x=np.zeros(3)),
        lambda: np.savez(path, network=np.array([{"a": 1}], object)),  # a pickle: never loaded
        lambda: path.write_bytes(whole.read_bytes()[:300]),
    ):  # fmt: skip
        written()
        with raises("network_unreadable", path):
            Network.load(path)
    network().save(path)
    rewritten(path, format=99)
    with raises("network_format", 99):
        Network.load(path)
    missing = tmp_path / "none" / "network.npz"
    with raises("network_unwritable", missing):
        network().save(missing)


def test_arrays_that_do_not_fit_are_refused():
    made = network()
    parts = {name: getattr(made, name) for name in ("couplings", "weights", "mean", "factor")}
    count = sum((i + 1) * o for c in made.couplings for i, o in itertools.pairwise(c.widths))
    assert made.weights.size == count
    for code, facts, change in (
        ("network_mismatch", [count, (count - 1,)], {"weights": made.weights[:-1]}),
        ("network_values", ["weights"], {"weights": made.weights * np.nan}),
        ("network_values", ["weights"], {"weights": ["a"]}),
        ("network_mismatch", [3, 2], {"mean": MEAN[:2], "factor": np.ones((1, 2))}),
        ("network_mismatch", ["mean", (3,), (2, 3)], {"factor": np.ones((2, 3))}),
        ("network_values", ["factor"], {"factor": -FACTOR}),
        ("network_mismatch", ["z and v"], {"couplings": made.couplings[1:2]}),
        ("network_mismatch", [9], {"couplings": [*made.couplings, Coupling("v", (3, 9))]}),
        ("network_values", [(3, 0, 2)], {"couplings": [Coupling("v", (3, 0, 2))]}),
        ("network_values", ["'w'"], {"couplings": [Coupling("w", (3, 2))]}),
        ("network_values", ["couplings", 3], {"couplings": [3]}),
    ):
        with raises(code, *facts):
            Network(**(parts | change))
