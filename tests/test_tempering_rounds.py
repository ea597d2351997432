"""Warm-up of a tempering: rounds in time, and what they come to, against exact values."""

import numpy as np
import pytest
from targets import MEAN, SD, Awkward, starts
from tempered_formula import LOG_EVIDENCE, MIDDLE, WIDE, Tempered
from test_samplers import column, copy, finish, make_chains
from test_tempered_moves import moved
from test_tempering import exact, gains

from stanadapt.driver import Chain
from stanadapt.ladder import BARRIER, LOG_STEP, LOG_Z, B
from stanadapt.plan import make_plan
from stanadapt.protocol import as_chosen, find
from stanadapt.reference_law import ReferenceLaw
from stanadapt.samplers.parallel_tempering import LEVELS_A_BARRIER
from stanadapt.samplers.pseudo_extended import FEWEST_LEVELS, LEVELS_OF_BLOCKS, PATH_SHARE
from stanadapt.tempered_moves import Moves
from stanadapt.tempered_path import LAW, POSITION, Path, evaluate, no_places
from stanadapt.tempering import SWEEPS
from stanadapt.tempering_rounds import HALVINGS, LAST_REFIT, ROOM

OTHER = Awkward().density()  # whose counters are nobody's
BOTH = ["parallel_tempering", "pseudo_extended"]


def on_path(name, warmup, draws, seed=1, stop_after_warmup=False, **chosen):
    """A chain from the given reference law, which is not learned."""
    sampler, settings = find(name, **chosen)
    plan = make_plan(
        chains=1, parallel_chains=None, iter_warmup=warmup, iter_sampling=draws, thin=1,
        seed=seed, save_warmup=True, show_progress=False,
    )  # fmt: skip
    density = Awkward().density()

    def init(density, settings, position, rng):
        path = Path(density, ReferenceLaw(MIDDLE, WIDE).law(3), LAW, 0)
        return sampler.init_on(density, settings, position, rng, path, False)

    chain = Chain(
        sampler, settings, density, starts(1, seed)[0], np.random.default_rng(seed), plan,
        lambda: copy, 3, init=init,
    )  # fmt: skip
    while stop_after_warmup and chain.warming_up:
        chain.advance()
    return chain if stop_after_warmup else finish([chain])[0]


@pytest.fixture(scope="module")
def learned():
    """A long warm-up each: what it has learned is compared with exact values."""
    chosen = {"parallel_tempering": {"levels": 6}, "pseudo_extended": {}}
    return {name: on_path(name, 40_000, 4000, **chosen[name]) for name in BOTH}


# --- rounds in time ------------------------------------------------------------------------------


@pytest.mark.parametrize("warmup", [1, 2, 3, 10, 63, 64, 100, 600])
def test_rounds_end_at_the_halvings_of_warmup(warmup):
    (chain,) = make_chains(("parallel_tempering", {}), Awkward(), warmup=warmup, draws=5)
    ends = []
    while chain.warming_up:
        chain.advance(1)
        seen = chain.state.tempering.seen
        assert_true(chain.state.tempering)
        if seen.counts[SWEEPS] == 0:
            ends.append(chain.n_done)
            assert not seen.vectors.any()
    assert ends == sorted({max(warmup >> h, 1) for h in range(HALVINGS + 1)})
    assert_ladder(chain.state.tempering.ladder)
    finish([chain])
    assert chain.state.tempering.seen.counts[SWEEPS] == 5  # those of sampling


def assert_true(tempering):
    """Every level has a row of its own, and what is known there is of this position and law."""
    count, places, found = tempering.ladder.size[0], tempering.places, no_places(1, 3)
    rows = tempering.order[0, :count]
    assert len(set(rows)) == count
    for row in rows:
        found.vectors[0, POSITION] = places.vectors[row, POSITION]
        evaluate(tempering.path._replace(target=OTHER), found, 0, True)
        np.testing.assert_allclose(places.vectors[row], found.vectors[0], rtol=1e-9, atol=1e-9)
        np.testing.assert_allclose(places.logs[row], found.logs[0], rtol=1e-9, atol=1e-9)


def assert_ladder(ladder):
    count = ladder.size[0]
    b = ladder.levels[:count, B]
    assert (b[0], b[-1]) == (0.0, 1.0)
    assert np.all(np.diff(b) > 0)
    assert np.isfinite(ladder.levels[:count]).all()
    assert np.all(ladder.scale[:count] > 0)
    assert np.isfinite(ladder.scale).all()


