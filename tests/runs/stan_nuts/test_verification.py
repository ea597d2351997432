"""verify(): our density against lp__, on constructed draws with and without faults."""

import copy
import re

import numpy as np
import pytest

import stanadapt as sa
from stanadapt.errors import StanadaptError
from stanadapt.runs.stan_nuts import verification
from stanadapt.runs.stan_nuts.verification import verify
from tests.helpers.made_up_draws import (
    FAULTS,
    check,
    faulty,
    positions,
    prior,
    small_target,
    written,
)
from tests.helpers.seldom_parameters import slow_except


@pytest.fixture(scope="module")
def target():
    return small_target()


def test_equal_densities_and_those_of_one_release(target):
    """Coordinates below 2 are read back to 4e-16; lp below 300 and its slope lose 1e-12 at most."""
    found = check(target)
    assert found == check(target)  # of the same draws every time
    assert found.verdict == "equal"
    assert found.draws == 200
    assert found.difference < 1e-12
    assert found.summary.code == "density_equal"
    assert "2.27.0" in found.summary
    assert (found.wrong, found.left_out) == (0, 0)
    assert "verified" in check(target).summary
    target = copy.copy(target)
    target.backend_version = "CmdStan 2.27.0"
    found = check(target)
    assert found.verdict == "equal"
    assert "verified" not in found.summary
    assert "does not reveal" in found.summary
    target.density_check = "agrees with stanli 1.0 at 3 points"
    assert "agrees with stanli 1.0 at 3 points" in check(target).summary


@pytest.mark.parametrize("offset", [-1e-3, 1.0, 1234.5, -1e5])
def test_a_constant_is_allowed(target, offset):
    """Adding 1e5 rounds lp to 1.5e-11, far below 1e-8 of lp."""
    assert check(target, offset=offset).verdict == "equal"


def test_errors_are_judged_by_the_size_of_lp(target):
    """If chains are still in a far tail, lp__ can be -1e100; a wrong density still differs."""
    theirs = faulty(target, lambda x, value: 1e100 * value)
    ours = faulty(target, lambda x, value: 1e100 * value * (1 + 1e-14 * np.cos(x[0])))
    assert check(ours, theirs).verdict == "equal"
    wrong = faulty(target, lambda x, value: 1e100 * value * (1 + 1e-11 * np.cos(x[0])))
    assert check(wrong, theirs).verdict == "differs"
    # an error of 2 in 1e6 is 2e-6 of lp, but changes the weights of draws by exp(2)
    large = faulty(target, lambda x, value: value - 1e6)
    tilted = faulty(target, lambda x, value: value - 1e6 + x[0])
    assert check(large, target, offset=-1e6).verdict == "equal"
    found = check(tilted, target, offset=-1e6)
    assert found.verdict == "differs"
    assert found.difference < 1e-5


def test_columns_are_found_by_name(target):
    names, draws, lp = written(target, positions(target))
    shuffled = np.concatenate([np.full((*lp.shape, 1), np.nan), draws[..., ::-1]], axis=-1)
    assert verify(target, ["twice", *names[::-1]], shuffled, lp, "2.27.0").verdict == "equal"
    require_unchecked("incomparable_density", "sigma", target, names[:1], draws[..., :1], lp)


def test_draws_are_spread_and_still_ones_counted_once(target):
    seen = verification._select(written(target, positions(target, 2000))[2])
    chains, iterations = np.array(seen).T
    assert len(set(seen)) == 200
    assert (seen[0], seen[-1]) == ((0, 0), (1, 999))
    assert 95 <= np.sum(chains == 0) <= 105
    for chain in (0, 1):
        assert np.diff(iterations[chains == chain]).max() <= 11
        assert iterations[chains == chain].min() <= 10
        assert iterations[chains == chain].max() >= 989
    names, draws, lp = written(target, positions(target, 40))
    for few in (0, 1):
        at = draws[:1, :few], lp[:1, :few]
        require_unchecked("few_comparable_draws", f"{few} ", target, names, *at)
    same = np.zeros((2, 20), int), np.zeros((2, 20), int)
    require_unchecked("few_comparable_draws", "1 ", target, names, draws[same], lp[same])
    no_lp = np.full_like(lp, np.nan)
    require_unchecked("few_comparable_draws", "0 ", target, names, draws, no_lp)
    names, draws, lp = written(target, positions(target, 40))
    draws[1], lp[1] = draws[1, 0], lp[1, 0]
    assert verify(target, names, draws, lp, "2.27.0").draws == 21


