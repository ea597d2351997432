"""The bundled programs equal their closed forms, written out here with numpy and scipy.

The closed forms are functions of the unconstrained parameters, with the Jacobians derived by hand.
Gradients are compared with differences of the closed form, so that no automatic differentiation is
compared with itself.
"""

import numpy as np
import pytest
from scipy import integrate, stats
from scipy.special import expit, log_expit, logsumexp

import stanadapt as sa
from stanadapt.targets.stan import bundled
from tests.helpers.everyday_programs import POSITIONS, positions, spread
from tests.helpers.known_moments import arrays


def normal(x, mean, sd):
    return np.sum(stats.norm.logpdf(x, mean, sd))


def lognormal(x, mean, sd):
    return np.sum(stats.norm.logpdf(np.log(x), mean, sd) - np.log(x))


def ordered(u):
    """Values, and the log Jacobian."""
    return np.cumsum(np.r_[u[0], np.exp(u[1:])]), np.sum(u[1:])


def simplex(u):
    """Stan's transform since 2.37, which stanli has: softmax of numbers with the sum zero."""
    sums = np.zeros(u.size + 1)
    for i in range(u.size, 0, -1):
        share = u[i - 1] / np.sqrt(i * (i + 1))
        sums[:i] += share
        sums[i] -= i * share
    weights = np.exp(sums - logsumexp(sums))
    return weights, np.sum(np.log(weights))


def gaussian(data, u):
    return -0.5 * (u - data["mu"]) @ np.linalg.solve(data["Sigma"], u - data["mu"])


def neal(data, u):
    return normal(u, 0, np.arange(1, data["N"] + 1) / data["N"])


def logistic(data, u):
    inputs = data["X"].astype(float)
    standardized = (inputs - inputs.mean(axis=0)) / inputs.std(axis=0, ddof=1)
    logits = u[0] + standardized @ u[1:]
    return np.sum(data["y"] * logits - np.logaddexp(0, logits)) - 0.5 * u @ u


def eight_schools(data, mu, log_tau, theta):
    return (
        normal(mu, 0, 5)
        + stats.halfcauchy.logpdf(np.exp(log_tau), scale=5)
        + log_tau
        + normal(data["y"], theta, data["sigma"])
    )


def eight_schools_centered(data, u):
    return eight_schools(data, *u[:2], u[2:]) + normal(u[2:], u[0], np.exp(u[1]))


def eight_schools_noncentered(data, u):
    return eight_schools(data, *u[:2], u[0] + np.exp(u[1]) * u[2:]) + normal(u[2:], 0, 1)


def banana(data, u):
    bent = u[1] - data["twist"] * (u[0] ** 2 - data["variance"])
    return -0.5 * (u[0] ** 2 / data["variance"] + bent**2 + u[2:] @ u[2:])


def flower(data, u):
    petals = data["amplitude"] * np.cos(data["petals"] * np.arctan2(u[1], u[0]))
    distance = np.hypot(u[0], u[1]) - data["radius"] - petals
    return -0.5 * (distance**2 / data["variance"] + u[2:] @ u[2:])


def ring(data, u):
    return flower({**data, "amplitude": 0.0, "petals": 1}, u)


def rings(data, u):
    return -0.5 * np.min(np.abs(np.hypot(*u) - data["radii"])) ** 2 / data["variance"]


def linear(data, u):
    alpha, beta, sigma = u[0], u[1:-1], np.exp(u[-1])
    return (
        normal(alpha, 0, data["sd_intercept"])
        + normal(beta, 0, data["sd_slopes"])
        + normal(sigma, 0, data["sd_noise"])
        + u[-1]
        + normal(data["y"], alpha + data["X"] @ beta, sigma)
    )


def negative_binomial(data, u):
    alpha, beta, dispersion = u[0], u[1:-1], np.exp(u[-1])
    mean = data["exposure"] * np.exp(alpha + data["X"] @ beta)
    successes = dispersion**-2.0
    return (
        normal(alpha, data["mean_intercept"], data["sd_intercept"])
        + normal(beta, 0, data["sd_slopes"])
        + normal(dispersion, 0, 1)
        + u[-1]
        + np.sum(stats.nbinom.logpmf(data["y"], successes, successes / (successes + mean)))
    )


