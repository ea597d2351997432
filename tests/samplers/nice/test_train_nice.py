"""Training: the trainer's map is the sampler's, modes are joined, and failures are reported."""

import sys
import warnings

import numpy as np
import pytest

import stanadapt as sa
from stanadapt.errors import StanadaptError
from stanadapt.samplers.nice import Network, adversarial, train, train_nice
from stanadapt.targets.stan import bundled
from tests.helpers.codes import raises, warns
from workflows.learned.known_moments_ess import ess_known_moments

QUICK = {
    "iterations": 20, "rehearse_every": 10, "draws": 200, "width": 16, "critic_width": 16,
    "from_noise": 3, "seed": 3,
}  # fmt: skip
# as published, without local moves
PLAIN = {"preset": "song2017"}


def bundled_target(name, data):
    return sa.Target(*bundled.find(name, data))


# made first: stanli's compiler cannot start in a process in which JAX has multiplied matrices, if
# faulthandler is on, as it is in pytest
@pytest.fixture(scope="module", autouse=True)
def mog2():
    return bundled_target("mixture", "mog2")


def trainer(made, seed=0):
    lengths = adversarial.Lengths(3, 2, 8)
    return adversarial.Trainer(made.couplings, made.weights, [8, 8], lengths, 1e-3, seed)


@pytest.mark.slow
def test_the_map_of_the_trainer_is_that_of_the_sampler():
    made = Network.untrained(3, 2, [[7], [5, 4], [6]], seed=1)
    made.weights += 0.1 * np.random.default_rng(0).normal(size=made.weights.size)
    learner, rng = trainer(made), np.random.default_rng(2)
    np.testing.assert_allclose(learner.weights(), made.weights, rtol=1e-6, atol=1e-9)
    z, v = rng.normal(size=(20, 3)), rng.normal(size=(20, 2))
    found = [np.asarray(part) for part in learner.map(z, v)]
    for row in range(20):
        wanted = made.map(z[row], v[row])
        for part, exact in zip(found, wanted, strict=True):
            # single precision, in units of the largest coordinate
            error = np.abs(part[row] - exact).max() / np.abs(exact).max()
            assert error < 1e-6


@pytest.mark.slow
@pytest.mark.parametrize("size", [2, 40])
def test_the_loss_of_v_is_the_energy_in_the_acceptance_ratio(size):
    """A network of zeros leaves v, a critic of zeros has no loss: half the energy of v is left.

    Half the mean of |v|^2 / 2 over 192 rows: its standard error is sqrt(size / 2 / 192) / 2.
    """
    made = Network.untrained(3, size, [[4], [4]])
    made.weights *= 0.0
    lengths = adversarial.Lengths(3, 2, 64)
    learner = adversarial.Trainer(made.couplings, made.weights, [8], lengths, 1e-3, 1)
    state = learner._trained
    critic = [tuple(0.0 * part for part in layer) for layer in state.critic]
    rows = np.random.default_rng(1).normal(size=(50, 3)).astype(np.float32)
    loss = float(learner._generator_loss(state.generator, critic, rows, state.key))
    assert abs(loss - size / 4) < 4 * np.sqrt(size / 2 / 192) / 2


@pytest.mark.soak
def test_moves_are_accepted_in_many_dimensions():
    """20 exact normal coordinates, 400 steps: one move in ten, acceptance in closed form.

    With the mean of v^2 in the loss it is one in a thousand: v' is too large.
    """
    dim, rng = 20, np.random.default_rng(1)
    made = Network.untrained(dim, 2 * dim, [[32]] * 3, 1)
    lengths = adversarial.Lengths(3, 2, 32)
    learner = adversarial.Trainer(made.couplings, made.weights, [64, 64], lengths, 1e-3, 1)
    learner.train(train.SPREAD * rng.normal(size=(5000, dim)), 400)
    z, v = rng.normal(size=(4000, dim)), rng.normal(size=(4000, 2 * dim))
    ends = [np.asarray(part) for part in learner.map(train.SPREAD * z, v)]
    log_ratio = 0.5 * (z**2 - (ends[0] / train.SPREAD) ** 2).sum(axis=1)
    log_ratio += 0.5 * (v**2 - ends[1] ** 2).sum(axis=1)
    assert np.exp(np.minimum(log_ratio, 0.0)).mean() > 0.05


