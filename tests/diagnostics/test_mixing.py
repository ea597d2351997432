"""R-hat and effective sample sizes of columns, which are cached by their contents."""

import sys

import numpy as np
import pytest

import stanadapt as sa
from stanadapt.diagnostics import mixing as module
from stanadapt.diagnostics.mixing import LONG, TAILS, Mixing, measure_mixing, mixing
from stanadapt.results import arviz_module
from stanadapt.targets.stan import bundled


@pytest.fixture
def computed(monkeypatch):
    """The columns that were computed, starting with an empty cache."""
    seen, real = [], module._compute
    monkeypatch.setattr(module, "_cache", {})
    monkeypatch.setattr(module, "_compute", lambda draws: seen.append(draws) or real(draws))
    return seen


def draws(chains=4, length=200, seed=1):
    steps = np.random.default_rng(seed).standard_normal((chains, length))
    return np.cumsum(steps, axis=1) * 1e-3 + np.cumsum(np.ones(length)) * 1e-5


def test_it_agrees_with_arviz():
    arviz, x = arviz_module(), draws()
    expected = (
        arviz.rhat(x), arviz.ess(x, method="bulk"), arviz.ess(x, method="tail", prob=TAILS),
    )  # fmt: skip
    assert mixing(x) == pytest.approx(tuple(map(float, expected)), rel=1e-12)
    assert len({f"{value:.3g}" for value in mixing(x)}) == 3
    assert np.isnan(mixing(x[:1]).r_hat)
    assert mixing(x[:1]).ess_bulk > 0


def test_the_same_draws_are_computed_once(computed):
    x = draws()
    assert mixing(x) == mixing(x.copy()) == mixing(np.asfortranarray(x))
    assert len(computed) == 1


def test_other_draws_are_computed_again(computed):
    x = draws()
    first = mixing(x)
    assert mixing(x.reshape(2, -1)) != first  # the same numbers in the same order
    x[3, -1] += 1.0
    mixing(x)
    assert len(computed) == 3


def test_the_cache_does_not_grow_without_limit(computed, monkeypatch):
    monkeypatch.setattr(module, "CACHED", 3)
    several = {f"x[{seed}]": draws(length=20, seed=seed) for seed in range(5)}
    measure_mixing(several)
    assert len(module._cache) == 3
    mixing(several["x[4]"])
    assert len(computed) == 5
    mixing(several["x[0]"])
    assert len(computed) == 6


@pytest.mark.thorough
def test_threads_may_add_columns_while_the_oldest_are_removed(computed, monkeypatch):
    """Looking up the oldest entry while others are added may fail without a lock."""
    monkeypatch.setattr(module, "CACHED", 5)
    monkeypatch.setattr(module, "LONG", 1)
    monkeypatch.setattr(module, "_compute", lambda draws: Mixing(1.0, draws[0, 0], 1.0))
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        result = measure_mixing({str(i): np.full((4, 4), float(i)) for i in range(20_000)})
    finally:
        sys.setswitchinterval(before)
    assert [mixed.ess_bulk for mixed in result.values()] == list(range(20_000))
    assert len(module._cache) == 5


def test_long_columns_in_threads_are_those_of_one_after_the_other(computed):
    several = {f"x[{seed}]": draws(length=LONG // 4, seed=seed) for seed in range(3)}
    alone = {name: module._compute(x) for name, x in several.items()}
    assert measure_mixing(several) == alone
    assert list(measure_mixing(several)) == list(several)


def test_the_verdict_of_a_run_uses_the_cache_of_the_run(computed):
    target = sa.Target(*bundled.find("logistic", "ripley"), show_progress=False)
    fit = sa.sample(target, chains=4, seed=1, show_progress=False)
    assert fit.attrs["verdict"] == "fine"
    assert len(computed) == target.dim