def varying_intercepts(data, u):
    mu, tau, alpha, beta, sigma = u[0], np.exp(u[1]), u[2:-2], u[-2], np.exp(u[-1])
    mean = alpha[data["county"] - 1] + beta * data["first_floor"]
    return (
        normal(mu, 0, 5)
        + normal(tau, 0, 1)
        + normal(alpha, mu, tau)
        + normal(beta, 0, 5)
        + normal(sigma, 0, 2)
        + u[1]
        + u[-1]
        + normal(data["log_radon"], mean, sigma)
    )


def varying_slopes(data, u):
    (alpha, beta), tau, correlation, sigma = u[:2], np.exp(u[2:4]), np.tanh(u[4]), np.exp(u[-1])
    z = u[5:-1].reshape(-1, 2)  # Stan's matrices are stored by columns, one of each driver
    intercepts = alpha + tau[0] * z[:, 0]
    slopes = beta + tau[1] * (correlation * z[:, 0] + np.sqrt(1 - correlation**2) * z[:, 1])
    driver = data["driver"] - 1
    return (
        normal(alpha, 300, 100)
        + normal(beta, 0, 25)
        + normal(tau, 0, [50, 20])
        + u[2]
        + u[3]
        # the density of the factor is (1 - r^2) for two dimensions and eta = 2, so is the Jacobian
        + 2 * np.log(1 - correlation**2)
        + normal(z, 0, 1)
        + normal(sigma, 0, 50)
        + u[-1]
        + normal(data["reaction"], intercepts[driver] + slopes[driver] * data["days"], sigma)
    )


def autoregressive(data, u):
    alpha, phi, sigma, lags, y = u[0], u[1:-1], np.exp(u[-1]), data["K"], data["y"]
    mean = [alpha + phi @ y[t - lags : t][::-1] for t in range(lags, len(y))]
    return (
        normal(alpha, 0, data["sd_intercept"])
        + normal(phi, 0, 1)
        + normal(sigma, 0, data["sd_noise"])
        + u[-1]
        + normal(y[lags:], mean, sigma)
    )


def garch(data, u):
    mu, omega, alpha = u[0], np.exp(u[1]), expit(u[2])
    beta = (1 - alpha) * expit(u[3])
    jacobian = u[1] + log_expit(u[2]) + log_expit(-u[2])
    jacobian += np.log(1 - alpha) + log_expit(u[3]) + log_expit(-u[3])
    returns = np.diff(np.log(data["price"]))
    variances = [np.var(returns, ddof=1)]
    for past in returns[:-1]:
        variances.append(omega + alpha * (past - mu) ** 2 + beta * variances[-1])
    return (
        normal(mu, 0, 0.01)
        + lognormal(omega, -11, 2)
        + stats.beta.logpdf(alpha, 1, 3)
        + jacobian
        + normal(returns, mu, np.sqrt(variances))
    )


def gaussian_process(data, u):
    amplitude, length_scale, sigma = np.exp(u)
    distances = data["time"][:, None] - data["time"]
    kernel = amplitude**2 * np.exp(-0.5 * (distances / length_scale) ** 2)
    covariance = kernel + sigma**2 * np.eye(data["N"])
    _, log_determinant = np.linalg.slogdet(covariance)
    y = data["acceleration"]
    return (
        normal(amplitude, 0, 100)
        + stats.invgamma.logpdf(length_scale, 3, scale=20)
        + normal(sigma, 0, 50)
        + np.sum(u)
        - 0.5 * (log_determinant + y @ np.linalg.solve(covariance, y))
    )


