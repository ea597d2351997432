"""Runs that continue until they have enough draws: when, how far, and what may come between."""

import time
import warnings
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

import stanadapt as sa
from stanadapt import results
from stanadapt.diagnostics.mixing import efficiency, mixing
from stanadapt.engine.chain import Chain
from stanadapt.engine.plan import Plan
from stanadapt.errors import StanadaptError
from stanadapt.runs import run as run_module
from stanadapt.runs import stopping_rule
from stanadapt.runs.folder import writing
from stanadapt.runs.progress import Watch
from stanadapt.runs.run import Run
from stanadapt.runs.stopping_rule import lacking, shortfall, with_stopping_rule
from stanadapt.samplers import find
from tests.helpers.codes import raises
from tests.helpers.driven_runs import sample_with, setup_of
from tests.helpers.stan_target import shared_target

# unequal scales, one parameter that is bounded
PROGRAM = """
parameters { vector[2] x; real<lower=0> s; }
model { x ~ normal([1e3, -2], [5, 1e-3]); s ~ gamma(2, 1); }
"""
# two modes that no chain leaves: no number of draws helps
MODES = """
parameters { real x; }
model { target += log_mix(0.5, normal_lpdf(x | -30, 1), normal_lpdf(x | 30, 1)); }
"""
SHORT = {"chains": 2, "iter_warmup": 150, "seed": 3}
target = shared_target(PROGRAM)


def draw(target, parts=(), **changes):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return sample_with(dict(parts), target, "rwm", **{**SHORT, **changes})


def posterior(fit):
    return {name: x.values for name, x in results.dataset(fit, "posterior").data_vars.items()}


def assert_begins_with(longer, shorter):
    for name, draws in posterior(shorter).items():
        np.testing.assert_array_equal(posterior(longer)[name][:, : draws.shape[1]], draws)


def assert_same(one, two):
    assert_begins_with(one, two)
    assert_begins_with(two, one)
    for name in ("verdict", "verdict_reasons", "iter_sampling", "iter_sampling_reason"):
        assert results.attribute(one, name) == results.attribute(two, name)


def smallest(fit):
    found = efficiency(results.columns(fit, wanted=results.parameters(fit)))
    return min(found.ess_bulk.min(), found.ess_tail.min())


@pytest.fixture(scope="module")
def until_300(target):
    return draw(target, iter_sampling=200, until_ess=300, max_minutes=3)


