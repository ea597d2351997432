"""nice: exact with any weights, and only with a network of the same program."""

import numpy as np
import pytest

import stanadapt as sa
from stanadapt.samplers.nice.network import Network
from stanadapt.targets.stan import bundled
from tests.helpers.codes import raises, warns

OPTIONS = {"chains": 4, "iter_warmup": 200, "seed": 1}


@pytest.fixture(scope="module")
def ring():
    """The paper's: E r = 2.0400, and a standard deviation of 1.456 in each coordinate."""
    return sa.Target(*bundled.find("ring", "nice"))


def network(target, seed=0):
    made = Network.untrained(2, 3, [[16], [16], [16]], seed)
    described = {"program": target.name, "program_hash": target.program.hash}
    return Network(made.couplings, made.weights, [0.3, -0.2], [[1.5, 0.0], [0.4, 2.0]], described)


def surprises(fit):
    """Distances of estimates from the truth, in standard errors of eight batches per chain."""
    x = fit["posterior"]["x"].values
    radius = np.hypot(x[..., 0], x[..., 1])
    known = {0.0: x[..., 0], 2.12: x[..., 1] ** 2, 2.0400: radius}
    for truth, values in known.items():
        batches = values.reshape(-1, values.shape[1] // 8).mean(axis=1)
        yield (batches.mean() - truth) / (batches.std(ddof=1) / np.sqrt(len(batches)))


@pytest.mark.thorough
@pytest.mark.parametrize("given", [False, True])
def test_random_weights_sample_exactly(ring, given):
    options = {"network": network(ring)} if given else {}
    fit = sa.sample(ring, "nice", iter_sampling=16_000, **OPTIONS, **options)
    assert np.abs(list(surprises(fit))).max() < 4.0
    assert 0.1 < fit["sample_stats"]["accepted"].values.mean() < 0.9
    assert np.all(fit["sample_stats"]["n_density"].values == 1)


def test_a_network_is_kept_and_named(ring, tmp_path):
    path, made = tmp_path / "network.npz", network(ring)
    made.save(path)
    one, two = (
        sa.sample(ring, "nice", iter_sampling=50, network=given, **OPTIONS)
        for given in (made, path)
    )
    np.testing.assert_array_equal(one["posterior"]["x"].values, two["posterior"]["x"].values)
    assert "for ring" in one.attrs["network"]
    assert one.attrs["standardized"].startswith("no: network is given")
    other = sa.sample(ring, "nice", iter_sampling=50, network=network(ring, 1), **OPTIONS)
    assert not np.array_equal(one["posterior"]["x"].values, other["posterior"]["x"].values)


def test_a_network_is_resumed_and_other_data_are_reported(ring, tmp_path):
    made = network(ring)
    whole = sa.sample(ring, "nice", iter_sampling=400, network=made, **OPTIONS)
    sa.sample(ring, "nice", iter_sampling=100, network=made, run=tmp_path / "run", **OPTIONS)
    longer = sa.resume(tmp_path / "run", iter_sampling=400)
    np.testing.assert_array_equal(longer["posterior"]["x"].values, whole["posterior"]["x"].values)
    made = network(ring)
    made.description["data_hash"] = "another"
    with warns("network_other_data", "ring"):
        sa.sample(ring, "nice", network=made, iter_sampling=10, **OPTIONS)


def test_networks_that_do_not_belong_here_are_refused(ring):
    made = network(ring)
    other = sa.Target("parameters { vector[2] x; } model { x ~ normal(0, 1); }")
    wide = sa.Target("parameters { vector[3] x; } model { x ~ normal(0, 1); }")
    for target, sampler, value, code, fact in (
        (other, "nice", made, "wrong_network", "ring"),
        (wide, "nice", made, "wrong_network", 3),
        (ring, "rwm", made, "option_not_used", "network"),
        (ring, "nice", 3, "wrong_network", 3),
        (ring, "nice", "missing.npz", "network_unreadable", "missing.npz"),
    ):
        with raises(code, fact):
            sa.sample(target, sampler, network=value, iter_sampling=10, **OPTIONS)


def test_local_moves_of_warm_up_reach_the_posterior_from_far_away(ring):
    """There proposals of a network throw the noise far; after warm-up it is alone, as published."""
    made = network(ring)
    strong = Network(made.couplings, 4.0 * made.weights, made.mean, made.factor, made.description)
    far = [{"x": [100.0 * sign, 50.0]} for sign in (1.0, -1.0, 1.0, -1.0)]
    options = {**OPTIONS, "iter_warmup": 4000, "inits": far, "network": strong}
    fit = sa.sample(ring, "nice", iter_sampling=200, preset="song2017", **options)
    assert not fit["sample_stats"]["local"].values.any()
    assert np.abs(fit["posterior"]["x"].values).max() < 10.0
