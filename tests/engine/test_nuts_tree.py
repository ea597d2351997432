"""The trajectory of NUTS, leaf by leaf, against Stan's recursion in plain Python.

The recursion uses momenta p and p_sharp = M^-1 p, as Stan does, where the package has whitened
momenta and no recursion; both draw the same random numbers in the same order.
"""

from types import SimpleNamespace

import numpy as np
import pytest

from stanadapt.engine import nuts_tree
from stanadapt.engine.density import value_and_gradient
from stanadapt.engine.leapfrog import LARGEST_ENERGY_ERROR, Around, Leapfrog
from stanadapt.engine.points import gradient_at, unused_gradient
from tests.helpers.gaussian_target import Gaussian
from tests.helpers.metrics import METRICS
from tests.helpers.seldom_parameters import slow_except
from tests.helpers.targets import MEAN, SD, Awkward


class Recursion:
    """`transition` and `build_tree` of Stan's base_nuts.hpp, with its names."""

    def __init__(self, density, factor, step_size, max_depth, rng):
        full = factor if len(factor) > 1 else np.diag(factor[0])
        self.inverse_metric, self.root = full @ full.T, full
        self.density, self.step_size, self.max_depth, self.rng = density, step_size, max_depth, rng

    def at(self, q, p):
        gradient = np.empty(len(q))
        return SimpleNamespace(
            q=q, p=p, lp=value_and_gradient(self.density, q, gradient), g=gradient
        )

    def energy(self, z):
        return 0.5 * z.p @ self.inverse_metric @ z.p - z.lp

    def leapfrog(self, z, sign):
        half = 0.5 * sign * self.step_size
        p = z.p + half * z.g
        moved = self.at(z.q + 2 * half * self.inverse_metric @ p, p)
        moved.p = p + half * moved.g
        return moved

    def criterion(self, one, other, rho):
        return one.sharp @ rho > 0 and other.sharp @ rho > 0

    def persists(self, a, b):
        """Whether two neighbors do not turn back; b is the outer one."""
        persist = self.criterion(a.beg, b.end, a.rho + b.rho)
        persist &= self.criterion(a.beg, b.beg, a.rho + b.beg.p)
        return persist & self.criterion(a.end, b.end, b.rho + a.end.p)

    def build(self, depth, sign):
        """Build a subtree that begins at self.z; None if it is invalid."""
        if depth == 0:
            self.z = z = self.leapfrog(self.z, sign)
            self.leaves.append(z.q)
            h = self.energy(z)
            self.accept += min(1.0, np.exp(self.start - h))
            if h - self.start > LARGEST_ENERGY_ERROR:
                self.diverging = True
                return None
            z.sharp = self.inverse_metric @ z.p
            return SimpleNamespace(beg=z, end=z, rho=z.p, draw=z, weight=self.start - h)
        a = self.build(depth - 1, sign)
        b = a and self.build(depth - 1, sign)
        if not b:
            return None
        weight = np.logaddexp(a.weight, b.weight)
        drawn = b.draw if self.rng.random() < np.exp(b.weight - weight) else a.draw
        if not self.persists(a, b):
            return None
        return SimpleNamespace(beg=a.beg, end=b.end, rho=a.rho + b.rho, draw=drawn, weight=weight)

    def transition(self, position):
        noise = self.rng.standard_normal(len(position))
        z = self.at(position, np.linalg.solve(self.root.T, noise))
        z.sharp = self.inverse_metric @ z.p
        self.start, self.leaves, self.accept = self.energy(z), [], 0.0
        self.diverging, self.depth, drawn = False, 0, z
        # ends of the trajectory, backward and forward
        edge, rho, weight = {-1: z, 1: z}, z.p, 0.0
        while self.depth < self.max_depth:
            sign = 1 if self.rng.random() > 0.5 else -1
            self.z = edge[sign]
            new = self.build(self.depth, sign)
            if not new:
                break
            self.depth += 1
            if new.weight > weight or self.rng.random() < np.exp(new.weight - weight):
                drawn = new.draw
            weight = np.logaddexp(weight, new.weight)
            whole = SimpleNamespace(beg=edge[-sign], end=edge[sign], rho=rho)
            edge[sign], rho = new.end, rho + new.rho
            if not self.persists(whole, new):
                break
        self.weight, self.edges = weight, edge
        return drawn


def compiled(density, factor, step_size, max_depth, rng, position):
    n = len(position)
    x, y = gradient_at(density, position), unused_gradient(n)
    tree = nuts_tree.make_tree(n, max_depth)
    leapfrog = Leapfrog(factor, np.empty(n), np.empty(n))
    trajectory = nuts_tree.draw(density, leapfrog, tree, x, y, step_size, max_depth, rng)
    return trajectory, (y if trajectory.moved else x), tree


def problems(count, seed, smallest):
    """Random seeds, starts, step sizes and depths."""
    rng = np.random.default_rng(seed)
    for i in range(count):
        start = MEAN + SD * rng.standard_normal(3)
        step_size = np.exp(rng.uniform(np.log(smallest), np.log(3.0)))
        yield 1000 * seed + i, start, step_size, int(rng.integers(1, 9))


# step sizes over three orders of magnitude, and more of those with short trajectories
PROBLEMS = [*problems(150, 0, 0.01), *problems(600, 1, 0.3)]