@pytest.mark.soak
def test_training_depends_on_the_seed_alone():
    made, rows = Network.untrained(2, 2, [[4], [4]]), np.random.default_rng(1).normal(size=(50, 2))
    ends = []
    for seed in (0, 0, 1):
        learner = trainer(made, seed)
        learner.train(rows, 3)
        ends.append(learner.weights())
    np.testing.assert_array_equal(ends[0], ends[1])
    assert not np.array_equal(ends[0], ends[2])


@pytest.mark.slow
def test_a_network_is_described_and_used(mog2, tmp_path):
    made = train_nice(mog2, **QUICK)
    assert made.description["program_hash"] == mog2.program.hash
    history = made.description["history"]
    assert [row["step"] for row in history] == [0, 10, 20]
    best = max(history, key=lambda row: row["ess_per_draw"])
    assert made.description["step"] == best["step"]
    assert made.description["n_density"] == 4 * 8 * (train.WARMUP + 200 + 1)
    made.save(tmp_path / "network.npz")
    read = Network.load(tmp_path / "network.npz")
    assert read.description == made.description
    fit = sa.sample(mog2, "nice", network=read, chains=2, iter_warmup=50, iter_sampling=50, seed=1)
    assert "for mixture" in fit.attrs["network"]


@pytest.mark.soak
def test_two_modes_are_joined(mog2):
    """Both in every chain, and at least 355 effective draws of 1000, as published."""
    made = train_nice(mog2, seed=1)
    assert made.description["step"] <= 2000
    fit = sa.sample(mog2, "nice", network=made, iter_sampling=5000, seed=2, **PLAIN)
    x = fit["posterior"]["x"].values
    right = (x[..., 0] > 0).mean(axis=1)
    assert np.all((right > 0.4) & (right < 0.6))
    sd = np.array([5.0249378, 0.5])
    assert ess_known_moments(x, np.zeros(2), sd).min() >= 0.355 * 5000
    np.testing.assert_allclose(x.std((0, 1)), sd, rtol=0.03)


@pytest.mark.thorough
def test_losses_that_are_not_finite_end_it_with_the_last_good_network(mog2, monkeypatch):
    taken = []

    def diverging(self, rows, steps):
        taken.append(steps)
        return (1.0, 2.0) if len(taken) < 2 else (np.nan, 1.0)

    monkeypatch.setattr(adversarial.Trainer, "train", diverging)
    with warns("training_stopped", "step 20", "learning_rate"):
        made = train_nice(mog2, **QUICK)
    assert [row["step"] for row in made.description["history"]] == [0, 10]
    assert made.description["interrupted"]


def test_an_interruption_keeps_the_best(mog2, monkeypatch):
    def interrupted(self, rows, steps):
        raise KeyboardInterrupt

    monkeypatch.setattr(adversarial.Trainer, "train", interrupted)
    with warns("training_stopped", "0 steps", "step 0"):
        made = train_nice(mog2, **QUICK)
    assert made.description["interrupted"]


def test_without_jax_the_error_names_the_packages_to_install(mog2, monkeypatch):
    monkeypatch.delitem(sys.modules, "stanadapt.samplers.nice.adversarial")
    monkeypatch.delattr(sys.modules["stanadapt.samplers.nice"], "adversarial")
    monkeypatch.setitem(sys.modules, "jax", None)
    with raises("jax_missing", "JAX", "optax", "pip install 'stanadapt[learn]'"):
        train_nice(mog2, **QUICK)


def test_bad_input_is_refused(mog2):
    for wrong, facts in (
        ({"width": 0}, ["width", 0]),
        ({"from_data": 0}, ["from_data", 0]),
        ({"learning_rate": 2.0}, ["learning_rate", 2.0]),
        ({"draws": 3}, ["draws", 100, 3]),
        ({"auxiliary": 0}, ["auxiliary", 0]),
    ):
        with raises("out_of_range", *facts):
            train_nice(mog2, **(QUICK | wrong))
    for start, fact in ((3, "mixture"), ("missing.nc", "missing.nc")):
        with pytest.raises(StanadaptError, match=fact):
            train_nice(mog2, warm_start=start, **QUICK)
    with pytest.raises(StanadaptError, match="Target"):
        train_nice(3, **QUICK)


@pytest.mark.soak
def test_a_fit_of_another_program_is_refused(mog2):
    other = bundled_target("ring", "nice")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        fit = sa.sample(other, "rwm", chains=2, iter_warmup=50, iter_sampling=50, seed=1)
    with pytest.raises(StanadaptError, match="program"):
        train_nice(mog2, warm_start=fit, **QUICK)
    made = train_nice(other, warm_start=fit, **QUICK)
    assert made.dim == 2