def item_response(data, u):
    persons, items = int(data["J"]), int(data["I"])
    theta, log_discrimination = u[:persons], u[persons : persons + items]
    difficulty = u[persons + items :]
    discrimination, item = np.exp(log_discrimination), data["item"] - 1
    logits = discrimination[item] * (theta[data["person"] - 1] - difficulty[item])
    return (
        normal(theta, 0, 1)
        + lognormal(discrimination, 0, 0.5)
        + np.sum(log_discrimination)
        + normal(difficulty, 0, 2)
        + np.sum(data["y"] * log_expit(logits) + (1 - data["y"]) * log_expit(-logits))
    )


def lotka_volterra(data, u):
    (birth, eaten, death, fed), initial, sigma = np.exp(u[:4]), np.exp(u[4:6]), np.exp(u[6:])

    def change(state, _):
        prey, predators = state
        return [(birth - eaten * predators) * prey, (fed * prey - death) * predators]

    times = np.r_[0, data["time"]]
    states = integrate.odeint(change, initial, times, rtol=1e-11, atol=1e-11)
    counts = np.vstack([data["first"], data["count"]])
    return (
        normal([birth, death], 1, 0.5)
        + normal([eaten, fed], 0.05, 0.05)
        + lognormal(initial, np.log(10), 1)
        + lognormal(sigma, -1, 1)
        + np.sum(u)
        + lognormal(counts, np.log(states), sigma)
    )


def ordered_logistic(data, u):
    beta, (cut_points, jacobian) = u[:-2], ordered(u[-2:])
    # probabilities of a higher rank than 0, 1, 2 and 3
    above = expit((data["X"] @ beta)[:, None] - np.r_[-np.inf, cut_points, np.inf])
    row = np.arange(data["N"])
    return (
        normal(beta, 0, data["sd_slopes"])
        + normal(cut_points, 0, data["sd_cut_points"])
        + jacobian
        + np.sum(np.log(above[row, data["y"] - 1] - above[row, data["y"]]))
    )


def galaxies(data, u):
    (weights, first), (means, second), sigma = simplex(u[:2]), ordered(u[2:5]), np.exp(u[5])
    parts = stats.norm.pdf(data["velocity"][:, None], means, sigma)
    return (
        stats.dirichlet.logpdf(weights, [2, 2, 2])
        + first
        + normal(means, data["prior_means"], data["sd_means"])
        + second
        + lognormal(sigma, np.log(1000), 1)
        + u[5]
        + np.sum(np.log(parts @ weights))
    )


def student_t(data, u):
    alpha, beta, gamma, sigma, nu = *u[:3], np.exp(u[3]), 1 + np.exp(u[4])
    residual = data["weight"] - alpha - beta * data["height"] - gamma * data["male"]
    return (
        normal([alpha, beta, gamma], 0, [200, 2, 20])
        + normal(sigma, 0, 20)
        + stats.gamma.logpdf(nu, 2, scale=10)
        + u[3]
        + u[4]
        + np.sum(stats.t.logpdf(residual, nu, scale=sigma))
    )


def weibull(data, u):
    alpha, beta, shape = u[0], u[1:-1], np.exp(u[-1])
    scales, censored = (np.exp(alpha + data[x] @ beta) for x in ("X", "X_censored"))
    return (
        normal(alpha, 4, 3)
        + normal(beta, 0, data["sd_slopes"])
        + lognormal(shape, 0, 0.5)
        + u[-1]
        + np.sum(stats.weibull_min.logpdf(data["days"], shape, scale=scales))
        + np.sum(stats.weibull_min.logsf(data["censored_days"], shape, scale=censored))
    )


def mixture(data, u):
    logs = [
        stats.multivariate_normal.logpdf(u, center, width**2)
        for center, width in zip(data["means"], data["sds"], strict=True)
    ]
    return logsumexp(logs, b=data["weights"] / data["weights"].sum())


def boltzmann(data, u):
    y = data["Q"] @ u + data["b"]
    return np.sum(np.logaddexp(y, -y) - np.log(2)) - 0.5 * u @ u