def both(metric, wall, problem):
    i, start, step_size, max_depth = problem
    start = np.array([min(start[0], wall - 0.1), *start[1:]])
    factor, density = METRICS[metric], Awkward(wall).density()
    theirs = Recursion(density, factor, step_size, max_depth, np.random.default_rng(i))
    point = theirs.transition(start)
    ours = compiled(density, factor, step_size, max_depth, np.random.default_rng(i), start)
    return theirs, point, ours


@pytest.mark.thorough
@pytest.mark.parametrize("wall", slow_except([1.0], [np.inf, 1.0]))
@pytest.mark.parametrize("metric", METRICS)
def test_equals_the_recursion(metric, wall):
    """Same leaves, stops, weights and, with the same random numbers, the same draw."""
    depths, incomplete, diverged, stayed = set(), 0, 0, 0
    for problem in PROBLEMS:
        theirs, point, (found, drawn, tree) = both(metric, wall, problem)
        assert (found.depth, found.leaves) == (theirs.depth, len(theirs.leaves))
        assert found.diverging == theirs.diverging
        assert found.acceptance_rate == pytest.approx(theirs.accept / found.leaves, rel=1e-8)
        assert found.energy == pytest.approx(theirs.energy(point), rel=1e-8)
        assert found.log_density == pytest.approx(point.lp, rel=1e-8)
        np.testing.assert_allclose(drawn.position, point.q, rtol=1e-7, atol=1e-7)
        np.testing.assert_allclose(drawn.gradient, point.g, rtol=1e-6, atol=1e-6)
        whole = 2**theirs.depth - 1
        if found.leaves == whole:  # otherwise the last doubling is not part of the trajectory
            for row, sign in ((0, -1), (1, 1)):
                end = theirs.edges[sign].q
                np.testing.assert_allclose(
                    nuts_tree.end_of(tree, row).position, end, rtol=1e-6, atol=1e-6
                )
        depths.add(theirs.depth)
        incomplete += whole < found.leaves < 2 * whole + 1
        diverged += theirs.diverging
        stayed += not found.moved
    # the problems cover all cases
    assert depths >= set(range(8))
    assert min(incomplete, stayed) > 5
    assert diverged > (10 if wall < np.inf else 0) or metric == "diagonal"


@pytest.mark.parametrize("max_depth", [1, 2, 5])
def test_the_depth_limits_the_number_of_leapfrogs(max_depth):
    density, rng = Awkward().density(), np.random.default_rng(1)
    found, _, _ = compiled(density, METRICS["unit"], 1e-4, max_depth, rng, MEAN)
    assert (found.depth, found.leaves) == (max_depth, 2**max_depth - 1)
    assert found.acceptance_rate == pytest.approx(1.0, abs=1e-3)


def test_gradients_and_points_after_failures():
    for i in range(100):
        target = Awkward()
        density, start = target.density(), MEAN.copy()
        target.wall[0] = start[0] + 0.3
        at_start = 1
        found, drawn, _ = compiled(
            density, METRICS["unit"], 0.2, 10, np.random.default_rng(i), start
        )
        assert density.calls[1] == at_start + found.leaves
        assert density.calls[2] == found.diverging
        assert drawn.position[0] <= target.wall[0]
    target = Awkward()
    density, n = target.density(), 3
    x, y, tree = gradient_at(density, MEAN), unused_gradient(n), nuts_tree.make_tree(n, 10)
    target.wall[0] = -np.inf
    leapfrog = Leapfrog(METRICS["dense"], np.empty(n), np.empty(n))
    found = nuts_tree.draw(density, leapfrog, tree, x, y, 0.5, 10, np.random.default_rng(2))
    assert (found.moved, found.depth, found.leaves, found.diverging) == (False, 0, 1, True)
    assert found.acceptance_rate == 0.0
    assert np.isfinite(found.energy)
    assert found.log_density == x.log_density


@pytest.mark.parametrize("step_size", [1e200, np.inf])
def test_a_step_beyond_the_range_of_numbers_is_a_divergence(step_size):
    found, _, _ = compiled(
        Awkward().density(), METRICS["unit"], step_size, 10, np.random.default_rng(3), MEAN
    )
    assert (found.moved, found.leaves, found.diverging) == (False, 1, True)
    assert (found.acceptance_rate, np.isfinite(found.energy)) == (0.0, True)


def test_draws_around_a_wrong_gaussian_are_those_of_the_density():
    """Its mean is off by one standard deviation, and its scales by up to two."""
    mean, sd = np.array([1.0, -2.0, 3.0]), np.array([0.01, 1.0, 100.0])
    density = Gaussian(mean, sd).density()
    factor = sd[None] * np.array([[0.5, 1.0, 1.6]])
    work = Leapfrog(factor, np.empty(3), np.empty(3))
    around = Around(mean + sd, (-sd / factor[0]).copy(), np.empty(0))
    tree, x, y = nuts_tree.make_tree(3, 8), gradient_at(density, mean), unused_gradient(3)
    rng, draws = np.random.default_rng(1), []
    for _ in range(4000):
        path = nuts_tree.draw(density, work, tree, x, y, 0.6, 8, rng, around)
        if path.moved:
            x, y = y._replace(log_density=path.log_density), x
        here = mean + sd + factor[0] * around.here
        np.testing.assert_allclose(x.position, here, rtol=1e-12, atol=1e-12)
        draws.append((x.position - mean) / sd)
    draws = np.array(draws)
    # some six standard errors of independent draws
    np.testing.assert_allclose(draws.mean(axis=0), 0.0, atol=0.1)
    np.testing.assert_allclose(draws.std(axis=0), 1.0, atol=0.08)
