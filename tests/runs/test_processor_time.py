"""Processor time of chains: what else the machine does is not in it, and every part of a run is."""

import gc
import time

import numpy as np
import pytest

import stanadapt as sa
from stanadapt import results
from stanadapt.engine import chain as chain_module
from stanadapt.engine.starts import Cost
from stanadapt.engine.warmup import next_block
from stanadapt.runs.coordinates import as_given
from tests.helpers.chains import make_chains
from tests.helpers.driven_runs import sample_with
from tests.helpers.short_runs import NORMAL, SHORT, draw
from tests.helpers.targets import Awkward

SECONDS = 0.1
RATES = 1e-3  # clocks of a processor and of the machine differ by a part in a thousand at most
WARMUP = DRAWS = 4


@pytest.fixture(autouse=True)
def no_garbage_collection():
    """After many tests, one takes longer than what is measured here."""
    gc.collect()
    gc.disable()
    yield
    gc.enable()


def worked():
    end = time.thread_time() + SECONDS
    while time.thread_time() < end:
        pass


def slept():
    time.sleep(SECONDS)


def before(function, does):
    def slower(*arguments):
        does()
        return function(*arguments)

    return slower


def chain_that(does):
    """A chain that works or sleeps before each of its two chunks."""
    (chain,) = make_chains(("rwm", {}), Awkward(), warmup=WARMUP, draws=DRAWS)
    chain.compile()
    chain._advance = before(chain._advance, does)
    return chain


@pytest.mark.parametrize(("does", "share"), [(worked, (1.0, 1.5)), (slept, (0.0, 0.5))])
def test_work_counts_and_waiting_does_not(does, share):
    chain = chain_that(does)
    chain.advance(WARMUP)
    low, high = (s * SECONDS for s in share)
    assert low <= chain.warmup_processor_seconds < high
    assert chain.sampling_processor_seconds == 0.0
    chain.advance(DRAWS)
    assert low <= chain.sampling_processor_seconds < high
    assert min(chain.warmup_seconds, chain.sampling_seconds) >= SECONDS * (1.0 - RATES)


@pytest.mark.parametrize(("does", "share"), [(worked, (0.5, 0.75)), (slept, (0.0, 0.25))])
def test_pooling_is_shared_out_among_chains(does, share):
    chains = make_chains(("pooled_am", {}), Awkward(), n=2, warmup=200)
    sampler = chains[0].sampler
    next_block(chains)  # compiled now
    chains = make_chains(("pooled_am", {}), Awkward(), n=2, warmup=200)
    slower = sampler.warmup._replace(begin=before(sampler.warmup.begin, does))
    chains[0].sampler = sampler._replace(warmup=slower)
    next_block(chains)
    for chain in chains:
        assert share[0] * SECONDS <= chain.warmup_processor_seconds < share[1] * SECONDS
        assert chain.warmup_seconds >= 0.5 * SECONDS * (1.0 - RATES)


def test_it_is_kept_with_a_run(tmp_path):
    fit = draw(sa.Target(NORMAL), run=tmp_path / "run")
    kept = sa.resume(tmp_path / "run")
    for phase in ("warmup", "sampling"):
        spent = np.asarray(results.attribute(kept, f"{phase}_processor_seconds"))
        assert np.all(spent > 0.0)
        np.testing.assert_array_equal(spent, results.attribute(fit, f"{phase}_processor_seconds"))


def test_seconds_of_chains_and_references_are_in_the_result():
    cost = Cost(seconds=3.0, processor_seconds=2.0)
    start = as_given(Awkward(), [np.zeros(2)] * 2, "").after(cost)
    np.testing.assert_array_equal(start.seconds, [[3.0, 2.0], [0.0, 0.0]])
    fit = draw(sa.Target(NORMAL))
    for phase in ("warmup", "sampling"):
        by_clock = np.asarray(results.attribute(fit, f"{phase}_seconds"))
        spent = np.asarray(results.attribute(fit, f"{phase}_processor_seconds"))
        assert spent.shape == (2,)
        assert np.all(spent > 0.0)
        assert np.all(spent <= by_clock * (1.0 + RATES) + 1e-3)


def test_a_run_that_learned_the_scales_counts_as_warmup():
    def long(chains, *arguments, **options):
        interrupted = chain_module.run(chains, *arguments, **options)
        for each in chains:
            if each.sampler.name == "whitened_hmc":  # which learns
                each.warmup_seconds, each.warmup_processor_seconds = 7e3, 5e3
        return interrupted

    fit = sample_with(
        {"run_chains": long}, sa.Target(NORMAL), "mala",
        **{**SHORT, "iter_warmup": 60, "standardize": True},
    )  # fmt: skip
    assert fit.attrs["standardized"] == "diagonal"
    assert np.floor(np.asarray(results.attribute(fit, "warmup_seconds")) / 1e3).tolist() == [7, 7]
    assert np.floor(
        np.asarray(results.attribute(fit, "warmup_processor_seconds")) / 1e3
    ).tolist() == [5, 5]
