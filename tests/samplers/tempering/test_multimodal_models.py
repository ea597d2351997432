"""Mixture, Boltzmann machine and horseshoe: densities and moments against other derivations.

The closed forms are numpy's, with gradients by hand. Moments of Boltzmann machines come once more
from another enumeration.
Numbers called published are those of Nemeth et al. (2019) and its authors' files.
"""

import numpy as np
import pytest
from scipy.special import expit, logsumexp
from scipy.stats import multivariate_normal

import stanadapt as sa
from stanadapt.errors import StanadaptError
from stanadapt.targets.stan import bundled
from tests.helpers.known_moments import arrays as load
from tests.helpers.known_moments import known_moments

MIXTURES = ["one_dim", "twenty", "twenty_sd", "twenty_variance", "eight", "eight_widths"]
MIXTURES += ["mog2", "mog6"]
SYSTEMS = ["system_1", "system_10"]
DRAWS = 20_000

# E x[1], E x[2], E x[1]^2, E x[2]^2
PUBLISHED_MOMENTS = {
    "twenty": [4.478, 4.905, 25.60468, 33.91964],
    "twenty_sd": [4.68761, 5.03024, 25.55823, 31.37818],
    "twenty_variance": [4.68761, 5.03024, 25.66772, 31.48767],
}
PUBLISHED_LOG_EVIDENCE = {"system_1": 160.88924, "system_10": 166.74675}
# half of the difference of the traces of their diagonals and ours is 0.004 and 0.010; that their
# Q Q' misses W a little off the diagonal too makes another 0.002
EVIDENCE_BOUNDS = {"system_1": 0.005, "system_10": 0.013}


def target(name, content):
    plain = {key: np.asarray(value).tolist() for key, value in content.items()}
    return sa.Target(bundled.find(name, next(iter(bundled.available()[name].data)))[0], plain)


def drawn(content, seed):
    """Direct draws from a mixture."""
    rng = np.random.default_rng(seed)
    chosen = rng.choice(content["K"], DRAWS, p=content["weights"] / content["weights"].sum())
    noise = rng.standard_normal((DRAWS, content["D"]))
    return content["means"][chosen] + content["sds"][chosen, None] * noise


def mixture(content, x):
    away = content["means"] - x
    parts = np.log(content["weights"] / content["weights"].sum()) + np.array(
        [
            multivariate_normal.logpdf(x, center, width**2)
            for center, width in zip(content["means"], content["sds"], strict=True)
        ]
    )
    value = logsumexp(parts)
    return value, np.exp(parts - value) / content["sds"] ** 2 @ away


def boltzmann(content, x):
    y = content["Q"] @ x + content["b"]
    log_cosh = np.abs(y) + np.log1p(np.exp(-2 * np.abs(y))) - np.log(2)
    return log_cosh.sum() - 0.5 * x @ x, content["Q"].T @ np.tanh(y) - x


def log_half_t(log_value, freedom, scale):
    """Log density of a half-t variable's logarithm, without its constant, and the derivative."""
    ratio = np.exp(2 * log_value) / (freedom * scale**2)
    value = -0.5 * (freedom + 1) * np.log1p(ratio) + log_value
    return np.sum(value), 1 - (freedom + 1) * ratio / (1 + ratio)


def horseshoe_inputs(content):
    center, spread = content["X"].mean(axis=0), content["X"].std(axis=0, ddof=1)
    return (content["X"] - center) / spread, (content["X_test"] - center) / spread


def horseshoe_coefficients(content, position):
    """Coefficients, and their derivatives by z, log(tau lambda) and log(slab_variance)."""
    columns = content["P"]
    z, log_lambda = position[1 : columns + 1], position[columns + 1 : 2 * columns + 1]
    loose = np.exp(position[-2] + log_lambda)
    c_squared = content["slab_scale"] ** 2 * np.exp(position[-1])
    tight = np.sqrt(c_squared * loose**2 / (c_squared + loose**2))
    share = c_squared / (c_squared + loose**2)  # 1 if the slab has no effect
    return z * tight, tight, z * tight * share, 0.5 * z * tight * (1 - share)


def horseshoe(content, position):
    inputs, _ = horseshoe_inputs(content)
    columns, half = content["P"], content["slab_df"] / 2
    coefficients, by_z, by_log_scale, by_log_slab = horseshoe_coefficients(content, position)
    logits = position[0] + inputs @ coefficients
    residual = content["y"] - expit(logits)
    pull = inputs.T @ residual
    z, log_lambda = position[1 : columns + 1], position[columns + 1 : 2 * columns + 1]
    local, d_local = log_half_t(log_lambda, content["nu_local"], 1)
    overall, d_overall = log_half_t(position[-2], content["nu_global"], content["scale_global"])
    precision = np.exp(-position[-1])
    value = np.sum(content["y"] * logits - np.logaddexp(0, logits)) - 0.5 * z @ z
    value -= 0.5 * (position[0] / content["scale_intercept"]) ** 2
    value += local + overall - half * (position[-1] + precision)
    return value, np.r_[
        residual.sum() - position[0] / content["scale_intercept"] ** 2,
        by_z * pull - z,
        by_log_scale * pull + d_local,
        by_log_scale @ pull + d_overall,
        by_log_slab @ pull - half * (1 - precision),
    ]


def assert_equal_gradients(gradient, expected, tolerance):
    np.testing.assert_allclose(gradient, expected, rtol=0, atol=tolerance * np.abs(expected).max())


