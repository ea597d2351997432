"""Simulated data of the everyday programs, each with the values from which they were drawn.

A function has the name of its program in `programs` and returns data and truths: values of some
parameters or generated quantities by name. Truths lie well inside the priors.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from scipy import integrate, special, stats

PROGRAMS = Path(__file__).with_name("programs")
Simulated = tuple[dict[str, Any], dict[str, Any]]
SIMULATIONS: dict[str, Callable[[np.random.Generator], Simulated]] = {}


def simulation(function):
    SIMULATIONS[function.__name__] = function
    return function


def of(name: str, seed: int = 2701) -> Simulated:
    """Return data and truths of a program; each has random numbers of its own."""
    number = sorted(SIMULATIONS).index(name)
    return SIMULATIONS[name](np.random.default_rng([seed, number]))


# --- regressions ---------------------------------------------------------------------------------


@simulation
def hierarchical_regression(rng):
    groups, n = 12, 120
    x = np.column_stack([np.ones(n), rng.normal(2, 1, n), rng.normal(0, 2, n)])
    group = np.arange(n) % groups
    b, spread, sigma = np.array([1.0, 0.8, -0.5]), 0.7, 0.6
    y = x @ b + spread * rng.standard_normal(groups)[group] + rng.normal(0, sigma, n)
    data = {
        "N": n, "Y": y, "K": 3, "X": x, "N_1": groups, "J_1": group + 1, "Z_1_1": np.ones(n),
        "grainsize": 40, "prior_only": 0,
    }  # fmt: skip
    return data, {"b": b[1:], "b_Intercept": b[0], "sd_1": [spread], "sigma": sigma}


@simulation
def horseshoe_qr(rng):
    n, beta, sigma = 120, np.array([1.5, 0.0, -1.0, 0.0, 0.0, 0.6]), 0.8
    x = rng.standard_normal((n, beta.size))
    x[:, 1] += 0.7 * x[:, 0]
    y = 0.5 + (x - x.mean(axis=0)) @ beta + rng.normal(0, sigma, n)
    data = {
        "N": n, "K": beta.size, "X": x - x.mean(axis=0), "y": y, "global_scale": 0.1,
        "slab_scale": 2.5,
    }  # fmt: skip
    return data, {"alpha": 0.5, "beta": beta, "sigma": sigma}


@simulation
def trend(rng):
    t = np.linspace(0, 1, 150)
    change, delta = np.array([0.2, 0.4, 0.6, 0.8]), np.array([0.0, 1.2, 0.0, -2.0])
    k, m, beta, sigma = 0.8, 0.3, np.array([0.15, -0.1, 0.05, 0.08]), 0.06
    waves = [f(2 * np.pi * j * 6 * t) for j in (1, 2) for f in (np.sin, np.cos)]
    x, after = np.column_stack(waves), t[:, None] >= change
    y = (k + after @ delta) * t + m - after @ (change * delta) + x @ beta
    data = {
        "T": t.size, "K": 4, "t": t, "y": y + rng.normal(0, sigma, t.size), "S": 4,
        "t_change": change, "X": x, "sigmas": np.full(4, 0.5), "tau": 0.8,
    }  # fmt: skip
    return data, {"k": k, "m": m, "delta": delta, "beta": beta, "sigma_obs": sigma}


@simulation
def two_parameter_items(rng):
    persons, items = 80, 10
    ability, a = rng.standard_normal(persons), rng.lognormal(0, 0.4, items)
    b = rng.normal(0.3, 1.0, items)
    person, item = (grid.ravel() for grid in np.indices((persons, items)))
    y = rng.random(person.size) < special.expit(a[item] * (ability[person] - b[item]))
    data = {
        "J": persons, "K": items, "N": y.size, "jj": person + 1, "kk": item + 1,
        "y": y.astype(int),
    }  # fmt: skip
    return data, {"a": a, "b": b, "mu_b": 0.3, "sigma_b": 1.0}


@simulation
def correlated_slopes(rng):
    groups, n, rho = 25, 250, -0.5
    tau, beta, sigma = np.array([0.8, 0.5]), np.array([1.0, -0.7]), 0.5
    covariance = np.outer(tau, tau) * [[1, rho], [rho, 1]]
    effects = rng.multivariate_normal([0, 0], covariance, groups)
    group, x = np.arange(n) % groups, rng.standard_normal(n)
    y = beta[0] + effects[group, 0] + (beta[1] + effects[group, 1]) * x + rng.normal(0, sigma, n)
    data = {"N": n, "J": groups, "id": group + 1, "x": x, "y": y}
    return data, {"beta": beta, "tau": tau, "sigma": sigma, "rho": rho}


@simulation
def multivariate_probit(rng):
    n, a, b, rho = 60, np.array([0.3, -0.4]), np.array([0.8, -0.6]), 0.5
    x = rng.standard_normal(n)
    errors = rng.multivariate_normal([0, 0], [[1, rho], [rho, 1]], n)
    y = (a + b * x[:, None] + errors > 0).astype(int)
    return {"N": n, "y": y, "x": x}, {"a": a, "b": b}


@simulation
def survival(rng):
    n, shape, intercept, beta = 150, 1.4, 1.0, np.array([0.6, -0.4])
    x = rng.standard_normal((n, 2))
    time = np.exp(intercept + x @ beta) * rng.weibull(shape, n)
    limit = rng.uniform(1, 8, n)
    data = {
        "N": n, "time": np.minimum(time, limit), "event": (time <= limit).astype(int), "K": 2,
        "X": x,
    }  # fmt: skip
    return data, {"shape": shape, "intercept": intercept, "beta": beta}


@simulation
def ordinal(rng):
    n, beta, cuts = 150, np.array([0.9, -0.5]), np.array([-1.5, -0.3, 0.6, 1.8])
    x = rng.standard_normal((n, 2))
    latent = x @ beta + rng.logistic(size=n)
    y = 1 + (latent[:, None] > cuts).sum(axis=1)
    return {"K": 5, "N": n, "D": 2, "y": y, "x": x}, {"beta": beta, "c": cuts}


@simulation
def zero_inflated(rng):
    n, theta, alpha, beta = 150, 0.3, 0.9, 0.4
    x = rng.standard_normal(n)
    y = rng.poisson(np.exp(alpha + beta * x)) * (rng.random(n) > theta)
    return {"N": n, "y": y, "x": x}, {"theta": theta, "alpha": alpha, "beta": beta}


@simulation
def mixture_regression(rng):
    n, weight, slope = 150, 0.35, np.array([-1.2, 0.9])
    intercept, sigma = np.array([0.5, -0.5]), np.array([0.3, 0.5])
    x, which = rng.normal(0, 1.5, n), (rng.random(n) > weight).astype(int)
    y = intercept[which] + slope[which] * x + sigma[which] * rng.standard_normal(n)
    truth = {"w": [weight, 1 - weight], "slope": slope, "intercept": intercept, "sigma": sigma}
    return {"N": n, "x": x, "y": y}, truth


@simulation
def measurement_error(rng):
    n, tau = 80, 0.3
    x = rng.normal(1, 1.2, n)
    y = 0.5 + 1.3 * x + rng.normal(0, 0.8, n)
    order = rng.permutation(n)
    missing, observed = np.sort(order[:8]), np.sort(order[8:])
    data = {
        "N": n, "x_meas": x + rng.normal(0, tau, n), "tau": tau, "N_obs": observed.size,
        "N_mis": missing.size, "ii_obs": observed + 1, "ii_mis": missing + 1, "y_obs": y[observed],
    }  # fmt: skip
    truth = {"mu_x": 1, "sigma_x": 1.2, "alpha": 0.5, "beta": 1.3, "sigma": 0.8}
    return data, truth | {"y_mis": y[missing]}


@simulation
def multinomial_logit(rng):
    n, beta = 200, np.array([[0.5, -0.3], [1.0, -0.8]])
    x = np.column_stack([np.ones(n), rng.standard_normal(n)])
    utility = np.column_stack([np.zeros(n), x @ beta]) + rng.gumbel(size=(n, 3))
    return ({"K": 3, "N": n, "D": 2, "y": utility.argmax(axis=1) + 1, "x": x}, {"beta_raw": beta})


@simulation
def beta_binomials(rng):
    n, phi, kappa = 40, 0.3, 25.0
    trials = rng.integers(20, 80, n)
    rates = rng.beta(phi * kappa, (1 - phi) * kappa, n)
    data = {"N": n, "K": trials, "y": rng.binomial(trials, rates)}
    return data, {"phi": phi, "kappa": kappa, "theta": rates}


@simulation
def stick_breaking(rng):
    shares = np.array([0.4, 0.25, 0.2, 0.1, 0.05])
    counts = rng.multinomial(30, shares, 6)
    return {"K": 5, "G": 6, "n": counts}, {"w": shares}


# --- processes in time and space -----------------------------------------------------------------


@simulation
def sir_ode(rng):
    days, people, first, beta, gamma, dispersion = 40, 2000.0, 4.0, 0.9, 0.35, 0.1

    def change(_, y):
        infection = beta * y[0] * y[1] / people
        return [-infection, infection - gamma * y[1]]

    start, times = [people - first, first], np.arange(1, days + 1)
    solved = integrate.solve_ivp(change, (0, days), start, t_eval=times, rtol=1e-9, atol=1e-9)
    cases = -np.diff(np.r_[start[0], solved.y[0]])
    size = 1 / dispersion
    counts = rng.negative_binomial(size, size / (size + cases))
    data = {"days": days, "ts": times.astype(float), "N": people, "I0": first, "cases": counts}
    return data, {"beta": beta, "gamma": gamma, "phi_inv": dispersion, "R0": beta / gamma}


@simulation
def sir_steps(rng):
    days, change, people, first = 60, 25, 5000.0, 10.0
    truth = {"before": 0.5, "after": 0.18, "recovery": 0.2, "reported": 0.5}
    susceptible, infected, cases = people - first, first, []
    for day in range(1, days + 1):
        rate = truth["before"] if day < change else truth["after"]
        infections = susceptible * (1 - np.exp(-rate * infected / people))
        susceptible -= infections
        infected += infections - truth["recovery"] * infected
        cases.append(rng.poisson(truth["reported"] * infections))
    return {"days": days, "change": change, "N": people, "I0": first, "cases": cases}, truth


@simulation
def pharmacokinetics(rng):
    subjects, time = 12, np.array([0.25, 0.5, 1, 2, 4, 6, 9, 12])
    log_excess, log_cl, log_v = 0.5, 0.8, 2.6
    omega, sigma = np.array([0.3, 0.2]), 0.15
    eta, dose = rng.standard_normal((2, subjects)), np.full(subjects, 100.0)
    ka = np.exp(log_cl - log_v) + np.exp(log_excess)
    cl = np.exp(log_cl + omega[0] * eta[0])[:, None]
    v = np.exp(log_v + omega[1] * eta[1])[:, None]
    mean = dose[:, None] * ka / (v * (ka - cl / v))
    mean = mean * (np.exp(-cl / v * time) - np.exp(-ka * time))
    data = {
        "subjects": subjects, "T": time.size, "time": time, "dose": dose,
        "concentration": mean * np.exp(rng.normal(0, sigma, mean.shape)),
    }  # fmt: skip
    truth = {"log_excess": log_excess, "log_cl": log_cl, "log_v": log_v}
    return data, truth | {"omega": omega, "sigma": sigma}


@simulation
def pharmacokinetics_ode(rng):
    time, dose, km = np.array([0.25, 0.5, 1, 1.5, 2, 3, 4, 6, 8, 10, 12, 15]), 50.0, 2.0
    ka, vmax, v, sigma = 1.2, 4.0, 8.0, 0.08

    def change(_, y):
        level = y[1] / v
        return [-ka * y[0], ka * y[0] - vmax * level / (km + level)]

    solved = integrate.solve_ivp(change, (0, 15), [dose, 0], t_eval=time, rtol=1e-9, atol=1e-9)
    level = solved.y[1] / v * np.exp(rng.normal(0, sigma, time.size))
    data = {"T": time.size, "time": time, "dose": dose, "concentration": level}
    return data, {"ka": ka, "vmax": vmax, "v": v, "sigma": sigma}


@simulation
def change_point(rng):
    years, when, early, late = 80, 35, 3.0, 1.2
    counts = np.r_[rng.poisson(early, when - 1), rng.poisson(late, years - when + 1)]
    return {"T": years, "D": counts}, {"e": early, "l": late}


def _hidden_states(rng):
    steps, mu, sigma = 120, np.array([-1.0, 1.5]), 0.7
    moves, states = np.array([[0.85, 0.15], [0.25, 0.75]]), [0]
    for _ in range(steps - 1):
        states.append(rng.choice(2, p=moves[states[-1]]))
    y = mu[states] + rng.normal(0, sigma, steps)
    return {"T": steps, "y": y}, {"theta": moves, "mu": mu, "sigma": sigma}


@simulation
def hidden_markov(rng):
    data, truth = _hidden_states(rng)
    return {"K": 2, **data}, truth


@simulation
def hidden_markov_marginal(rng):
    return _hidden_states(rng)


@simulation
def capture_recapture(rng):
    animals, occasions, survival, p = 100, 6, 0.75, np.array([0.6, 0.5, 0.4, 0.6, 0.5, 0.6])
    released = rng.integers(0, occasions - 1, animals)
    y = np.zeros((animals, occasions), int)
    for i, first in enumerate(released):
        y[i, first] = alive = 1
        for t in range(first + 1, occasions):
            alive = alive and rng.random() < survival
            y[i, t] = int(alive and rng.random() < p[t])
    # the density has p[1] in its prior only
    return {"T": occasions, "I": animals, "y": y}, {"survival": survival}


@simulation
def occupancy(rng):
    sites, visits, alpha, beta, logit_p = 150, 4, 0.3, 0.8, -0.2
    forest = rng.standard_normal(sites)
    occupied = rng.random(sites) < special.expit(alpha + beta * forest)
    seen = rng.random((sites, visits)) < special.expit(logit_p)
    y = (seen & occupied[:, None]).astype(int)
    data = {"R": sites, "T": visits, "y": y, "forest": forest}
    return data, {"alpha": alpha, "beta": beta, "logit_p": logit_p}


@simulation
def gaussian_process_counts(rng):
    x, rho, alpha, a = np.linspace(0, 5, 25), 1.2, 0.7, 1.5
    kernel = alpha**2 * np.exp(-0.5 * ((x[:, None] - x) / rho) ** 2) + 1e-6 * np.eye(x.size)
    f = np.linalg.cholesky(kernel) @ rng.standard_normal(x.size)
    data = {"N": x.size, "x": x, "k": rng.poisson(np.exp(a + f))}
    return data, {"rho": rho, "alpha": alpha, "a": a}


@simulation
def stochastic_volatility(rng):
    steps, mu, phi, sigma = 150, -0.5, 0.92, 0.3
    h = [mu + rng.normal(0, sigma / np.sqrt(1 - phi**2))]
    for _ in range(steps - 1):
        h.append(mu + phi * (h[-1] - mu) + rng.normal(0, sigma))
    y = rng.normal(0, np.exp(np.array(h) / 2))
    return {"T": steps, "y": y}, {"mu": mu, "phi": phi, "sigma": sigma}


@simulation
def moving_average(rng):
    steps, mu, phi, theta, sigma = 150, 0.5, 0.6, 0.3, 0.8
    y = [mu + phi * mu + rng.normal(0, sigma)]
    error = y[0] - mu - phi * mu
    for _ in range(steps - 1):
        mean, error = mu + phi * y[-1] + theta * error, rng.normal(0, sigma)
        y.append(mean + error)
    return {"T": steps, "y": y}, {"mu": mu, "phi": phi, "theta": theta, "sigma": sigma}


def distance(draws: Any, truth: Any) -> np.ndarray:
    """Return how far truths are from posterior means, in posterior standard deviations."""
    samples = np.asarray(draws, dtype=float)
    samples = samples.reshape(-1, *samples.shape[2:])
    return np.ravel((samples.mean(axis=0) - np.asarray(truth)) / samples.std(axis=0))


def limit(checks: int, probability: float = 1e-3) -> float:
    """Return the distance that the largest of so many has at most, but with this probability."""
    return float(stats.norm.isf(probability / (2 * checks)))