@pytest.mark.parametrize("warmup", [0, 1, 2, 3, 10, 63])
@pytest.mark.parametrize("case", [
    ("parallel_tempering", {}),
    ("parallel_tempering", {"moves": "random_walk", "levels": 2}),
    ("pseudo_extended", {}),
    ("pseudo_extended", {"pseudo_samples": 1, "moves": "nuts"}),
    ("pseudo_extended", {"law": "power", "lowest": 0.3}),
], ids=str)  # fmt: skip
def test_however_short_the_warmup_chains_run(case, warmup):
    """Zero included: on the first law, the first ladder, and with the step that is set."""
    (chain,) = finish(make_chains(case, Awkward(), warmup=warmup, draws=200))
    draws = chain.sampling.constrained
    assert np.isfinite(draws).all()
    assert np.isfinite(chain.sampling.stats).all()
    assert np.ptp(draws, axis=0).all()
    state = chain.state
    ladder = state.blocks.ladder if case[0] == "pseudo_extended" else state.tempering.ladder
    assert ladder.size[0] >= 2
    assert np.all(np.diff(ladder.levels[: ladder.size[0], B]) > 0)
    found = chain.sampler.learned(state)
    power = as_chosen(chain.settings)["law"] == "power"
    assert np.isfinite(found["log_evidence"]) == (not power)


@pytest.mark.parametrize("warmup", [0, 3, 63])
@pytest.mark.parametrize("name", BOTH)
def test_after_a_short_warmup_the_law_of_the_draws_is_right(name, warmup):
    """Inefficient and valid: 20 chains, 5 standard errors (Student t, 19 degrees), 3,000 draws."""
    chosen = {"step_size": 0.4, "moves": "nuts"}
    chains = finish(make_chains((name, chosen), Awkward(), 20, warmup=warmup, draws=4000))
    draws = np.stack([c.sampling.constrained[1000:] for c in chains])
    for power, truth in ((1, 0 * SD), (2, SD**2)):
        per_chain = ((draws - MEAN) ** power).mean(axis=1)
        error = per_chain.std(axis=0, ddof=1) / np.sqrt(len(chains))
        assert np.all(np.abs(per_chain.mean(axis=0) - truth) < 5 * error)
        assert np.all(error < 0.3 * SD**power)


# --- what they come to ---------------------------------------------------------------------------


def exact_rejections(b):
    delta, gap = gains(exact(40_000, seed=2, levels=b)), np.diff(b)
    return 1 - np.minimum(1.0, np.exp(gap * (delta[:, :-1] - delta[:, 1:]))).mean(axis=0)


@pytest.mark.parametrize("name", BOTH)
def test_levels_are_equally_far_apart(name, learned):
    """In exact rejection rates. Of sixteen levels between four, straight lines show."""
    found = learned[name].sampler.learned(learned[name].state)
    rates = exact_rejections(found["temperature"])
    assert rates.std() < (0.12 if name == "parallel_tempering" else 0.35) * rates.mean()
    # what equal steps in b would be: far from it
    uneven = exact_rejections(np.linspace(0, 1, len(rates) + 1))
    assert uneven.std() > 0.6 * uneven.mean()


def test_the_barrier_is_that_of_exact_draws(learned):
    chain = learned["parallel_tempering"]
    found = chain.sampler.learned(chain.state)
    rates = exact_rejections(found["temperature"])
    assert found["barrier"] == pytest.approx(rates.sum(), rel=0.05)
    np.testing.assert_allclose(found["rejection"], rates, atol=0.05)
    assert chain.state.tempering.ladder.levels[5, BARRIER] == pytest.approx(rates.sum(), rel=0.1)


@pytest.mark.parametrize("name", BOTH)
def test_constants_and_evidence(name, learned):
    """The bound is 4 times what eight seeds were off by, in the root of the mean square."""
    found = learned[name].sampler.learned(learned[name].state)
    wanted = [Tempered(b).log_z for b in found["temperature"]]
    np.testing.assert_allclose(found["log_normalizer"], wanted, atol=0.2)
    assert found["log_evidence"] == pytest.approx(LOG_EVIDENCE, abs=0.2)
    assert abs(LOG_EVIDENCE) > 1


@pytest.mark.parametrize("shift", [-1.0, 1.0])
def test_visits_mend_constants_that_were_not_learned(shift):
    chain = on_path("pseudo_extended", 4000, 20_000, stop_after_warmup=True)
    ladder = chain.state.blocks.ladder
    count = ladder.size[0]
    ladder.levels[:count, LOG_Z] += shift * ladder.levels[:count, B]
    finish([chain])
    found = chain.sampler.learned(chain.state)
    assert found["log_evidence"] == pytest.approx(LOG_EVIDENCE, abs=0.3)
    assert shift * (found["occupancy"][0] - found["occupancy"][-1]) > 0


def test_states_travel(learned):
    for chain in learned.values():
        assert column(chain, "round_trips").sum() > 100


