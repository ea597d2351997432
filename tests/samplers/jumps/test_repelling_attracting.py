"""Repelling-attracting Metropolis: draw for draw as in the paper, and the report of a run.

Twenty modes: test_multimodal.py, and with the published settings test_published_presets.py.
"""

import numpy as np
import pytest
from scipy import stats

import stanadapt as sa
from stanadapt import results
from stanadapt.engine.compiled.jit import jit
from stanadapt.engine.density import value
from stanadapt.engine.points import unused_value, value_at
from stanadapt.engine.settings import as_compiled
from stanadapt.errors import codes_of
from stanadapt.samplers import find
from stanadapt.samplers.jumps.repelling_attracting import (
    forced_move,
    init,
    log_pair_ratio,
    report,
    step,
)
from tests.helpers.chains import column, finish, make_chains
from tests.helpers.codes import warns
from tests.helpers.gaussian_target import Gaussian, make_chains_at
from tests.helpers.run_view import view_of
from tests.helpers.targets import MEAN, SD, Awkward

NAME, WALL, SCALE = "repelling_attracting", 0.9, 0.7
FIXED = {"tune_scale": False, "initial_scale": SCALE}


class OnPaper:
    """The algorithm with densities instead of their logs; 0 / 0 is 1."""

    def __init__(self, density, position, rng, longest_search):
        self.density, self.rng, self.longest = density, rng, longest_search
        self.x, self.z = position, position + self.noise()
        self.tries = 0

    def noise(self):
        return np.array([SCALE * self.rng.standard_normal() for _ in range(3)])

    def pi(self, position):
        return np.exp(value(self.density, position))

    def downhill(self, there, here):
        """Return a_D(there | here), which is also a_U(here | there)."""
        pi = self.pi(there)
        return 1.0 if pi == 0.0 else min(1.0, self.pi(here) / pi)

    def forced(self, start, rate):
        """Return the end of a forced move, None after too many tries."""
        for _ in range(self.longest):
            self.tries += 1
            end = start + self.noise()
            if self.rng.random() < rate(start, end):
                return end
        return None

    def step(self):
        """Return the tries and whether a forced move was given up."""
        self.tries, ratio, x_star, z_star = 0, 0.0, None, None
        down, up = (lambda x, end: self.downhill(end, x)), (lambda x, end: self.downhill(x, end))
        valley = self.forced(self.x, down)
        if valley is not None:
            x_star = self.forced(valley, up)
        capped = x_star is None
        if x_star is not None and self.pi(x_star) > 0.0:
            z_star = self.forced(x_star, down)
            capped = z_star is None
        if z_star is not None:
            ratio = self.pi(x_star) * self.downhill(self.z, self.x)
            ratio /= self.pi(self.x) * self.downhill(z_star, x_star)
        if self.rng.random() < ratio:
            self.x, self.z = x_star, z_star
        return self.tries, capped


@pytest.mark.parametrize("longest", [1, 3, 1000])
def test_equal_draw_for_draw_to_the_algorithm_on_paper(longest):
    """Also with a wall of zero density. Unlike moments, this detects a z* that is kept wrongly."""
    chosen = {**FIXED, "longest_search": longest}
    (chain,) = make_chains((NAME, chosen), Awkward(WALL), warmup=0, draws=400)
    start, rng = np.array([-0.5, 1.1, -1.0]), np.random.default_rng(5)
    paper = OnPaper(Awkward(WALL).density(), start, np.random.default_rng(5), longest)
    chain.state, chain.rng = init(chain.density, chain.compiled_settings, start, rng), rng
    finish([chain])
    steps = []
    for row in range(400):
        steps.append(paper.step())
        np.testing.assert_allclose(chain.sampling.constrained[row], paper.x, rtol=1e-12)
    np.testing.assert_array_equal(column(chain, "n_tries"), [tries for tries, _ in steps])
    np.testing.assert_array_equal(column(chain, "capped"), [capped for _, capped in steps])
    np.testing.assert_array_equal(chain.state.partner.position, paper.z)
    assert 0.03 < column(chain, "accepted").mean() < 0.9
    assert chain.calls["failed"] > 50
    assert column(chain, "capped").any() == (longest < 1000)
    assert longest > 1 or column(chain, "n_tries").max() <= 3


