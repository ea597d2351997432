"""Warm-up of tempering samplers: the ends of rounds, and their results against exact values."""

import numpy as np
import pytest

from stanadapt.engine.settings import as_chosen
from stanadapt.samplers import registered
from stanadapt.samplers.tempering import warmup_rounds
from stanadapt.samplers.tempering.ladder import BARRIER, LOG_STEP, LOG_Z, B
from stanadapt.samplers.tempering.moves import MoveKernel
from stanadapt.samplers.tempering.on_the_path import FROZEN, PATH_SHARE
from stanadapt.samplers.tempering.path import (
    DISTRIBUTION,
    POSITION,
    TemperingPath,
    evaluate,
    no_replicas,
)
from stanadapt.samplers.tempering.reference_distribution import ReferenceDistribution
from stanadapt.samplers.tempering.swaps import SWEEPS
from tests.helpers.chains import column, finish, make_chains
from tests.helpers.gaussian_target import Gaussian, drawn, draws_of, make_chains_at
from tests.helpers.moves import moved
from tests.helpers.seldom_parameters import slow_except
from tests.helpers.targets import MEAN, SD, Awkward, starts
from tests.helpers.tempered_formula import (
    LOG_EVIDENCE,
    REFERENCE_MEAN,
    REFERENCE_SD,
    TemperedDistribution,
    exact_draws,
    log_ratios,
)

UNCOUNTED = Awkward().density()  # for evaluations by tests, which no chain counts
BOTH = ["parallel_tempering", "pseudo_extended"]


def on_given_path(name, warmup, draws, seed=1, stop_after_warmup=False, **chosen):
    """Run a chain from a given reference distribution, which is not learned."""

    def init(density, settings, position, rng):
        reference = ReferenceDistribution(REFERENCE_MEAN, REFERENCE_SD).compiled(3)
        path = TemperingPath(density, reference, DISTRIBUTION, 0)
        init_from_path = registered()[name].tempering.init_from_path
        return init_from_path(density, settings, position, rng, path, False)

    begin = starts(1, seed)
    (chain,) = make_chains_at(Awkward(), begin, name, warmup, draws, seed, init, **chosen)
    while stop_after_warmup and chain.warming_up:
        chain.advance()
    return chain if stop_after_warmup else finish([chain])[0]


def learned_by(chain):
    """Results of a chain by name."""
    return chain.sampler.tempering.learned(chain.state)


@pytest.fixture(scope="module")
def chains():
    """A chain of each sampler after a long warm-up, to compare with exact values."""
    chosen = {"parallel_tempering": {"levels": 6}, "pseudo_extended": {}}
    return {name: on_given_path(name, 40_000, 4000, **chosen[name]) for name in BOTH}


@pytest.mark.parametrize("warmup", [1, 2, 3, 10, 63, 64, 100, 600])
def test_rounds_end_at_the_halvings_of_warmup(warmup):
    (chain,) = make_chains(("parallel_tempering", {}), Awkward(), warmup=warmup, draws=5)
    ends = []
    while chain.warming_up:
        chain.advance(1)
        statistics = chain.state.tempering.statistics
        assert_up_to_date(chain.state.tempering)
        if statistics.counts[SWEEPS] == 0:
            ends.append(chain.n_done)
            assert not statistics.vectors.any()
    assert ends == sorted({max(warmup >> h, 1) for h in range(warmup_rounds.HALVINGS + 1)})
    assert_valid(chain.state.tempering.ladder)
    finish([chain])
    assert chain.state.tempering.statistics.counts[SWEEPS] == 5  # those of sampling


def assert_up_to_date(tempering):
    """Every level has its own row, with the densities of its position and the reference."""
    count, replicas, again = tempering.ladder.size[0], tempering.replicas, no_replicas(1, 3)
    rows = tempering.order[0, :count]
    assert len(set(rows)) == count
    for row in rows:
        again.vectors[0, POSITION] = replicas.vectors[row, POSITION]
        evaluate(tempering.path._replace(target=UNCOUNTED), again, 0, True)
        np.testing.assert_allclose(replicas.vectors[row], again.vectors[0], rtol=1e-9, atol=1e-9)
        np.testing.assert_allclose(replicas.logs[row], again.logs[0], rtol=1e-9, atol=1e-9)


def assert_valid(ladder):
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
    ("parallel_tempering", {"kernel": "random_walk", "levels": 2}),
    ("pseudo_extended", {}),
    ("pseudo_extended", {"pseudo_samples": 1, "kernel": "nuts"}),
    ("pseudo_extended", {"reference_family": "power", "min_inverse_temperature": 0.3}),
], ids=str)  # fmt: skip
def test_chains_run_after_a_warmup_of_any_length(case, warmup):
    """With none, they use the initial reference, the first ladder and the given step size."""
    (chain,) = finish(make_chains(case, Awkward(), warmup=warmup, draws=200))
    draws = chain.sampling.constrained
    assert np.isfinite(draws).all()
    assert np.isfinite(chain.sampling.stats).all()
    assert np.ptp(draws, axis=0).all()
    state = chain.state
    ladder = state.engine.ladder if case[0] == "pseudo_extended" else state.tempering.ladder
    assert ladder.size[0] >= 2
    assert np.all(np.diff(ladder.levels[: ladder.size[0], B]) > 0)
    power = as_chosen(chain.settings)["reference_family"] == "power"
    assert np.isfinite(learned_by(chain)["log_evidence"]) == (not power)