@pytest.mark.thorough
@pytest.mark.parametrize("name", slow_except([*FAULTS][2:6], FAULTS))
def test_a_wrong_density_differs(target, name):
    found = check(faulty(target, FAULTS[name]), target)
    assert found.verdict == "differs"
    assert found.draws == 200
    assert found.difference > 1e-3
    assert found.summary.code == "density_differs"
    assert found.wrong > 0
    assert re.search(r"chain [12], draw \d+", found.summary)


def test_small_errors_are_close_or_wrong_by_their_size(target):
    """It exceeds 0.1 for a log density from -300 to -5, but not for a log prior of -2.6."""
    found = check(faulty(target, lambda x, value: 1.001 * value), target)
    assert found.verdict == "differs"
    assert found.difference < 1e-3
    found = check(faulty(target, lambda x, value: value + 1e-3 * prior(x)), target)
    assert found.verdict == "close"
    assert found.difference > 1e-6
    # A wobble of 1e-4 where |lp| is between 5 and 300
    found = check(faulty(target, lambda x, value: value + 1e-4 * np.sin(9 * x[0])), target)
    assert found.verdict == "close"
    assert 2e-7 < found.difference < 1e-3
    assert found.summary.code == "density_close"
    assert found.draws == 200


def test_constants_are_those_of_right_and_precise_draws(target):
    """A third of the draws are wrong by one; the others agree on the constant."""
    found = check(faulty(target, lambda x, value: value + (x[0] > 0.7)), target)
    lp = written(target, positions(target))[2]
    assert found.verdict == "differs"
    assert found.difference >= 1 / np.abs(lp).max()
    wrong = np.mean(positions(target)[..., 0] > 0.7)
    assert found.wrong == pytest.approx(200 * wrong, abs=15)
    # most draws have lost digits, so the median of all would be wrong by their loss
    target = hard("real<upper=3> x;")
    at = positions(target)
    at[:, 30:, 1] = np.random.default_rng(1).uniform(29, 31, (2, 120))
    assert check(target, at=at).verdict == "equal"


def test_wrong_draws_and_messages_are_located(target):
    at = positions(target, 200)
    bad = at[1, 41]
    wrong = faulty(target, lambda x, v: v + 0.5 * np.allclose(x, bad, atol=1e-9))
    found = check(wrong, target, at)
    assert found.verdict == "differs"
    assert (found.wrong, found.draws) == (1, 200)
    assert "0.5 " in found.summary
    assert "chain 2, draw 42" in found.summary
    lp = target.evaluate(bad)[0]
    assert found.difference == pytest.approx(0.5 / max(1, abs(lp)), rel=1e-6)
    found = check(faulty(target, FAULTS["minus infinity at some"]), target)
    assert np.isinf(found.difference)
    assert "-inf" in found.summary
    assert "lp__" in found.summary
    assert found.stan == "Exception: it went wrong."


# whether a position of 30 or -30 loses digits
HARD = {
    "real<lower=0> x;": False,
    "real<lower=0, upper=1> x;": True,
    "vector<lower=-1e6, upper=1>[2] x;": True,
    "real<upper=3> x;": True,
    "real<offset=3, multiplier=2> x;": False,
    "simplex[4] x;": False,  # but in stick-breaking, below
    "ordered[3] x;": True,
    "positive_ordered[3] x;": True,
    "corr_matrix[3] x;": True,
    "cholesky_factor_corr[3] x;": True,
    "cov_matrix[3] x;": True,
    "cholesky_factor_cov[3] x;": False,
}


def hard(declaration):
    """A density of every element; the first parameter, unconstrained, loses nothing."""
    flat = "to_array_1d(x)" if "[" in declaration else "x"
    return sa.Target(
        f"parameters {{ real free; {declaration} }}\n"
        f"model {{ free ~ normal(0, 1); {flat} ~ student_t(3, 0.4, 2); }}"
    )


def extreme(target, seed=2):
    """Positions of finite density; in half of them, one coordinate is at or near -30 or 30."""
    at, rng = positions(target, seed=seed), np.random.default_rng(seed)
    for x in at.reshape(-1, target.dim):
        before, j = x.copy(), rng.integers(1, target.dim)
        if rng.random() < 0.5:
            x[j] = rng.choice([-30.0, 30.0])
            while not np.isfinite(target.evaluate(x)[0]):
                x[j] *= 0.8
        assert abs(x[j]) > 5 or x[j] == before[j]
    return at


def largest_loss(target, at):
    """Return the largest error of the density at positions read back; inf if this fails."""
    losses = []
    for x in at.reshape(-1, target.dim):
        try:
            back = target.unconstrain(target.constrain(x))
        except StanadaptError:
            return np.inf
        losses.append(abs(target.evaluate(back)[0] - target.evaluate(x)[0]))
    return np.inf if np.isnan(losses).any() else max(losses)