@jit
def _pairs(density, settings, state, rng, out):
    for row in range(out.shape[0]):
        state, _ = step(density, settings, state, rng)
        out[row, 0], out[row, 1] = state.current.position, state.partner.position


def batch_surprise(values, truth):
    """Return errors of means over the first axis, in standard errors from 100 batches."""
    batches = values.reshape(100, -1, *values.shape[1:]).mean(axis=1)
    return (batches.mean(axis=0) - truth) / (batches.std(axis=0, ddof=1) / 10.0)


@pytest.mark.slow
@pytest.mark.parametrize("longest", [1, 1000])
@pytest.mark.parametrize("target", ["normal", "awkward"])
def test_pairs_have_their_law(target, longest):
    """The law of x is pi, and z is the sum of x and the proposal's noise.

    Without the auxiliary ratio E x^2 of N(0, 1) would be 0.85. Of 12 t statistics with 99 degrees
    of freedom the largest exceeds 4.5 with probability 2e-4.
    """
    mean, sd, made = np.array([0.4]), np.array([1.0]), Gaussian([0.4], [1.0])
    if target == "awkward":
        mean, sd, made = MEAN, SD, Awkward()
    _, settings = find(NAME, **FIXED, longest_search=longest)
    rng, out = np.random.default_rng(4), np.empty((200_000, 2, len(mean)))
    density, compiled = made.density(), as_compiled(settings)
    _pairs(density, compiled, init(density, compiled, mean, rng), rng, out)
    variances = np.array([sd**2, sd**2 + SCALE**2])
    assert np.abs(batch_surprise(out, mean)).max() < 4.5
    assert np.abs(batch_surprise((out - mean) ** 2, variances)).max() < 4.5


def test_on_a_flat_density_it_is_a_random_walk_of_twice_the_variance():
    (chain,) = finish(
        make_chains_at(Gaussian([0.0], [np.inf]), np.ones((1, 1)), NAME, 0, 10_000, **FIXED)
    )
    assert set(column(chain, "n_tries")) == {3}
    assert column(chain, "accepted").all()
    steps = np.diff(chain.sampling.constrained[:, 0])
    error = np.sqrt(2.0 / len(steps))
    assert abs(np.mean(steps**2) / (2.0 * SCALE**2) - 1.0) < 3.9 * error


@pytest.mark.parametrize("constant", [-1000.0, 800.0])
def test_a_constant_in_the_log_density_changes_nothing(constant):
    """Densities themselves would be 0 or infinite in double precision."""
    program = (
        "data { real c; } parameters { vector[2] x; } model { target += c; x ~ cauchy(1, 2); }"
    )
    fits = [
        sa.sample(sa.Target(program, {"c": c}), NAME, chains=1, iter_warmup=300, iter_sampling=300,
                  seed=1, standardize=False)
        for c in (0.0, constant)
    ]  # fmt: skip
    one, two = (fit["sample_stats"]["n_density"].values for fit in fits)
    np.testing.assert_array_equal(one, two)
    one, two = (fit["posterior"]["x"].values for fit in fits)
    np.testing.assert_allclose(one, two, rtol=1e-9)


def test_pairs_stay_pairs_while_scales_are_learned():
    """The partner z moves with the scales, and its density is that of its position."""
    (chain,) = make_chains((NAME, {}), Awkward(), warmup=1000)
    while chain.warming_up:
        z = (chain.state.partner.position - chain.state.current.position) / chain.state.scales
        x, scales = chain.state.current.position.copy(), chain.state.scales.copy()
        chain.advance(1)
        after = chain.state
        lp = value(chain.density, after.partner.position)
        assert lp == pytest.approx(after.partner.log_density, rel=1e-12)
        if np.array_equal(x, after.current.position) and not np.array_equal(scales, after.scales):
            new = (after.partner.position - x) / after.scales
            np.testing.assert_allclose(new, z, rtol=1e-9)


