"""What "auto" chooses: the default where a gradient can be followed, and nowhere else."""

import json

import numpy as np
import pytest

import stanadapt as sa
from stanadapt.results import attribute
from stanadapt.runs.choose_sampler import choose_sampler
from stanadapt.runs.gradient_check import gradient_problem
from stanadapt.targets.stan import bundled
from tests.helpers.codes import raises, warns
from tests.helpers.seldom_parameters import soak_except

LINE = np.array([[-1.0, 0.5, 0.3], [1.5, -0.4, 1.0], [0.2, 1.7, -1.9]])


class Made:
    """A density of three coordinates: what `evaluate` returns is given."""

    def __init__(self, value, gradient):
        self.value, self.gradient = value, gradient

    def evaluate(self, position):
        return self.value(position), np.asarray(self.gradient(position), float), ""


def smooth(x, scale=1.0):
    return -np.exp(x[0] / scale) - 0.5 * (x[1] / scale - 2) ** 2 - np.cosh(x[2] / scale)


def slope(x, scale=1.0):
    z = x / scale
    return np.array([-np.exp(z[0]), 2 - z[1], -np.sinh(z[2])]) / scale


def laplace(x):
    return -np.abs(x / 1e-3).sum()


DENSITIES = {
    "smooth": (smooth, slope, ""),
    "steep": (lambda x: smooth(x, 0.003), lambda x: slope(x, 0.003), ""),
    "scales": (
        lambda x: -0.5 * ((x / [1e-12, 1.0, 1e12]) ** 2).sum(),
        lambda x: -x / [1e-24, 1.0, 1e24],
        "",
    ),
    "kinks": (laplace, lambda x: -np.sign(x) / 1e-3, ""),
    "flat": (lambda x: 0.0, lambda x: np.zeros(3), ""),
    "small jump": (lambda x: smooth(x) + 0.4 * (x[0] > 0.4), slope, ""),
    "jump": (lambda x: smooth(x) + 0.6 * (x[0] > 0.4), slope, "the log density jumps (by 0.6)"),
    "jump on a steep slope": (
        lambda x: smooth(x, 0.3) + 20 * (x[0] > 0.4), lambda x: slope(x, 0.3), "jumps (by 20)",
    ),
    "wrong sign": (smooth, lambda x: -slope(x), "does not agree with differences"),
    "one part wrong": (smooth, lambda x: slope(x) * [1, 1, 0.5], "does not agree"),
    "zero": (smooth, lambda x: np.zeros(3), "does not agree"),
    "staircase": (
        lambda x: smooth([x[0], x[1], 0.0]) - np.round(100 * x[2]) / 100,
        lambda x: slope(x) * [1, 1, 0],
        "the gradient is zero where the log density is not constant",
    ),
    # as high at the position with another's third coordinate, and jumps of less than 0.5
    "symmetric staircase": (
        lambda x: smooth([x[0], x[1], 0.0]) - 0.4 * (np.abs(x[2]) > 2.5),
        lambda x: slope(x) * [1, 1, 0],
        "the gradient is zero where the log density is not constant",
    ),
    "constant between edges": (
        lambda x: 0.0 if abs(x[1]) < 5e4 else -np.inf,
        lambda x: np.zeros(3),
        "constant between hard edges",
    ),
    "constant in two coordinates between edges": (
        lambda x: smooth([x[0], 0.0, 0.0]) if abs(x[1]) < 5e4 else -np.inf,
        lambda x: slope(np.array([x[0], 2.0, 0.0])),
        "",
    ),
    "no gradient in a region": (
        smooth,
        lambda x: slope(x) if x[0] < 0.5 else np.full(3, np.nan),
        "not finite at 10 of 17 random positions",
    ),
    "no gradient at one place": (
        smooth, lambda x: slope(x) if x[0] < 1.5 else np.full(3, np.inf), "",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", DENSITIES)
def test_what_the_check_finds(name):
    value, gradient, problem = DENSITIES[name]
    found = gradient_problem(Made(value, gradient), LINE)
    assert (problem in found) if problem else (found == "")


def test_the_check_is_cheap_and_takes_no_failure_for_evidence():
    def value(x):
        return smooth(x) if x[0] < 0.3 else -np.inf

    assert gradient_problem(Made(value, slope), LINE[[0, 2]]) == ""
    calls = []
    gradient_problem(Made(lambda x: calls.append(x) or smooth(x), slope), LINE)
    assert len(calls) < 120


@pytest.mark.slow
@pytest.mark.parametrize(
    "name", soak_except({"garch", "horseshoe", "lotka_volterra", "ring"}, bundled.available())
)
def test_every_bundled_program_with_a_gradient_gets_the_default(name):
    for data in bundled.available()[name].data:
        target = sa.Target(*bundled.find(name, data))
        for seed in range(5):
            assert choose_sampler(target, seed=seed).sampler == "whitened_hmc", (data, seed)


def test_noise_and_jumps_get_a_sampler_without_gradients():
    noisy = sa.Target(*bundled.find("glass"), noise=["u"])
    with warns("sampler_chosen", "am"):
        assert choose_sampler(noisy).sampler == "am"
    code = "parameters { vector[2] x; } model { x ~ std_normal(); target += -9 * step(x[1]); }"
    with pytest.warns(UserWarning, match="checks of this program were omitted"):
        stairs = sa.Target(code, unsafe=True)
    with warns("sampler_chosen", "am", "9"):
        fit = sa.sample(stairs, chains=2, seed=1, iter_sampling=200)
    assert attribute(fit, "sampler") == "am"
    assert "jumps" in attribute(fit, "sampler_reason")


def test_what_was_asked_for_is_taken_and_the_default_has_settings():
    target = sa.Target(*bundled.find("neal"))
    assert choose_sampler(target, "rwm") == ("rwm", "asked for")
    settings = sa.samplers.hamiltonian.nuts.Settings()
    assert choose_sampler(target, settings).sampler is settings
    target = sa.Target(*bundled.find("neal"))
    run = {"chains": 2, "seed": 1, "iter_sampling": 100}
    fit = sa.sample(target, target_accept=0.9, **run)
    assert attribute(fit, "sampler") == "whitened_hmc"
    assert attribute(fit, "sampler_reason") == "the density has a gradient"
    assert json.loads(attribute(fit, "settings"))["target_accept"] == 0.9
    with raises("unknown_argument", "whitened_hmc", "leapfrogs"):
        sa.sample(target, leapfrogs=3, **run)
