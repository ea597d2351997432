"""Conditionally Gaussian posteriors without Stan: rows and gradients, and exact draws of one."""

import numpy as np
from scipy import linalg

import stanadapt as sa
from stanadapt.engine.block_map import BlockMap, size_of_work
from tests.helpers.funnel_fits import foreign

LEVELS = 25
PROGRAM = f"""data {{ vector[{LEVELS}] y; real S; }}
parameters {{ vector[{LEVELS}] u; real<lower=0> s_u; real<lower=0> s_x; }}
model {{
  s_u ~ normal(0, S); s_x ~ normal(0, S);
  u[1] ~ normal(y[1], 2 * S);
  u[2:{LEVELS}] ~ normal(u[1:{LEVELS - 1}], s_u);
  y ~ normal(u, s_x);
}}"""
STEP = np.diff(np.eye(LEVELS), axis=0)
FIRST = np.diag(np.eye(LEVELS)[0])


def made_up(rng, definite=True, hubs=(6, 2), members=(0, 3, 1, 7), free=(4, 5), scaled=0):
    """A map with two hubs, one of them a correlation, free coordinates, and an envelope.

    So many of the last terms have scales: splines with knots between -0.6 and 0.6.
    """
    first, terms, n = np.array([0, 0, 2, 0]), 4, 4
    lengths = np.arange(n) - first + 1
    start = np.concatenate([[0], np.cumsum(lengths)[:-1]])
    envelope = int(lengths.sum())
    exponents = np.array([[0.0, 0.0], [-2.0, 0.0], [1.0, 0.0], [0.0, 0.0]])
    powers = np.array([[0.0, 0.0], [0.0, 1.0], [0.0, 4.0], [0.0, 3.0]])
    precisions = 0.1 * rng.standard_normal((terms, envelope))
    precisions[0, start + np.arange(n) - first] += 4.0 if definite else -40.0
    return BlockMap(
        np.array(hubs), np.array(members), np.array(free), exponents, powers,
        np.array([[0.0, 0.0, 0.0], [2.0, -1.0, 2.0]]), start, first, precisions,
        rng.standard_normal((terms, n)), rng.standard_normal((terms * n, len(free))),
        np.full(n, 2.0), np.zeros(size_of_work(terms, 2, n, envelope)), np.array([scaled]),
        np.tile([-0.6, 0.3], (2 if scaled else 0, 1)),
        0.3 * rng.standard_normal((14, n) if scaled else (0, 0)),
    )  # fmt: skip


class LocalLevel:
    """White noise as a local level: states, the log of s_u, and the log of s_x."""

    def __init__(self, seed=125):
        self.y = np.random.default_rng(seed).normal(size=LEVELS)
        self.s = self.y.std()

    def target(self):
        """Return the program with its data, embedded."""
        return sa.Target(PROGRAM, {"y": self.y, "S": self.s}, backend="stanli")

    def conditional(self, log_u, log_x):
        """Return the precision of the states given the scales, and the precision times the mean."""
        u, x = np.exp(-2.0 * log_u), np.exp(-2.0 * log_x)
        first = FIRST / (2.0 * self.s) ** 2
        precision = first + u * STEP.T @ STEP + x * np.eye(LEVELS)
        return precision, first @ self.y + x * self.y

    def gradient(self, row):
        """Return the gradient at a position."""
        states, (log_u, log_x) = row[:LEVELS], row[LEVELS:]
        precision, shift = self.conditional(log_u, log_x)
        scales = np.exp([log_u, log_x])
        squares = np.sum(np.diff(states) ** 2), np.sum((self.y - states) ** 2)
        counts = np.array([LEVELS - 1, LEVELS])
        hubs = squares / scales**2 - counts + 1.0 - scales**2 / self.s**2
        return np.concatenate([shift - precision @ states, hubs])

    def marginal(self, log_u, log_x):
        """Return the log density of the scales' logarithms, up to a constant."""
        precision, shift = self.conditional(log_u, log_x)
        factor = linalg.cholesky(precision, lower=True)
        half = linalg.solve_triangular(factor, shift, lower=True)
        logs = np.exp(2.0 * np.array([log_u, log_x])) / self.s**2
        fit = half @ half - self.y @ self.y * np.exp(-2.0 * log_x) - logs.sum()
        determinant = -np.log(np.diag(factor)).sum() - (LEVELS - 2) * log_u - (LEVELS - 1) * log_x
        return 0.5 * fit + determinant

    def scales(self, rng, shape, least=-np.inf):
        """Return draws of the scales' logarithms on a grid, shape (..., 2); log s_x above least."""
        grid = np.stack(np.meshgrid(np.linspace(-8, 1.5, 100), np.linspace(-6, 1.5, 80)), -1)
        grid = grid.reshape(-1, 2)
        logs = np.array([self.marginal(*point) for point in grid])
        logs[grid[:, 1] < least] = -np.inf
        weights = np.exp(logs - logs.max())
        chosen = rng.choice(len(grid), size=shape, p=weights / weights.sum())
        width = np.array([9.5 / 99, 7.5 / 79])
        return grid[chosen] + width * rng.uniform(-0.5, 0.5, (*shape, 2))

    def fit(self, seed, shape=(4, 1000), least=-np.inf):
        """Return a fit of independent draws."""
        rng = np.random.default_rng(seed)
        scales = self.scales(rng, shape, least)
        flat = [self.conditional(*row) for row in scales.reshape(-1, 2)]
        precisions, shifts = (np.array(parts) for parts in zip(*flat, strict=True))
        factors = np.linalg.cholesky(precisions).transpose(0, 2, 1)
        noise = rng.standard_normal((len(flat), LEVELS, 1))
        states = np.linalg.solve(factors, noise)
        states += np.linalg.solve(precisions, shifts[:, :, None])
        states = states.reshape(*shape, LEVELS)
        posterior = {"u": states, "s_u": np.exp(scales[..., 0]), "s_x": np.exp(scales[..., 1])}
        return foreign(posterior)


def anywhere(rng, rows):
    """Return rows that no sampler would draw: the map does not depend on where it is learned."""
    x = 3.0 + rng.standard_normal((rows, LEVELS + 2)) * rng.uniform(0.1, 4.0, LEVELS + 2)
    x[:, LEVELS:] = rng.uniform([-2.0, -1.0], [0.5, 1.0], (rows, 2))
    return x