def horseshoe(data, u):
    z, log_local, log_global, log_slab = np.split(u[1:], np.cumsum([data["P"], data["P"], 1]))
    local, slab = np.exp(log_global + log_local), data["slab_scale"] ** 2 * np.exp(log_slab)
    inputs = (data["X"] - data["X"].mean(axis=0)) / data["X"].std(axis=0, ddof=1)
    logits = u[0] + inputs @ (z * np.sqrt(slab * local**2 / (slab + local**2)))
    half = 0.5 * data["slab_df"]
    return (
        normal(u[0], 0, data["scale_intercept"])
        + normal(z, 0, 1)
        + np.sum(stats.t.logpdf(np.exp(log_local), data["nu_local"]) + log_local)
        + np.sum(stats.t.logpdf(np.exp(log_global) / data["scale_global"], data["nu_global"]))
        + np.sum(log_global - half * (log_slab + np.exp(-log_slab)))
        + np.sum(data["y"] * logits - np.logaddexp(0, logits))
    )


CLOSED_FORMS = {
    form.__name__: form
    for form in (
        gaussian, neal, logistic, eight_schools_centered, eight_schools_noncentered, banana, flower,
        ring, rings, linear, negative_binomial, varying_intercepts, varying_slopes, autoregressive,
        garch, gaussian_process, item_response, lotka_volterra, ordered_logistic, galaxies,
        student_t, weibull, mixture, boltzmann, horseshoe,
    )
}  # fmt: skip
ELSEWHERE = {"glass"}  # tests/samplers/kameleon/test_glass.py, with a second implementation
NORMALIZED = {"mixture", "boltzmann"}  # densities with their constants, for the evidence
PAIRS = [
    pytest.param(name, data, marks=pytest.mark.thorough if name in POSITIONS else ())
    for name in CLOSED_FORMS
    for data in bundled.require(name).data
]
# relative, of values and of gradients; Stan's solver of differential equations stops at 1e-6, and
# its bernoulli_logit_glm treats exp(-20) as zero, an error of up to 2e-9 per row; petals are narrow
TOLERANCES = {"lotka_volterra": (1e-6, 1e-4), "logistic": (1e-9, 1e-7), "flower": (1e-11, 1e-5)}
TOLERANCES["horseshoe"] = TOLERANCES["logistic"]


def slope(function, point, steps):
    """Central differences of fourth order, of the function of point / steps."""
    result = np.empty(point.size)
    for i, step in enumerate(np.diag(steps)):
        near = function(point + step) - function(point - step)
        far = function(point + 2 * step) - function(point - 2 * step)
        result[i] = (8 * near - far) / 12
    return result


def test_every_program_has_a_closed_form():
    assert set(CLOSED_FORMS) | ELSEWHERE == set(bundled.available())
    assert set(POSITIONS) <= set(CLOSED_FORMS)


@pytest.mark.parametrize(("name", "data"), PAIRS)
def test_density_and_gradient_equal_the_closed_form(name, data):
    """Values up to the constant that `propto` drops; gradients in units of the spreads."""
    target = sa.Target(*bundled.find(name, data))
    content, unit = arrays(name, data), np.broadcast_to(spread(name), target.dim)
    of_values, of_gradients = TOLERANCES.get(name, (1e-11, 1e-7))

    def closed_form(point):
        return CLOSED_FORMS[name](content, point)

    points = positions(name, target.dim, 4, seed=20192)
    evaluations = [target.evaluate(point) for point in points]
    values = np.array([value for value, _, _ in evaluations])
    expected = np.array([closed_form(point) for point in points])
    assert np.ptp(expected) > 1  # otherwise a constant density would pass
    atol = of_values * np.abs(expected).max()
    np.testing.assert_allclose(np.diff(values), np.diff(expected), rtol=0, atol=atol)
    if name in NORMALIZED:
        np.testing.assert_allclose(values, expected, rtol=0, atol=atol)
    for point, (_, gradient, _) in zip(points[:2], evaluations, strict=False):
        differences = slope(closed_form, point, 1e-3 * unit) / 1e-3
        atol = of_gradients * max(1.0, np.abs(differences).max())
        np.testing.assert_allclose(gradient * unit, differences, rtol=0, atol=atol)
