"""The default sampler: its draws, its costs, and how its chains learn together."""

import json
import warnings
from types import SimpleNamespace

import numpy as np
import pytest

import stanadapt as sa
from stanadapt import results
from stanadapt.diagnostics.mixing import TAILS
from stanadapt.diagnostics.verdict import verdict
from stanadapt.engine.warmup import NO_BOUNDS
from stanadapt.errors import Message
from stanadapt.results import arviz_module, attribute
from stanadapt.samplers.whitened.findings import find_improper, still
from stanadapt.samplers.whitened.window import no_record
from stanadapt.targets.stan import bundled
from tests.helpers.chains import column
from tests.helpers.gaussian_target import Gaussian, drawn, draws_of, every_draw
from tests.helpers.seldom_parameters import slow_except

SD = np.array([1e-3, 0.2, 1.0, 30.0, 1e4])
MEAN = np.array([5.0, -1.0, 0.0, 100.0, 1e5])


def around(mean, sd, chains=4, seed=0):
    return mean + sd * np.random.default_rng(seed).uniform(-2, 2, (chains, len(sd)))


# --- learning ------------------------------------------------------------------------------------


@pytest.mark.parametrize("chains", [1, 2, 4])
def test_it_learns_scales_over_twenty_four_decades(chains):
    sd = 10.0 ** np.linspace(-12, 12, 9)
    begin = np.random.default_rng(1).uniform(-2, 2, (chains, 9))
    run_chains = drawn(Gaussian(np.zeros(9), sd), begin)
    progress = run_chains[0].progress.learned
    assert progress.choice.two_stage
    np.testing.assert_allclose(progress.metric.scales / sd, 1.0, atol=0.3)
    z = draws_of(run_chains) / sd
    np.testing.assert_allclose(z.std(axis=(0, 1)), 1.0, atol=0.15)


def test_distant_starts_are_left():
    chains = drawn(Gaussian(np.full(65, 250.0), np.ones(65)), around(np.zeros(65), np.ones(65)))
    assert chains[0].progress.learned.settled
    for chain in chains:
        assert column(chain, "acceptance_rate").mean() > 0.7
        assert not column(chain, "diverging").any()
    begin = around(np.zeros(3), np.ones(3))
    begin[0] = 1e5
    chains = drawn(Gaussian(np.zeros(3), np.ones(3)), begin)
    assert np.abs(draws_of(chains)).max() < 6


def test_chains_that_start_at_a_mode():
    """There the gradient is that of the other mode, 3e-265; without a bound, it gives a scale of
    1e132, and warm-up takes six times the gradients.
    """
    target = sa.Target(
        "parameters { real x; } "
        "model { target += log_mix(.3, normal_lpdf(x | -30, 1), normal_lpdf(x | 5, 2)); }"
    )
    used = {}
    for x in (5.0, 5.1):
        fit = sa.sample(target, inits={"x": x}, iter_sampling=250, seed=1, show_progress=False)
        used[x] = attribute(fit, "n_gradients")
        assert json.loads(fit.attrs["note_codes"]) == []
    assert 0 < used[5.0] < 1.3 * used[5.1]


def notes_on(chains):
    """Notes on improper directions after a run."""
    first = chains[0]
    names = [f"x{i}" for i in range(len(first.state.current.position))]
    return find_improper(first.progress.learned, names)


def test_a_flat_parameter_is_named_and_a_good_run_has_no_notes():
    sd = np.array([1.0, np.inf, 1.0])
    chains = drawn(Gaussian(np.zeros(3), sd), around(np.zeros(3), np.ones(3)))
    (flat,) = notes_on(chains)
    assert flat.code == "flat_direction"
    assert "x1" in flat
    assert "x0" not in flat
    assert notes_on(drawn(Gaussian(MEAN, SD), around(MEAN, SD))) == []


TWO = "parameters {real x; real y;} model {%s}"
IMPROPER = [
    ("unbounded_direction", "x, y", TWO % "x + y ~ normal(0, 1);"),
    ("flat_direction", "x", TWO % "target += x; y ~ normal(0, 1);"),
    ("unbounded_direction", "x, y", TWO % "target += 0.5 * (square(x) + square(y));"),
]