@pytest.mark.parametrize("name", BOTH)
def test_steps_reach_their_rate_at_every_level(name, learned):
    state = learned[name].state
    ladder = state.blocks.ladder if name == "pseudo_extended" else state.tempering.ladder
    rates = []
    for k in range(1, ladder.size[0]):  # the hottest is drawn anew
        b = ladder.levels[k, B]
        x = Tempered(b).draws(1000, np.random.default_rng(k))
        scale, step_size = ladder.scale[k : k + 1], np.exp(ladder.levels[k, LOG_STEP])
        _, out, _ = moved(Moves.hmc, b, x, scale=scale, step_size=step_size, leapfrogs=2, moves=1)
        rates.append(out[:, 0].mean())
    assert np.mean(rates) == pytest.approx(0.8, abs=0.03)
    assert np.all(np.abs(np.array(rates) - 0.8) < 0.12)


def test_scales_follow_the_slope(learned):
    """1 / sqrt(E slope^2): at the hottest level the law's, at the coldest the conditional sds."""
    ladder = learned["parallel_tempering"].state.tempering.ladder
    np.testing.assert_allclose(ladder.scale[0], WIDE, rtol=0.1)
    conditional = SD[1:] * np.sqrt(1 - 0.7**2)
    np.testing.assert_allclose(ladder.scale[5, 1:], conditional, rtol=0.1)


def test_the_number_of_levels_follows_the_barrier():
    chain = on_path("parallel_tempering", 8000, 1000)
    ladder = chain.state.tempering.ladder
    count, barrier = ladder.size[0], ladder.levels[ladder.size[0] - 1, BARRIER]
    assert count == np.ceil(LEVELS_A_BARRIER * barrier) + 1
    assert column(chain, "levels")[-1] == count < ROOM
    chain = on_path("pseudo_extended", 4000, 100)
    path_levels = chain.warmup.stats[int(PATH_SHARE * 4000) - 1, -1]
    ladder = chain.state.blocks.ladder
    barrier = ladder.levels[ladder.size[0] - 1, BARRIER]
    wanted = max(np.ceil(LEVELS_OF_BLOCKS * barrier), FEWEST_LEVELS)
    assert column(chain, "levels")[0] == ladder.size[0] == wanted != path_levels


def test_a_given_law_stays_and_a_learned_one_is_fitted():
    chain = on_path("parallel_tempering", 2000, 10)
    law = chain.state.tempering.path.law
    np.testing.assert_array_equal(law.mean, MIDDLE)
    np.testing.assert_array_equal(law.factor[0], WIDE)
    (chain,) = finish(make_chains(("parallel_tempering", {"inflation": 2.0}), Awkward(), 1, 4000))
    law = chain.state.tempering.path.law
    # the levels it is fitted to, b >= 1/2, are wider than the target: up to sqrt(2) if Gaussian
    assert np.all(np.abs(law.mean - MEAN) < SD)
    assert np.all(law.factor[0] > 0.9 * 2.0 * SD)
    assert np.all(law.factor[0] < 2.0 * 2.0 * SD)


def fits(inflation):
    """Scales of a learned law before its last fit, and after it; when they changed."""
    case = "parallel_tempering", {"inflation": inflation}
    (chain,) = make_chains(case, Awkward(), warmup=4000, draws=1)
    factor, scales, changes = chain.state.tempering.path.law.factor, [], []
    while chain.warming_up:
        chain.advance(50)
        if not scales or not np.array_equal(factor[0], scales[-1]):
            scales.append(factor[0].copy())
            changes.append(chain.n_done)
    assert changes[-2:] == [4000 >> LAST_REFIT + 1, 4000 >> LAST_REFIT]
    return scales[-2:]


def test_a_learned_law_is_wider_before_its_last_fit():
    """With the same seed and earlier fits the last ones see the same draws."""
    (_, last), (before, least), (wide, widest) = fits(2.0), fits(0.0), fits(6.0)
    np.testing.assert_allclose(last / least, 2.0 / 2 ** np.sqrt(2 / 3), rtol=1e-9)
    # all are fitted to levels b >= 1/2, of like spread
    np.testing.assert_allclose(before / last, 4.0 / 2.0, rtol=0.15)
    np.testing.assert_allclose(wide / widest, 1.0, rtol=0.15)


def test_the_pseudo_samples_learn_after_the_path():
    """Constants of warm-up alone, before sampling has counted: within what learning leaves."""
    chain = on_path("pseudo_extended", 20_000, 0 + 1)
    ladder = chain.state.blocks.ladder
    count = ladder.size[0]
    wanted = np.array([Tempered(b).log_z for b in ladder.levels[:count, B]])
    np.testing.assert_allclose(ladder.levels[:count, LOG_Z], wanted, atol=0.4)
    assert chain.state.phase == 2
    levels = chain.warmup.stats[:, -1]
    assert np.flatnonzero(levels == count)[0] >= int(PATH_SHARE * 20_000)