class TestUntilEss:
    """`sample(..., until_ess=...)` with a sampler that is named."""

    def test_it_reaches_what_was_asked_for(self, until_300):
        fit = until_300
        found = results.columns(fit, wanted=results.parameters(fit))
        assert fit.attrs["iter_sampling"] == next(iter(found.values())).shape[1] > 200
        assert smallest(fit) >= 300
        assert "200" in fit.attrs["iter_sampling_reason"]
        assert fit.attrs["interrupted"] == 0

    def test_draws_are_added_and_none_is_changed(self, target, until_300):
        assert_begins_with(until_300, draw(target, iter_sampling=200))
        asked = draw(target, iter_sampling=int(until_300.attrs["iter_sampling"]))
        assert_begins_with(asked, until_300)
        assert "iter_sampling_reason" not in asked.attrs

    def test_the_same_draws_whoever_runs_the_chains(self, target, until_300, tmp_path):
        asked = {"iter_sampling": 200, "until_ess": 300}
        assert_same(draw(target, **asked, parallel_chains=2), until_300)
        assert_same(draw(target, **asked, run=tmp_path / "run"), until_300)
        with ThreadPoolExecutor(2) as executor:
            assert_same(draw(target, **asked, executor=executor), until_300)

    @pytest.mark.parametrize("after", [0, 1])
    def test_a_crash_between_two_lengths_changes_no_draw(self, target, until_300, after, tmp_path):
        """Before the folder is longer, or after; then it continues by itself."""
        asked = {"iter_sampling": 200, "until_ess": 300, "run": tmp_path / "run"}
        run = Run.begin(setup_of(target, "rwm", **SHORT, **asked))
        lengthen = run.folder.lengthen

        def crashing(*arguments):
            if after:
                lengthen(*arguments)
            raise SystemExit

        run.folder.lengthen = crashing
        with pytest.raises(SystemExit):
            run.finish()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            assert_same(sa.resume(tmp_path / "run"), until_300)

    def test_an_earlier_length_is_kept_when_resumed_with_iterations(self, target, tmp_path):
        """Who says how many wants no others."""
        run = tmp_path / "run"
        first = draw(target, iter_sampling=50, until_ess=60, run=run)
        asked = int(first.attrs["iter_sampling"]) + 10
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            fit = sa.resume(run, iter_sampling=asked)
        assert fit.attrs["iter_sampling"] == asked

    def test_thinned_and_doubled_recordings_grow_too(self, target):
        fit = draw(
            target, iter_sampling=200, until_ess=300, thin=3, save="unconstrained", save_warmup=True
        )
        draws = results.dataset(fit, "posterior").sizes["draw"]
        assert draws == -(-int(fit.attrs["iter_sampling"]) // 3)
        position = results.dataset(fit, "unconstrained_posterior")["position"].values
        assert position.shape == (2, draws, 3)
        np.testing.assert_allclose(position[..., 0], posterior(fit)["x"][..., 0], rtol=1e-12)

    @pytest.mark.thorough
    def test_time_is_limited(self, target):
        """An hour passes once the run is longer than it was meant to be."""
        hours = []

        def seen(progress):
            if progress.draws > 200:
                hours.append(1)

        watch = Watch(target, seen, 50.5, lambda: time.monotonic() + 3600.0 * len(hours))
        fit = draw(target, {"watch": watch}, iter_sampling=200, until_ess=1e12)
        assert fit.attrs["interrupted"] == 0
        assert "50.5 minutes" in fit.attrs["notes"]
        assert "stopped_on_request" in fit.attrs["note_codes"]
        assert results.dataset(fit, "posterior").sizes["draw"] > 200

    def test_a_stop_just_when_a_length_is_reached_is_told(self, target, until_300):
        """But not where the draws were enough."""

        def ended(progress):
            done = all(chain.n_done == chain.n_total for chain in progress.chains)
            return done and not progress.task

        fit = draw(target, iter_sampling=200, until_ess=300, show_progress=ended)
        assert fit.attrs["iter_sampling"] == 200
        assert "stopped_on_request" in fit.attrs["note_codes"]
        assert fit.attrs["interrupted"] == 0
        length = int(until_300.attrs["iter_sampling"])
        fit = draw(target, iter_sampling=length, until_ess=300, show_progress=ended)
        assert "stopped_on_request" not in fit.attrs["note_codes"]

    @pytest.mark.parametrize("limit", [{"until_ess": 0}, {"max_minutes": np.nan}])
    def test_limits_out_of_range(self, target, limit):
        with raises("out_of_range", *limit):
            draw(target, **limit)


class TestWithoutALength:
    """`sample(target)` without iter_sampling."""

    def draw(self, target, sampler, asked=None, default=150, **changes):
        """The default length is 150 iterations, which is too short for most samplers."""
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            length = {"chains": 4, "iter_warmup": None, "iter_sampling": asked}
            setup = setup_of(target, sampler, **{**SHORT, **length, **changes})
            design = setup.design
            plan = design.plan._replace(iter_sampling=default, until_ess=0.0, most_iterations=0)
            plan = with_stopping_rule(plan, None, None, None if asked else design.sampler)
            return Run.begin(setup._replace(design=design._replace(plan=plan))).finish()

    @pytest.mark.parametrize(("sampler", "default"), [("auto", 75), ("gad_hmc", 150)])
    def test_it_draws_on_until_the_fit_can_be_used(self, target, sampler, default):
        fit = self.draw(target, sampler, default=default, seed=1)
        assert "iter_sampling_reason" in fit.attrs
        assert default < fit.attrs["iter_sampling"] <= 4 * default
        assert fit.attrs["verdict"] == "fine"

    @pytest.mark.slow
    @pytest.mark.parametrize("asked", [("auto", 150), ("ula", None), ("smc", None)])
    def test_not_where_the_length_is_given_or_more_would_not_help(self, target, asked):
        assert self.draw(target, *asked, seed=1).attrs["iter_sampling"] == 150

    def test_not_where_it_is_hopeless(self):
        target = sa.Target(MODES)
        inits = [{"x": x} for x in (-30.0, 30.0, -30.0, 30.0)]
        fit = self.draw(target, "auto", inits=inits)
        assert fit.attrs["verdict"] == "do not use"
        assert fit.attrs["iter_sampling"] == 150


class Stub(Chain):
    """A chain that has drawn what it is given."""

    def __init__(self, draws, plan):
        self.plan, self.stopped = plan, False
        self.sampling = type("Drawn", (), {"rows": len(draws), "constrained": draws})()


class TestShortfall:
    """How much longer a run should get."""

    @pytest.fixture
    def plan(self):
        return Plan(
            chains=4, parallel_chains=1, threads_per_chain=1, iter_warmup=0, iter_sampling=1000,
            thin=1, seed=1, save_warmup=False, show_progress=False,
        )  # fmt: skip

    @pytest.fixture
    def missing(self, target, plan):
        def found(draws, until_ess=0.0):
            own = with_stopping_rule(plan, until_ess or None, None, find("nuts")[0])
            return shortfall(target, [Stub(chain, own) for chain in draws])

        return found

    @pytest.fixture
    def draws(self):
        return np.random.default_rng(1).standard_normal((4, 1000, 3)) * [5.0, 1e-3, 2.0]

    def test_independent_draws_suffice(self, missing, draws):
        assert missing(draws)[:2] == (1000, "")

    def test_twice_the_size_takes_twice_the_draws(self, missing, draws):
        """4,000 independent draws, of which some parameter's tails are worth about 3,600."""
        found = missing(draws, until_ess=8000.0)
        assert 2000 <= found.iter_sampling <= 2800
        assert missing(draws, until_ess=1e9).iter_sampling == 3000  # not all at once

    def test_repeated_draws_are_worth_less(self, missing, draws):
        """Of each draw, 13 copies: about 300 effective ones."""
        found = missing(np.repeat(draws[:, :77], 13, axis=1))
        assert 1200 <= found.iter_sampling <= 2500
        few = np.repeat(draws[:, :10], 100, axis=1)  # too few for 4,000
        assert missing(few)[:2] == (1000, "")

    def test_of_many_columns_the_worst_are_measured(self, plan):
        """All that move only where a size of the smallest was asked for; constants never."""
        rng = np.random.default_rng(2)
        columns = {f"x[{i}]": rng.standard_normal((4, 1000)) for i in range(200)}
        columns["x[70]"] = np.repeat(columns["x[70]"][:, :77], 13, axis=1)[:, :1000]
        columns |= {f"one[{i}]": np.ones((4, 1000)) for i in range(100)}

        def measured(until_ess):
            calls = []
            own = with_stopping_rule(plan, until_ess, None, find("nuts")[0])
            found = lacking(own, columns, lambda x: calls.append(1) or mixing(x))
            return found, len(calls)

        (by_default, few), (asked, all_of_them) = measured(None), measured(400.0)
        assert by_default.iter_sampling > 1000
        assert by_default == asked
        assert few < 50 < all_of_them == 200

    def test_chains_that_disagree_a_little_take_more_and_far_apart_are_hopeless(
        self, missing, draws
    ):
        slow = np.repeat(draws, 1, axis=1)
        slow[0, :, 1] += 0.3e-3
        found = missing(slow)
        assert 1200 <= found.iter_sampling <= 4000
        assert any(r_hat in found.reason for r_hat in ("1.01", "1.02"))
        slow[0, :, 1] += 1e-3
        assert missing(slow)[:2] == (1000, "")

    def test_a_chain_that_does_not_move_is_hopeless_but_grows_if_asked(self, missing, draws):
        draws[2] = draws[2, :1]
        assert missing(draws).iter_sampling == 1000
        assert missing(draws, until_ess=400.0).iter_sampling == 3000


@pytest.mark.parametrize(
    ("missing", "stops"),
    [
        ([50.0, 45.0, 50.0], False),  # too early to tell
        ([50.0, 49.0, 60.0, 48.0], True),
        ([50.0, 20.0, 60.0, 48.0], False),
        ([50.0, 20.0, 60.0, 48.0, 19.0], True),
        ([np.inf] * 4, True),  # a chain that does not move
        ([np.inf, np.inf, np.inf, 9.0], False),
    ],
)
def test_whether_a_size_is_out_of_reach(missing, stops):
    assert stopping_rule.is_out_of_reach(missing) is stops


def test_a_size_that_cannot_be_reached_ends_the_run():
    """Two chains stay in two modes."""
    target = sa.Target(MODES)
    asked = {"iter_sampling": 20, "until_ess": 300, "inits": [{"x": -30.0}, {"x": 30.0}]}
    fit = draw(target, **asked, max_minutes=3, standardize=False)
    assert "out_of_reach" in fit.attrs["note_codes"]
    # R-hat of twenty draws may be larger, which looks like progress at first
    assert fit.attrs["iter_sampling"] < 20 * 3 ** (stopping_rule.STALLED_AFTER + 2)


class TestNoDrawIsLost:
    """What may happen between two lengths costs no finished draw."""

    @pytest.fixture
    def asked(self, target):
        return lambda **more: draw(target, iter_sampling=200, until_ess=300, **more)

    def assert_first_200(self, target, fit):
        assert_same(fit, draw(target, iter_sampling=200))

    @pytest.mark.parametrize(
        "error", [StanadaptError("out_of_memory", "planted."), IndexError("planted")], ids=repr
    )
    def test_no_memory_for_more(self, target, asked, monkeypatch, error):
        def refused(*arguments, **named):
            raise error

        monkeypatch.setattr(run_module, "require_memory", refused)
        fit = asked()
        assert "planted." in fit.attrs["notes"]
        assert "not_extended" in fit.attrs["note_codes"]
        self.assert_first_200(target, fit)

    def test_a_disk_that_is_full(self, target, tmp_path):
        def full(chains, reasons):
            with writing(tmp_path / "run"):
                raise OSError(28, "No space left on device")

        asked = {"iter_sampling": 200, "until_ess": 300, "run": tmp_path / "run"}
        run = Run.begin(setup_of(target, "rwm", **SHORT, **asked))
        run.folder.lengthen = full
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            fit = run.finish()
        assert "No space left" in fit.attrs["notes"]
        self.assert_first_200(target, fit)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            assert smallest(sa.resume(tmp_path / "run")) >= 300

    @pytest.mark.parametrize("place", ["shortfall", "say"])
    def test_ctrl_c_between_two_lengths(self, target, asked, monkeypatch, place):
        def pressed(*arguments):
            raise KeyboardInterrupt

        monkeypatch.setattr(run_module, place, pressed)
        fit = asked()
        assert fit.attrs["interrupted"] == 1
        assert_begins_with(fit, draw(target, iter_sampling=200))
        assert results.dataset(fit, "posterior").sizes["draw"] == 200
