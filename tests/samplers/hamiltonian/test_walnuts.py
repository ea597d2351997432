"""WALNUTS: leaves against a plain recursion, the law that it leaves invariant, and its report."""

import numpy as np
import pytest

from stanadapt.engine import nuts_tree
from stanadapt.engine.compiled.jit import jit
from stanadapt.engine.density import (
    GRADIENT_CALLS,
    value_and_gradient,
)
from stanadapt.engine.leapfrog import Leapfrog, Phase
from stanadapt.engine.points import gradient_at, unused_gradient
from stanadapt.samplers.hamiltonian import walnuts_orbit
from stanadapt.samplers.hamiltonian.walnuts_orbit import Steps
from tests.helpers.chains import column, finish, make_chains
from tests.helpers.gaussian_target import Gaussian, drawn
from tests.helpers.metrics import METRICS
from tests.helpers.seldom_parameters import slow_except
from tests.helpers.targets import MEAN, SD, Awkward

THIRD = 1.0 / 3.0


class Reference:
    """A leaf with momenta p under the metric (L L^T)^-1, by the definitions of the paper."""

    def __init__(self, density, factor, steps):
        self.density, self.steps = density, steps
        full = factor if len(factor) > 1 else np.diag(factor[0])
        self.root, self.inverse_metric = full, full @ full.T

    def log_density(self, q):
        gradient = np.empty(len(q))
        return value_and_gradient(self.density, q, gradient), gradient

    def energy(self, q, p):
        return 0.5 * p @ self.inverse_metric @ p - self.log_density(q)[0]

    def macro_step(self, q, p, sign, level):
        """Return the end of a macro step, or None if the density fails on the way."""
        h = sign * self.steps.step_size * 0.5**level
        for _ in range(2**level):
            p = p + 0.5 * h * self.log_density(q)[1]
            q = q + h * self.inverse_metric @ p
            log_density, gradient = self.log_density(q)
            if log_density == -np.inf:
                return None
            p = p + 0.5 * h * gradient
        return q, p

    def smallest(self, q, p, sign, level=0):
        """Return the smallest level that passes; None if none up to max_halvings does."""
        if level > self.steps.max_halvings:
            return None
        end = self.macro_step(q, p, sign, level)
        if end and abs(self.energy(*end) - self.energy(q, p)) <= self.steps.tolerance:
            return level
        return self.smallest(q, p, sign, level + 1)

    def probability(self, level, smallest):
        e = self.steps.extra_halving
        return 0.0 if smallest is None else {0: 1 - e, 1: e}.get(level - smallest, 0.0)

    def leaf(self, q, p, sign, extra):
        """Return smallest level, end, and the ratio of probabilities backward / forward."""
        forward = self.smallest(q, p, sign)
        if forward is None:
            return None, None, 0.0
        level = forward + extra
        end = self.macro_step(q, p, sign, level)
        if end is None:
            return forward, None, 0.0
        backward = self.probability(level, self.smallest(end[0], end[1], -sign))
        return forward, end, backward / self.probability(level, forward)


def random_leaves(count, seed):
    """Random starts, momenta, directions, and ways to make macro steps."""
    rng = np.random.default_rng(seed)
    for i in range(count):
        steps = Steps(
            step_size=np.exp(rng.uniform(np.log(0.2), np.log(4.0))),
            tolerance=np.exp(rng.uniform(np.log(0.01), np.log(1.0))),
            max_halvings=int(rng.integers(0, 6)),
            extra_halving=[0.0, THIRD, 0.6][i % 3],
            descending=False,
        )
        start = MEAN + SD * rng.standard_normal(3)
        yield i, start, rng.standard_normal(3), rng.choice([-1.0, 1.0]), steps


@pytest.mark.thorough
@pytest.mark.parametrize("wall", slow_except([0.8], [np.inf, 0.8]))
@pytest.mark.parametrize("metric", METRICS)
def test_leaves_are_those_of_the_recursion(metric, wall):
    """Levels, ends, energies and corrections of 600 leaves, with reverse levels of all kinds."""
    factor, density, seen = METRICS[metric], Awkward(wall).density(), []
    for i, start, momentum, sign, steps in random_leaves(600, 5):
        start[0] = min(start[0], wall - 0.1)
        reference = Reference(density, factor, steps)
        p = np.linalg.solve(reference.root.T, momentum)
        e = steps.extra_halving
        extra = int(e > 0.0 and np.random.default_rng(i).random() < e)
        smallest, end, ratio = reference.leaf(start, p, sign, extra)

        work, spare = Leapfrog(factor, np.empty(3), np.empty(3)), np.empty((7, 3))
        force = reference.root.T @ reference.log_density(start)[1]
        phase, before = Phase(start.copy(), momentum.copy(), force), reference.energy(start, p)
        calls = density.calls[GRADIENT_CALLS]
        leaf = walnuts_orbit.macro_step(
            density, work, spare, phase, sign * steps.step_size, before, steps,
            np.random.default_rng(i),
        )  # fmt: skip
        assert leaf.gradients == density.calls[GRADIENT_CALLS] - calls
        assert leaf.smallest == (steps.max_halvings + 1 if smallest is None else smallest)
        assert np.exp(leaf.log_correction) == pytest.approx(ratio, rel=1e-12)
        if end is not None:
            assert leaf.level == smallest + extra
            assert leaf.energy == pytest.approx(reference.energy(*end), rel=1e-7)
            np.testing.assert_allclose(phase.position, end[0], rtol=1e-6, atol=1e-6)
            np.testing.assert_allclose(reference.root.T @ end[1], phase.momentum, atol=1e-6)
            np.testing.assert_allclose(spare[6], reference.log_density(end[0])[1], atol=1e-5)
        seen.append((smallest, extra, round(ratio, 3)))
    # corrections of e = 1/3 and 0.6: the reverse step has one level more, as many, or one less
    kinds = {(extra, ratio) for _, extra, ratio in seen}
    assert kinds >= {(0, 0.0), (0, 1.0), (0, 0.5), (0, 1.5), (1, 0.0), (1, 1.0), (1, 2.0)}
    assert {smallest for smallest, _, _ in seen} >= {None, 0, 1, 2, 3}