@pytest.mark.slow
@pytest.mark.parametrize("warmup", [0, 3, 63])
@pytest.mark.parametrize("name", BOTH)
def test_draws_are_correct_after_a_short_warmup(name, warmup):
    """Inefficient but valid: 20 chains, 3,000 draws, 5 standard errors (Student t, 19 degrees)."""
    chosen = {"step_size": 0.4, "kernel": "nuts"}
    ended = finish(make_chains((name, chosen), Awkward(), 20, warmup=warmup, draws=4000))
    draws = np.stack([chain.sampling.constrained[1000:] for chain in ended])
    for power, truth in ((1, 0 * SD), (2, SD**2)):
        per_chain = ((draws - MEAN) ** power).mean(axis=1)
        error = per_chain.std(axis=0, ddof=1) / np.sqrt(len(ended))
        assert np.all(np.abs(per_chain.mean(axis=0) - truth) < 5 * error)
        assert np.all(error < 0.3 * SD**power)


def exact_rejections(b):
    delta, gap = log_ratios(exact_draws(40_000, b, seed=2)), np.diff(b)
    return 1 - np.minimum(1.0, np.exp(gap * (delta[:, :-1] - delta[:, 1:]))).mean(axis=0)


@pytest.mark.thorough
@pytest.mark.parametrize("name", slow_except(BOTH[:1], BOTH))
def test_levels_are_equally_far_apart(name, chains):
    """In exact rejection rates. Interpolating sixteen levels linearly between four costs some."""
    rates = exact_rejections(learned_by(chains[name])["temperature"])
    assert rates.std() < (0.12 if name == "parallel_tempering" else 0.35) * rates.mean()
    # equal steps in b would be far from it
    uneven = exact_rejections(np.linspace(0, 1, len(rates) + 1))
    assert uneven.std() > 0.6 * uneven.mean()


def test_the_barrier_and_scales_are_those_of_exact_draws(chains):
    chain = chains["parallel_tempering"]
    learned = learned_by(chain)
    rates = exact_rejections(learned["temperature"])
    assert learned["barrier"] == pytest.approx(rates.sum(), rel=0.05)
    np.testing.assert_allclose(learned["rejection"], rates, atol=0.05)
    assert chain.state.tempering.ladder.levels[5, BARRIER] == pytest.approx(rates.sum(), rel=0.1)
    # 1 / sqrt(E slope^2): the sds of the reference at b = 0, the conditional sds at b = 1
    ladder = chains["parallel_tempering"].state.tempering.ladder
    np.testing.assert_allclose(ladder.scale[0], REFERENCE_SD, rtol=0.1)
    conditional = SD[1:] * np.sqrt(1 - 0.7**2)
    np.testing.assert_allclose(ladder.scale[5, 1:], conditional, rtol=0.1)


@pytest.mark.parametrize("name", BOTH)
def test_constants_evidence_and_step_sizes(name, chains):
    """The bound is 4 times the root mean square error of eight seeds."""
    learned = learned_by(chains[name])
    exact = [TemperedDistribution(b).log_z for b in learned["temperature"]]
    np.testing.assert_allclose(learned["log_normalizer"], exact, atol=0.2)
    assert learned["log_evidence"] == pytest.approx(LOG_EVIDENCE, abs=0.2)
    assert abs(LOG_EVIDENCE) > 1
    state = chains[name].state
    ladder = state.engine.ladder if name == "pseudo_extended" else state.tempering.ladder
    rates = []
    for k in range(1, ladder.size[0]):  # the hottest is redrawn
        b = ladder.levels[k, B]
        x = TemperedDistribution(b).draws(1000, np.random.default_rng(k))
        scale, step_size = ladder.scale[k : k + 1], np.exp(ladder.levels[k, LOG_STEP])
        _, out, _ = moved(
            MoveKernel.hmc, b, x, scale=scale, step_size=step_size, leapfrogs=2, repeats=1
        )
        rates.append(out[:, 0].mean())
    assert np.mean(rates) == pytest.approx(0.8, abs=0.03)
    assert np.all(np.abs(np.array(rates) - 0.8) < 0.12)