def test_a_run_reports_its_costs():
    target = sa.Target("parameters { vector[11] x; } model { x ~ normal(0, 3); }")
    with warns("many_evaluations", "11 parameters") as caught:
        fit = sa.sample(target, NAME, chains=2, iter_warmup=200, iter_sampling=100, seed=1)
    tries = fit["sample_stats"]["n_tries"].values
    np.testing.assert_array_equal(tries, fit["sample_stats"]["n_density"].values)
    (warning,) = [w for w in caught if getattr(w.message, "code", "") == "many_evaluations"]
    assert f"{tries.mean():.1f} density" in str(warning.message)
    assert f"{tries.mean():.1f} density" in results.from_json(fit, "notes", [])[0]


def test_notes():
    _, settings = find(NAME, longest_search=50)
    fine = {
        "n_tries": np.full((2, 1000), 5.0), "capped": np.zeros((2, 1000)),
        "accepted": np.ones((2, 1000)), "step_size": np.full((2, 1000), 7.5),
    }  # fmt: skip

    def messages(stats, dim=2):
        return list(report(view_of(settings, stats, dim)).messages)

    assert messages(fine, 10) == []
    assert codes_of(messages(fine, 11)) == ["many_evaluations"]
    capped = np.zeros((2, 1000))
    capped[1, :40] = 1
    (note,) = messages(fine | {"capped": capped})
    assert note.code == "search_given_up"
    assert "50" in note
    assert "2.00%" in note
    accepted = np.ones((2, 1000))
    accepted[1, 9:] = 0
    (note,) = messages(fine | {"accepted": accepted})
    assert note.code == "few_moves_accepted"
    assert "chain 2" in note
    assert "0.90%" in note
    assert "7.5" in note


# --- forced moves ---------------------------------------------------------------------------------


def downhill(here, there):
    """Return a_D of a move between two densities; the ratio of two zeros is 1."""
    return 1.0 if there == 0.0 else min(1.0, here / there)


def test_ratio_of_a_pair_is_that_of_the_paper():
    """Moments do not show whether z or z* is confused with the other."""
    rng = np.random.default_rng(1)
    for _ in range(200):
        x, z, x_star, z_star = rng.gamma(0.7, size=4)
        z, z_star = np.where(rng.random(2) < 0.2, 0.0, (z, z_star))
        truth = x_star * downhill(x, z) / (x * downhill(x_star, z_star))
        with np.errstate(divide="ignore"):
            logs = np.log([x, z, x_star, z_star])
        assert log_pair_ratio(*logs) == pytest.approx(np.log(truth), abs=1e-12)


@jit
def _moves(density, sign, most_tries, rng, out):
    start, proposal = value_at(density, np.array([1.3])), unused_value(1)
    for row in range(out.shape[0]):
        end, tries, found = forced_move(
            density, start, proposal, np.array([1.7]), sign, most_tries, rng
        )
        out[row, 0], out[row, 1], out[row, 2] = end.position[0], tries, found


@pytest.mark.parametrize("sign", [1.0, -1.0], ids=["downhill", "uphill"])
def test_one_move_has_the_law_of_the_paper(sign):
    """Density q a / A, A by quadrature; tries are geometric, and two fail with (1 - A)^2."""
    x = np.linspace(-30, 30, 200_001)
    pi, q = stats.norm.pdf(x), stats.norm.pdf(x, 1.3, 1.7)
    rate = np.minimum(1.0, (stats.norm.pdf(1.3) / np.maximum(pi, 1e-300)) ** sign)
    step = x[1] - x[0]
    accepted = np.sum(q * rate) * step
    law = np.cumsum(q * rate) * step / accepted
    out = np.empty((20_000, 3))
    density = Gaussian([0.0], [1.0]).density()
    _moves(density, sign, 1000, np.random.default_rng(2), out)
    ends, tries, found = out.T
    assert found.all()
    # each of the two fails with probability 1e-4
    assert stats.kstest(ends, lambda at: np.interp(at, x, law)).pvalue > 1e-4
    error = np.sqrt(1.0 - accepted) / accepted / np.sqrt(len(tries))
    assert abs(tries.mean() - 1.0 / accepted) < 3.9 * error
    _moves(density, sign, 2, np.random.default_rng(3), out)
    given_up = (1.0 - accepted) ** 2
    assert out[:, 1].max() == 2
    error = np.sqrt(given_up * (1.0 - given_up) / len(out))
    assert abs(np.mean(out[:, 2] == 0) - given_up) < 3.9 * error