@pytest.mark.slow
@pytest.mark.parametrize(("declaration", "loses"), HARD.items())
def test_lost_digits_are_accepted_and_faults_are_not(declaration, loses):
    """Types that lose digits would fail without the allowance, as their loss exceeds 1e-5."""
    target = hard(declaration)
    at = extreme(target)
    assert (largest_loss(target, at) > 1e-5) == loses
    found = check(target, at=at)
    assert found.verdict == "equal", found.summary
    assert found.draws >= 140
    for fault in (lambda x, v: v + 0.2 * x[0], lambda x, v: -np.inf if x[0] > 1.5 else v):
        wrong = check(faulty(target, fault), target, at)
        assert wrong.verdict == "differs"
        assert wrong.draws >= 80


def stick_breaking(y):
    """Stan's transform until 2.36: simplex and log Jacobian, in the order of its operations."""
    rest, log_jacobian, p = 1.0, 0.0, []
    for k, one in enumerate(y):
        x = one - np.log(y.size - k)
        z = 1 / (1 + np.exp(-x))
        log_jacobian += np.log(rest) - np.logaddexp(0, -x) - np.logaddexp(0, x)
        p.append(rest * z)
        rest -= p[-1]
    return np.array([*p, rest]), log_jacobian


@pytest.mark.thorough
@pytest.mark.parametrize("alpha", [0.2, 1.0, 7.0])
@pytest.mark.parametrize(
    "declaration", slow_except(["array[1] simplex[3] p"], ["simplex[3] p", "array[1] simplex[3] p"])
)
def test_a_simplex_in_the_transform_of_older_releases(alpha, declaration):
    """Log Jacobians of both transforms differ by a constant, for every alpha."""
    name = "p[1]" if "array" in declaration else "p"
    target = sa.Target(
        f"parameters {{ {declaration}; }} model {{ {name} ~ dirichlet(rep_vector({alpha}, 3)); }}"
    )
    rng, rows, lp = np.random.default_rng(4), [], []
    while len(lp) < 400:
        p, log_jacobian = stick_breaking(rng.uniform(-15, 15, 2) / max(alpha, 0.7))
        if p.min() > 0:
            rows.append(p)
            lp.append((alpha - 1) * np.log(p).sum() + log_jacobian)
    rows, lp = np.array(rows).reshape(2, 200, 3), np.array(lp).reshape(2, 200)
    found = verify(target, target.model.param_names(), rows, lp, "2.27.0")
    assert found.verdict == "equal", found.summary
    assert found.draws > 150
    assert verify(target, target.model.param_names(), rows, 1.1 * lp, "2.27.0").verdict == "differs"


def test_draws_on_a_boundary_are_left_out_and_counted():
    target = hard("real<lower=0, upper=1> x;")
    names, draws, lp = written(target, positions(target, 200))
    draws[0, :7, 1] = 1.0
    draws[1, :3, 1] = np.nan
    found = verify(target, names, draws, lp, "2.27.0")
    assert (found.verdict, found.draws) == ("equal", 190)
    assert found.left_out == 10
    assert "10" in found.summary
    target = hard("real<lower=0, upper=1> x;")
    names, draws, lp = written(target, positions(target, 40))
    draws[..., 1] = 0.0
    found = require_unchecked("few_comparable_draws", "40 of 40", target, names, draws, lp)
    assert found.left_out == 40


def test_draws_that_agree_are_counted_despite_rounding(target, monkeypatch):
    """If no draw can be read back exactly, draws with equal densities still count."""
    monkeypatch.setattr(verification, "_rounding", lambda *_: np.inf)
    at = positions(target, 200)
    wrong = faulty(target, lambda x, v: v + 0.5 * np.allclose(x, at[1, 41], atol=1e-9))
    found = check(wrong, target, at)
    assert (found.verdict, found.draws, found.left_out) == ("equal", 199, 1)


def require_unchecked(code, fact, target, names, draws, lp):
    found = verify(target, names, draws, lp, "2.27.0")
    assert (found.verdict, found.draws) == ("not checked", 0)
    assert np.isnan(found.difference)
    assert found.summary.code == code
    assert "2.27.0" in found.summary
    assert fact in found.summary
    return found


@pytest.mark.parametrize(
    ("code", "fact"),
    [
        # draws record its direction only, but lp__ includes -r^2 / 2 for the length r
        ("parameters { unit_vector[3] u; real x; } model { x ~ normal(0, 1); }", "unit_vector"),
        (
            "transformed data { real m = normal_rng(0, 1); }\n"
            "parameters { real x; } model { x ~ normal(m, 1); }",
            "transformed data",
        ),
    ],
)
def test_densities_that_cannot_be_compared(code, fact):
    target = sa.Target(code)
    draws = written(target, positions(target))
    require_unchecked("incomparable_density", fact, target, *draws)