@pytest.mark.parametrize("shift", [-1.0, 1.0])
def test_visits_correct_the_evidence_for_wrong_constants(shift):
    chain = on_given_path("pseudo_extended", 4000, 20_000, stop_after_warmup=True)
    ladder = chain.state.engine.ladder
    count = ladder.size[0]
    ladder.levels[:count, LOG_Z] += shift * ladder.levels[:count, B]
    finish([chain])
    learned = learned_by(chain)
    assert learned["log_evidence"] == pytest.approx(LOG_EVIDENCE, abs=0.3)
    assert shift * (learned["occupancy"][0] - learned["occupancy"][-1]) > 0


@pytest.mark.parametrize("name", [n for n, s in registered().items() if s.tempering is not None])
def test_scales_of_any_size_are_learned(name):
    """In the first round, all scales are 1; sds differ by a factor of 10^10."""
    mean, sd = np.array([0.0, 2e7, 1e-3]), np.array([1.0, 1e7, 1e-3])
    starts = np.random.default_rng(1).uniform(-2.0, 2.0, (4, 3))
    lengths = {"warmup": 4000, "draws": 4000}
    chains = drawn(Gaussian(mean, sd), starts, sampler=name, **lengths)
    draws = (draws_of(chains) - mean) / sd
    # at least 400 effective draws: 5 standard errors
    assert np.abs(draws.mean(axis=(0, 1))).max() < 0.25
    assert np.abs(np.log(draws.std(axis=(0, 1)))).max() < 0.18


def test_the_number_of_levels_follows_the_barrier():
    chain = on_given_path("parallel_tempering", 8000, 1000)
    ladder = chain.state.tempering.ladder
    count, barrier = ladder.size[0], ladder.levels[ladder.size[0] - 1, BARRIER]
    assert count == np.ceil(warmup_rounds.LEVELS_PER_BARRIER * barrier) + 1
    assert column(chain, "levels")[-1] == count < warmup_rounds.ROOM
    chain = on_given_path("pseudo_extended", 4000, 100)
    path_levels = chain.warmup.stats[int(PATH_SHARE * 4000) - 1, -1]
    ladder = chain.state.engine.ladder
    barrier = ladder.levels[ladder.size[0] - 1, BARRIER]
    expected = max(np.ceil(warmup_rounds.FINER_PER_BARRIER * barrier), warmup_rounds.FEWEST_FINER)
    assert column(chain, "levels")[0] == ladder.size[0] == expected != path_levels


def test_references_are_kept_or_fitted_and_wider_before():
    chain = on_given_path("parallel_tempering", 2000, 10)
    reference = chain.state.tempering.path.reference
    np.testing.assert_array_equal(reference.mean, REFERENCE_MEAN)
    np.testing.assert_array_equal(reference.factor[0], REFERENCE_SD)
    (chain,) = finish(make_chains(("parallel_tempering", {"inflation": 2.0}), Awkward(), 1, 4000))
    reference = chain.state.tempering.path.reference
    # it is fitted to levels b >= 1/2, which are wider than the target: up to sqrt(2) if Gaussian
    assert np.all(np.abs(reference.mean - MEAN) < SD)
    assert np.all(reference.factor[0] > 0.9 * 2.0 * SD)
    assert np.all(reference.factor[0] < 2.0 * 2.0 * SD)
    # with the same seed and the same earlier fits, the last fits use the same draws
    (_, last), (before, default) = last_fits(2.0), last_fits(0.0)
    wide_before, wide_last = last_fits(6.0)
    np.testing.assert_allclose(last / default, 2.0 / 2 ** np.sqrt(2 / 3), rtol=1e-9)
    # all are fitted to levels b >= 1/2, with similar spreads
    np.testing.assert_allclose(before / last, 4.0 / 2.0, rtol=0.15)
    np.testing.assert_allclose(wide_before / wide_last, 1.0, rtol=0.15)


def last_fits(inflation):
    """Scales of a learned reference before and after its last fit."""
    case = "parallel_tempering", {"inflation": inflation}
    (chain,) = make_chains(case, Awkward(), warmup=4000, draws=1)
    factor, scales, changes = chain.state.tempering.path.reference.factor, [], []
    while chain.warming_up:
        chain.advance(50)
        if not scales or not np.array_equal(factor[0], scales[-1]):
            scales.append(factor[0].copy())
            changes.append(chain.n_done)
    assert changes[-2:] == [4000 >> warmup_rounds.LAST_REFIT + 1, 4000 >> warmup_rounds.LAST_REFIT]
    return scales[-2:]


def test_the_pseudo_samples_tune_after_the_path():
    """Constants from warm-up alone, without the visits of sampling, hence a wider bound."""
    chain = on_given_path("pseudo_extended", 20_000, 1)
    ladder = chain.state.engine.ladder
    count = ladder.size[0]
    exact = np.array([TemperedDistribution(b).log_z for b in ladder.levels[:count, B]])
    np.testing.assert_allclose(ladder.levels[:count, LOG_Z], exact, atol=0.4)
    assert chain.state.phase == FROZEN
    levels = chain.warmup.stats[:, -1]
    assert np.flatnonzero(levels == count)[0] >= int(PATH_SHARE * 20_000)