@pytest.mark.thorough
@pytest.mark.parametrize(("code", "names", "program"), slow_except(IMPROPER[:2], IMPROPER))
def test_an_improper_posterior_is_reported(code, names, program):
    target = sa.Target(program)
    assert any(reported(target, seed, code, names) for seed in range(1, 9))


def reported(target, seed, code, names):
    """Whether a note names the parameters, where the verdict is right in any case.

    Chains that run away end by overflow: which parameters have drifted by then depends on the seed,
    and on the last bits of a processor. Of the third program, half of all runs name both.
    """
    run = {"seed": seed, "iter_sampling": 50}
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        fit = sa.sample(target, "whitened_hmc", **run)
    assert attribute(fit, "verdict") == "do not use"
    notes = [str(w.message) for w in caught if getattr(w.message, "code", "") == code]
    return any(f" {names}:" in note or f" {names} " in note for note in notes)


@pytest.mark.thorough
@pytest.mark.parametrize("seed", slow_except([1], range(1, 6)))
def test_separate_modes_are_not_called_improper(seed):
    """The test configuration turns every warning but those of the verdict into an error."""
    target = sa.Target(*bundled.find("mixture", "twenty"))
    sa.sample(target, "whitened_hmc", seed=seed, iter_sampling=50)


@pytest.mark.parametrize(
    ("draws", "spread", "drift", "stays"),
    [(100, 1.0, 0.0, True), (98, 1.0, 0.0, False), (400, 1.0, 3.0, False), (400, 4.0, 0.0, False)],
)
def test_what_drifted_in_warm_up_must_drift_on(draws, spread, drift, stays):
    """Chains in separate modes stay; others go on or grow wider, here the last one."""
    x = np.random.default_rng(1).normal(size=(4, draws, 2))
    x[3, draws // 2 :] = x[3, draws // 2 :] * spread + drift
    x += 50.0 * np.arange(4)[:, None, None]
    learned = SimpleNamespace(unbounded=np.array([1]))
    view = SimpleNamespace(
        progress=SimpleNamespace(learned=learned, bounds=NO_BOUNDS),
        chains=x,
        positions=lambda _: x.reshape(-1, 2),
    )
    assert still(view) == ({1} if stays else frozenset())


@pytest.mark.parametrize(
    ("rows", "farthest", "stays"),
    [([(1, 1.0, 0.0, 9.0)], 30.0, True), ([(1, 1.0, 0.0, 9.0)], 50.0, False),
     ([(1, 0.0, 0.0, 0.0)], 30.0, False), ([(0, 1.0, 0.0, 9.0)], 30.0, False)],
)  # fmt: skip
def test_what_is_bounded_on_both_sides_drifts_if_it_reaches_a_bound(rows, farthest, stays):
    """Chains move slowly between modes of x1; in its logit, 37 is a bound to rounding."""
    x = np.random.default_rng(1).normal(size=(4, 400, 2))
    x[..., 1] += np.linspace(0.0, farthest - 5.0, 400)
    view = SimpleNamespace(
        progress=SimpleNamespace(
            learned=SimpleNamespace(unbounded=np.array([1])), bounds=np.array(rows)
        ),
        chains=x,
        positions=lambda _: x.reshape(-1, 2),
    )
    assert still(view) == ({1} if stays else frozenset())


@pytest.mark.parametrize("draws", [20, 399, 1000])
@pytest.mark.parametrize("code", ["flat_direction", "unbounded_direction"])
def test_the_verdict_advises_bounds_where_a_note_calls_a_posterior_improper(draws, code):
    x = np.random.default_rng(1).normal(size=(4, draws)) + 9.0 * np.arange(4)[:, None]
    judged = verdict(results.build({"posterior": {"x": x}}, {"notes": [Message(code, "why")]}))
    advice = [m for m in judged.reasons if m.code in ("high_r_hat", "low_ess")]
    assert len(advice) == 2
    for text in advice:
        assert "improper: bound all directions" in text
        assert not any(word in text for word in ("iter_", "modes", "another sampler"))


# --- one run, however it is run ------------------------------------------------------------------


def test_the_same_bits_for_any_threads_and_others_for_other_chains():
    target, begin = Gaussian(MEAN, SD), around(MEAN, SD)
    found = []
    for threads, chunk in ((1, None), (2, 7), (4, 1), (2, 1024)):
        found.append(every_draw(drawn(target, begin, threads, chunk, draws=100)))
    for other in found[1:]:
        np.testing.assert_array_equal(found[0], other)
    four, two = drawn(target, begin, draws=50), drawn(target, begin[:2], draws=50)
    assert not np.array_equal(four[0].sampling.constrained, two[0].sampling.constrained)
    (chain,) = drawn(Gaussian(MEAN, SD), MEAN[None] + SD, warmup=0, draws=50)
    assert chain.progress is None
    assert len(np.unique(chain.sampling.constrained[:, 0])) > 25


def test_warm_up_ends_when_it_has_settled_or_is_reported_as_cut():
    chains = drawn(Gaussian(MEAN, SD), around(MEAN, SD))
    for chain in chains:
        assert chain.iter_warmup == chain.progress.used == chain.warmup.rows < 400
        assert chain.progress.block == 0
        assert chain.sampling.rows == 1000
        assert chain.n_done == chain.n_total
        assert len(chain.state.record.positions) == len(no_record(5).positions)
    with pytest.warns(sa.ConvergenceWarning, match="raise iter_warmup above 60"):
        fit = sa.sample(neal(), "whitened_hmc", iter_warmup=60, seed=1)
    assert attribute(fit, "warmup_iterations") == 60
    (first, *_) = json.loads(attribute(fit, "verdict_reasons"))
    assert "60" in str(first)
    assert attribute(fit, "verdict") != "fine"
    assert "60 iterations" not in attribute(fit, "notes")


@pytest.mark.parametrize("ceiling", [1, 2, 3, 10, 50, 100, 200, 300])
def test_the_ceiling_of_warm_up_holds(ceiling):
    chains = drawn(Gaussian(MEAN, SD), around(MEAN, SD), warmup=ceiling, draws=50)
    for chain in chains:
        assert 1 <= chain.progress.used <= ceiling
        assert chain.progress.block == 0
        assert np.isfinite(chain.sampling.stats).all()
        assert not chain.state.tuning.learns_step
        assert len(np.unique(column(chain, "step_size"))) in (1, 50)


# --- costs and reports ---------------------------------------------------------------------------


def neal():
    return sa.Target(*bundled.find("neal", "neal"))


def test_neal_costs_two_gradients_per_draw_and_a_short_warm_up():
    """NUTS needs 7.5 per draw and 150,000 for warm-up."""
    fit = sa.sample(neal(), "whitened_hmc", seed=1)
    assert attribute(fit, "trajectory").startswith("2 gradients per draw")
    assert attribute(fit, "n_gradients_warmup") < 5000
    assert attribute(fit, "n_gradients") - attribute(fit, "n_gradients_warmup") == 2 * 4 * 1000
    assert attribute(fit, "metric") == "diagonal"
    assert attribute(fit, "verdict") == "fine"
    x = fit["posterior"]["x"].values
    least = min(float(arviz_module().ess(x[..., i], method="bulk")) for i in range(100))
    tail = min(float(arviz_module().ess(x[..., i], method="tail", prob=TAILS)) for i in range(100))
    assert min(least, tail) > 1500


def test_a_funnel_is_left_to_nuts():
    target = sa.Target(*bundled.find("eight_schools_noncentered"))
    for seed in (1, 2):
        fit = sa.sample(target, "whitened_hmc", seed=seed, iter_sampling=50)
        trajectory = attribute(fit, "trajectory")
        assert trajectory.startswith("NUTS: ")
        shorter = "steps are shorter" in trajectory
        assert attribute(fit, "acceptance_target") == (0.95 if shorter else 0.8)
