"""Tails that draws lack are found by gradients; those of right fits are not called missing."""

import json

import numpy as np
import pytest

import stanadapt as sa
from stanadapt.diagnostics.verdict import judge
from stanadapt.samplers.whitened import missing_tails as module
from stanadapt.samplers.whitened.findings import BLOCK, EXACT, NEARLY
from stanadapt.samplers.whitened.missing_tails import Tail, find_tails, missing_tails, reasons_of
from stanadapt.targets.declared_bounds import declared_bounds
from tests.helpers import funnel_fits
from tests.helpers.gaussian_blocks import LocalLevel


@pytest.fixture(scope="module")
def level():
    return LocalLevel()


@pytest.fixture(scope="module")
def found(level):
    return find_tails(level.target(), level.fit(1))


def test_a_neck_that_draws_lack_is_named_with_its_lines(level):
    """Half of the mass below the 5 % point of s_x is missing: independent draws, and no sign."""
    target, made = level.target(), level.fit(1, least=-1.6)
    assert sa.diagnose(made).verdict == "fine"
    diagnosis = sa.diagnose(made, target)
    assert diagnosis.verdict == "suspect"
    (reason,) = diagnosis.reasons
    assert reason.code == "tail_missing"
    assert "lack small values of s_x" in reason
    assert "Given s_u and s_x, u[1..25] are exactly normal" in reason
    assert "in line 6" in reason
    # nothing is to be rewritten if the draws were made in the coordinates of the block
    made.attrs[BLOCK] = EXACT
    assert "adapt_delta=0.99" in str(sa.diagnose(made, target).reasons[0])
    made.attrs[BLOCK] = NEARLY
    assert "are nearly normal" in str(sa.diagnose(made, target).reasons[0])
    assert "gaussian_block" in diagnosis.codes


def test_a_right_fit_lacks_nothing(level, found):
    # of normal numbers, the smallest of 8 is below -3.5 in one of 500
    for each in (found, find_tails(level.target(), level.fit(2))):
        assert len(each.tails) == 4
        assert min(tail.z for tail in each.tails) > -3.5