@jit
def _after_iterations(density, leapfrog, orbit, starts, steps, max_depth, rng, iterations):
    """Return the draws after some iterations from each start, and refined leaves and failures."""
    ends, refined, diverging = np.empty_like(starts), 0, 0
    for i in range(len(starts)):
        x, y = gradient_at(density, starts[i]), unused_gradient(density.dim)
        for _ in range(iterations):
            found = walnuts_orbit.draw(density, leapfrog, orbit, x, y, steps, max_depth, rng)
            refined += found.counts.leaves - found.counts.unrefined
            diverging += found.diverging
            if found.moved:
                x = gradient_at(density, y.position)
        ends[i] = x.position
    return ends, refined, diverging


def gaussian_features(x):
    z = (x - [1.0, -2.0]) / [1.0, 3.0]
    return np.column_stack([z, z**2, z**3, z[:, :1] * z[:, 1:], np.abs(z) < 0.5, z > 1.0])


@pytest.mark.slow
@pytest.mark.parametrize("extra_halving", [0.0, THIRD])
def test_a_gaussian_is_left_alone_with_steps_that_fail(extra_halving):
    """Long steps and a low cap: many refinements and failures; 11 features within 4.5 errors.

    Exact draws are mapped to exact draws. A correct sampler fails with probability 2e-4.
    """
    rng, sd = np.random.default_rng(3), np.array([1.0, 3.0])
    starts = np.array([1.0, -2.0]) + sd * rng.standard_normal((20_000, 2))
    steps = Steps(2.0, 0.05, 3, extra_halving, False)
    density = Gaussian([1.0, -2.0], sd).density()
    work = Leapfrog(np.ones((1, 2)), np.empty(2), np.empty(2))
    orbit = walnuts_orbit.make_orbit(2, 10)
    ends, refined, diverging = _after_iterations(density, work, orbit, starts, steps, 10, rng, 4)
    change = gaussian_features(ends) - gaussian_features(starts)
    error = change.std(axis=0) / np.sqrt(len(starts))
    assert np.all(np.abs(change.mean(axis=0)) < 4.5 * error)
    assert refined > 100_000
    assert diverging > 1000
    assert np.any(ends != starts, axis=1).mean() > 0.3


@pytest.mark.parametrize("metric", METRICS)
def test_without_refinement_it_is_nuts(metric):
    """With a wide tolerance and no extra halving, the same draws from the same random numbers."""
    density, factor = Awkward().density(), METRICS[metric]
    for i in range(300):
        step_size = np.random.default_rng(i).uniform(0.1, 0.35 if metric == "unit" else 1.3)
        steps, found = Steps(step_size, 1000.0, 8, 0.0, False), []
        for module, how in ((nuts_tree, step_size), (walnuts_orbit, steps)):
            x, y = gradient_at(density, MEAN + 0.003 * i * SD), unused_gradient(3)
            work = Leapfrog(factor, np.empty(3), np.empty(3))
            nuts = module is nuts_tree
            memory = nuts_tree.make_tree(3, 8) if nuts else walnuts_orbit.make_orbit(3, 8)
            path = module.draw(density, work, memory, x, y, how, 8, np.random.default_rng(i))
            leaves = path.leaves if nuts else path.counts.gradients
            drawn_position = (y if path.moved else x).position
            found.append((path.moved, path.depth, leaves, path.log_density, *drawn_position))
        np.testing.assert_allclose(*found, rtol=1e-9)


def test_statistics_agree_with_each_other():
    (chain,) = finish(
        make_chains(("walnuts", {"energy_tolerance": 0.1}), Awkward(), warmup=500, draws=2000)
    )
    refined, halvings = column(chain, "refined"), column(chain, "halvings")
    unrefined = column(chain, "acceptance_rate")
    assert np.array_equal(unrefined == 1.0, refined == 0)
    assert 0.02 < (refined > 0).mean() < 0.98
    assert (halvings[refined > 0] > 0).all()
    assert halvings.max() <= 9
    # the kinetic energy of three dimensions has mean 1.5, and a standard deviation of sqrt(1.5)
    kinetic = column(chain, "energy") + column(chain, "lp")
    assert (kinetic > 0).all()
    assert abs(kinetic.mean() - 1.5) < 5 * np.sqrt(1.5 / 500)


def test_a_start_far_away_descends_during_warmup():
    """Energies of 10^8 fall to a few in the iterations before the first window."""
    start = MEAN + np.array([0.0, 3e3, -3e4]) * SD[1]
    (chain,) = drawn(Awkward(), start[None], sampler="walnuts", warmup=400, draws=200)
    assert not chain.stopped
    assert (np.abs(chain.sampling.constrained - MEAN) / SD).max() < 12
    assert not chain.state.descending