@pytest.mark.parametrize("data", MIXTURES)
def test_mixture_is_the_normalized_closed_form(data):
    """At its draws and between the modes; no constant is free."""
    content = load("mixture", data)
    model = target("mixture", content)
    points = drawn(content, 1)[:20]
    for x in np.vstack([points, 0.5 * (points[:10] + points[10:])]):
        value, gradient, _ = model.evaluate(x)
        expected, expected_gradient = mixture(content, x)
        assert value == pytest.approx(expected, rel=1e-12, abs=1e-12)
        # by a mode the gradient is a small difference of terms of this size
        size = np.abs(content["means"] - x).max() / content["sds"].min() ** 2
        np.testing.assert_allclose(gradient, expected_gradient, rtol=1e-11, atol=1e-14 * size)


@pytest.mark.parametrize("data", SYSTEMS)
def test_boltzmann_is_the_closed_form(data):
    """Constants included, and far out, so that exp(-2 y) overflows."""
    content = load("boltzmann", data)
    model, rng = target("boltzmann", content), np.random.default_rng(2)
    for size in (0, 0.1, 1, 5, 20, 1e4):
        x = size * rng.standard_normal(content["D"])
        value, gradient, _ = model.evaluate(x)
        expected, expected_gradient = boltzmann(content, x)
        assert value == pytest.approx(expected, rel=1e-12)
        assert_equal_gradients(gradient, expected_gradient, 1e-12)


def test_horseshoe_is_the_closed_form():
    """Up to a constant; 1e-9 because of Stan's cut-off, as for the logistic regressions."""
    content = load("horseshoe", "golub")
    model, rng = target("horseshoe", content), np.random.default_rng(3)
    differences = []
    for size in (0.1, 0.5, 0.5, 1, 1, 2):
        position = size * rng.standard_normal(2 * content["P"] + 3)
        position[-2] += 2 * size - 2  # tau from far below one to far above: both sides of the slab
        value, gradient, _ = model.evaluate(position)
        expected, expected_gradient = horseshoe(content, position)
        assert_equal_gradients(gradient, expected_gradient, 1e-9)
        differences.append(value - expected)
    np.testing.assert_allclose(differences, differences[0], rtol=0, atol=1e-6)


def test_horseshoe_predicts_the_test_rows():
    content = load("horseshoe", "golub")
    model = target("horseshoe", content)
    position = np.random.default_rng(4).standard_normal((1, 2 * content["P"] + 3))
    out = np.empty((1, len(model.column_names)))
    assert model.constrainer(seed=1)(position, out) == 0
    coefficients = horseshoe_coefficients(content, position[0])[0]
    logits = position[0, 0] + horseshoe_inputs(content)[1] @ coefficients
    expected = content["y_test"] * logits - np.logaddexp(0, logits)
    first = model.column_names.index("beta.1")
    np.testing.assert_allclose(out[0, first : first + content["P"]], coefficients, rtol=1e-12)
    assert model.column_names[-1] == "log_predictive"
    np.testing.assert_allclose(out[0, -9:], np.r_[expected, expected.sum()], rtol=1e-8, atol=1e-13)


def test_horseshoe_refuses_a_constant_column():
    content = load("horseshoe", "golub")
    content["X"][:, 2] = 7
    with pytest.raises(StanadaptError, match="Column 3 of X"):  # from the program
        target("horseshoe", content)


def test_golub_has_its_rows_and_labels():
    content = load("horseshoe", "golub")
    assert content["X"].shape == (30, 200) == (content["N"], content["P"])
    assert content["X_test"].shape == (8, 200) == (content["N_test"], content["P"])
    labels = np.r_[content["y"], content["y_test"]]
    assert (np.sum(labels == 0), np.sum(labels == 1)) == (27, 11)
    assert (content["y"].sum(), content["y_test"].sum()) == (8, 3)
    assert content["scale_global"] == pytest.approx(5 / 195 * 2 / np.sqrt(30))
    assert content["X"].var(axis=0, ddof=1).min() > 0.75  # chosen for it: on average it is 0.33


@pytest.mark.parametrize("data", MIXTURES)
def test_mixture_moments_follow_from_the_data(data):
    content, known = load("mixture", data), known_moments("mixture", data)
    shares = content["weights"] / content["weights"].sum()
    mean = shares @ content["means"]
    second = shares @ (content["means"] ** 2 + content["sds"][:, None] ** 2)
    np.testing.assert_allclose(known["mean"]["x"], mean, rtol=1e-13, atol=1e-13)
    np.testing.assert_allclose(known["sd"]["x"], np.sqrt(second - mean**2), rtol=1e-13)
    assert known["log_evidence"] == 0
    if data in PUBLISHED_MOMENTS:
        np.testing.assert_allclose(np.r_[mean, second], PUBLISHED_MOMENTS[data], atol=6e-6)


@pytest.mark.parametrize("data", SYSTEMS)
def test_boltzmann_evidence_is_near_the_published_one(data):
    """Near enough to reveal a wrong sign or bias: without biases it is 0.17 and 0.11 away."""
    known = known_moments("boltzmann", data)
    assert known["log_evidence"] == pytest.approx(
        PUBLISHED_LOG_EVIDENCE[data], abs=EVIDENCE_BOUNDS[data]
    )
    assert len(known["mean"]["x"]) == len(known["sd"]["x"]) == load("boltzmann", data)["D"]
    assert np.min(known["sd"]["x"]) == pytest.approx(1, abs=1e-4)
    if data == "system_10":
        assert np.max(known["sd"]["x"]) == pytest.approx(10.8, abs=0.1)
