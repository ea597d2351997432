"""Repelling-attracting Metropolis: draw for draw as in the paper, and the report of a run.

Twenty modes: test_multimodal.py, and with the published settings test_published_presets.py.
"""

import numpy as np
import pytest

import stanadapt as sa
from stanadapt.engine.density import value
from stanadapt.errors import codes_of
from stanadapt.samplers import find
from stanadapt.samplers.jumps.repelling_attracting import (
    init,
    report,
)
from tests.helpers.chains import column, finish, make_chains
from tests.helpers.run_view import view_of
from tests.helpers.targets import Awkward

NAME, WALL, SCALE = "repelling_attracting", 0.9, 0.7
SCALES = np.array([0.7, 0.4, 1.1])  # of the three parameters
FIXED = {"tune_scale": False, "initial_scale": SCALE}


class OnPaper:
    """The algorithm with densities instead of their logs; 0 / 0 is 1."""

    def __init__(self, density, position, rng, longest_search):
        self.density, self.rng, self.longest = density, rng, longest_search
        self.x, self.z = position, position + SCALE * rng.standard_normal(3)
        self.tries = 0

    def noise(self):
        return SCALES * self.rng.standard_normal(3)

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
    chain.state.scales[:] = SCALES
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