def test_the_upper_tail_is_a_tail_too(level):
    whole = level.fit(1)
    few = whole.posterior["s_u"].values.ravel()
    order = np.argsort(few)[: int(0.93 * few.size)]
    order = order[: order.size // 4 * 4].reshape(4, -1)
    order = np.random.default_rng(1).permutation(order.ravel()).reshape(order.shape)
    cut = {
        name: v.values.reshape(few.size, *v.shape[2:])[order]
        for name, v in whole.posterior.data_vars.items()
    }
    reasons = list(missing_tails(level.target(), funnel_fits.foreign(cut)))
    assert [r.message.code for r in reasons] == ["tail_missing"]
    assert "lack large values of s_u" in reasons[0].message


def test_a_fit_keeps_the_reason(level):
    """It was found with the density, which is not there when the fit is judged again."""
    made = level.fit(1, least=-1.6)
    with pytest.warns(match="lack small values of s_x"):
        judge(made, missing_tails(level.target(), made))
    assert made.attrs["verdict"] == "suspect"
    again = sa.diagnose(made)
    assert again.verdict == "suspect"
    assert again.codes == json.loads(made.attrs["verdict_codes"]) == ["tail_missing"]


def test_few_draws_and_other_shapes_claim_nothing_and_one_chain_is_judged(level):
    target = level.target()
    assert find_tails(target, level.fit(1, shape=(4, 50))) is None
    assert find_tails(target, level.fit(1), most=100) is None
    code = "parameters { vector[4] x; } model { x ~ student_t(5, 0, 1); }"
    heavy = sa.Target(code)
    draws = np.random.default_rng(1).standard_t(5, (4, 500, 4))
    assert find_tails(heavy, funnel_fits.foreign({"x": draws})) is None
    assert len(find_tails(level.target(), level.fit(1, shape=(1, 1000))).tails) == 4


@pytest.mark.parametrize(("z", "codes"), [
    ((-2.9, -1.0), []),
    ((-3.9, -1.0), ["tail_doubtful"]),
    ((-4.1, -3.2), ["tail_missing", "tail_doubtful"]),
    ((-3.9, -3.6), ["tail_missing", "tail_missing"]),
])  # fmt: skip
def test_two_tails_support_each_other(level, found, z, codes):
    both = [Tail(hub, "small", one) for hub, one in zip(found.block.hubs, z, strict=True)]
    reasons = reasons_of(level.target(), found._replace(tails=both))
    assert [reason.message.code for reason in reasons] == codes


@pytest.mark.parametrize(("z", "codes"), [
    (-3.3, []), (-3.5, ["tail_doubtful"]), (-4.2, ["tail_doubtful"]), (-4.4, ["tail_missing"]),
])  # fmt: skip
def test_of_many_tails_one_may_be_smaller_by_chance(level, found, z, codes):
    many = [Tail(0, "small", one) for one in (z, *np.zeros(15))]
    reasons = reasons_of(level.target(), found._replace(tails=many))
    assert [reason.message.code for reason in reasons] == codes


def test_the_error_of_draws_in_a_block_is_also_that_of_excursions():
    """Those to a tail last long, while values in it change from draw to draw."""
    rng = np.random.default_rng(1)
    ramp = np.repeat(rng.uniform(size=(4, 20)), 50, axis=1)
    values = rng.normal(-0.1, 1.0, ramp.shape)
    fresh, lasting = (
        module._z(values, each, True) for each in (rng.uniform(size=ramp.shape), ramp)
    )
    assert fresh == pytest.approx(module._z(values, ramp, False), rel=0.2)
    assert fresh < 2.0 * lasting < 0.0


@pytest.mark.slow
@pytest.mark.parametrize("seed", [14, 19])
def test_a_fit_that_lacks_half_of_a_tail_is_not_fine(level, seed):
    """By the exact marginal of both scales; without the test by gradients, such fits are fine."""
    fit = sa.sample(level.target(), seed=seed)
    exact = level.scales(np.random.default_rng(1), (20_000,))
    points = dict(zip(("s_u", "s_x"), np.quantile(np.exp(exact), 0.05, axis=0), strict=True))
    shares = [float((fit.posterior[name] < point).mean()) for name, point in points.items()]
    assert min(shares) > 0.03 or fit.attrs["verdict"] != "fine"


def test_bounds_of_arrays_are_those_of_their_elements():
    """Stan lists array[2, 3] with the first index fastest, and stores it the other way around."""
    code = "data { array[2, 3] real u; } parameters { array[2, 3] real<lower=-1, upper=u> r; } "
    u = [[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]]
    target = sa.Target(code + "model {}", {"u": u})
    widths = declared_bounds(target)[:, 3]
    assert widths == pytest.approx([2.0, 3.0, 4.0, 5.0, 6.0, 7.0])


@pytest.fixture
def lasting(monkeypatch):
    """Whether each error that is computed is that of excursions, too."""
    seen, z = set(), module._z
    monkeypatch.setattr(module, "_z", lambda v, r, given: seen.add(given) or z(v, r, given))
    return seen


def test_the_error_of_a_foreign_fit_with_few_hubs_is_that_of_values(level, lasting):
    assert find_tails(level.target(), level.fit(1))
    assert lasting == {False}


def test_blocks_of_many_hubs_and_of_loadings_are_found_in_any_fit(lasting):
    """A factor model with loadings that have no bounds, but for one; draws are of anything."""
    rng = np.random.default_rng(1)
    size = (4, 300)
    k, n = 3, 8
    y = rng.standard_normal((k, n))
    code = f"""data {{ matrix[{k}, {n}] Y; }} parameters {{
      vector<lower=0>[{k}] s; real<lower=0> l1; vector[{k - 1}] l; vector[{n}] f; }}
    model {{ s ~ normal(0, 1); l1 ~ normal(0, 1); l ~ normal(0, 1); f ~ normal(0, 1);
      Y[1] ~ normal(l1 * f, s[1]);
      for (j in 2:{k}) Y[j] ~ normal(l[j - 1] * f, s[j]); }}"""
    draws = {
        "s": rng.uniform(0.3, 2.0, (*size, k)), "l1": rng.uniform(0.3, 1.5, size),
        "l": rng.normal(0.5, 0.5, (*size, k - 1)), "f": rng.standard_normal((*size, n)),
    }  # fmt: skip
    target = sa.Target(code, {"Y": y}, backend="stanli")
    found = find_tails(target, funnel_fits.foreign(draws))
    assert (len(found.block.hubs), len(found.block.block)) == (2 * k, n)
    assert lasting == {True}
    heavy = sa.Target(code.replace("f ~ normal(0, 1)", "f ~ student_t(4, 0, 1)"), {"Y": y})
    assert find_tails(heavy, funnel_fits.foreign(draws)) is None


@pytest.mark.parametrize(
    ("lasting", "size"), [(False, 4000.0), (True, np.sqrt(4000.0 * 4000 / 19))]
)
def test_the_size_of_draws_in_coordinates_of_the_block_is_between_two(lasting, size):
    """Independent values, and a ramp with correlation .9: of 4000 (1 - .9) / (1 + .9) draws."""
    rng = np.random.default_rng(1)
    values, ramp = 0.1 + rng.normal(size=(4, 1000)), rng.normal(size=(4, 1000))
    for t in range(1, 1000):
        ramp[:, t] = 0.9 * ramp[:, t - 1] + np.sqrt(0.19) * ramp[:, t]
    z = module._z(values, ramp, lasting)
    assert z == pytest.approx(values.mean() / values.std() * np.sqrt(size), rel=0.15)


def test_a_product_of_two_parameters_is_no_block():
    """Given one of them, the other alone is left: too few for the places that show a block."""
    program = """
    parameters { real<lower=0> s; real a; real b; }
    model { s ~ normal(0, 1); a ~ normal(0, 1); b ~ normal(0, 1); 1 ~ normal(a * b, s); }
    """
    target = sa.Target(program, backend="stanli", show_progress=False)
    x = np.random.default_rng(1).normal(size=(50, 3))
    bounds, gradients = declared_bounds(target), target.evaluate_rows(x)[1]
    assert module._search_further(target, x, gradients, bounds, None, 1000) is None
