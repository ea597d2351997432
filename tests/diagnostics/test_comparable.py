"""compare(): selected variables, fits of other libraries, and equal budgets."""

import numpy as np
import pytest
import xarray as xr

import stanadapt as sa
from stanadapt import results
from stanadapt.diagnostics.verdict import verdict
from tests.helpers import made_up_fits
from tests.helpers.codes import raises


def foreign(seed, posterior=None, stats=None):
    """A fit of another library: draws, perhaps statistics, and no attributes of ours."""
    groups = {"posterior": posterior or made_up_fits.draws(seed)}
    if stats:
        groups["sample_stats"] = stats
    made = results.build(groups, {})
    for name in list(made.attrs):
        del made.attrs[name]
    return made


def with_a_slow_quantity(seed):
    """A generated quantity that mixes badly is not a parameter."""
    walk = np.random.default_rng(seed).standard_normal(made_up_fits.SHAPE).cumsum(axis=1)
    return {**made_up_fits.draws(seed), "y_rep": walk}


def test_only_parameters_are_compared_unless_variables_are_named():
    fit = made_up_fits.fit(1, posterior=with_a_slow_quantity(1))
    assert sa.compare({"a": fit}).loc["a", "ess_bulk_min"] > 500
    named = sa.compare({"a": fit}, var_names=["y_rep"])
    assert named.loc["a", "ess_bulk_min"] < 50
    one = sa.compare({"a": fit}, var_names="y_rep")
    assert one.loc["a", "ess_bulk_min"] == named.loc["a", "ess_bulk_min"]
    fits = {"ours": made_up_fits.fit(1), "theirs": foreign(2, with_a_slow_quantity(2))}
    assert sa.compare(fits).loc["theirs", "ess_bulk_min"] > 500
    alone = sa.compare({"theirs": fits["theirs"]})
    assert alone.loc["theirs", "ess_bulk_min"] < 50


def test_foreign_fits_are_compared_by_what_they_record():
    table = sa.compare({"ours": made_up_fits.fit(1), "theirs": foreign(2)}, baseline="ours")
    row = table.loc["theirs"]
    for column in ("seconds_sampling", "ess_per_second", "gradients", "ess_per_gradient", "failed"):
        assert np.isnan(row[column])
    assert row["ess_bulk_min"] > 500
    assert row["z_mean"] < 5
    assert np.isfinite(table.loc["ours", "ess_per_second"])
    fits = {"ours": made_up_fits.fit(1), "theirs": foreign(2)}
    shared = {name: sa.compare(fits, name).attrs["baseline_is_ours"] for name in fits}
    assert shared == {"ours": True, "theirs": False}
    stats = made_up_fits.statistics()
    stats["diverging"][0, 3] = True
    table = sa.compare({"theirs": foreign(2, stats=stats)})
    assert table.attrs["reasons"]["theirs"][0].code == "divergences"


def test_other_shapes_and_other_variables_are_another_target():
    wide = {**made_up_fits.draws(2), "b": np.random.default_rng(1).normal(size=(4, 250, 3))}
    with raises("different_targets", "b", "(2,)", "ours", "(3,)", "theirs"):
        sa.compare({"ours": made_up_fits.fit(1), "theirs": foreign(2, wide)})
    other = {"q": wide["a"]}
    with raises("different_targets", "a, b, c", "(q)"):
        sa.compare({"ours": made_up_fits.fit(1), "theirs": foreign(2, other)})


def as_dataset(variables):
    """A fit with the layout of the posterior that another library uses."""
    made = foreign(1)
    posterior = xr.Dataset(variables)
    if isinstance(made, getattr(xr, "DataTree", ())):
        made["posterior"] = xr.DataTree(posterior)
    else:
        made.posterior = posterior
    return made


def test_other_orders_of_dimensions_labels_and_constants():
    x = made_up_fits.draws(1)["b"]
    usual = as_dataset({"b": (("chain", "draw", "k"), x)})
    other = as_dataset({"b": (("k", "draw", "chain"), x.T)})
    table = sa.compare({"usual": usual, "other": other})
    numbers = ["chains", "draws", "ess_bulk_min", "ess_tail_min", "r_hat_max", "verdict"]
    assert list(table.loc["usual", numbers]) == list(table.loc["other", numbers])
    x, leading = made_up_fits.draws(1)["a"], ("chain", "draw")
    labels = np.full(x.shape, "x")
    fit = as_dataset({"a": (leading, x), "n": 3.0, "who": (leading, labels)})
    assert sa.compare({"a": fit}).loc["a", "ess_bulk_min"] > 500


@pytest.mark.parametrize(("variables", "fact"), [
    ({"a": (("sample",), np.arange(9.0))}, "sample"), ({"a": ((), 3.0)}, "none"),
    ({"a": (("chain", "draw"), np.ones((4, 0)))}, "0 draws"),
    ({"a": (("chain", "draw"), np.full((4, 9), "x"))}, "9 draws"),
])  # fmt: skip
def test_a_posterior_without_draws(variables, fact):
    fit = as_dataset(variables)
    for call in (verdict, sa.diagnose, lambda fit: sa.compare({"a": fit})):
        with raises("no_numeric_draws", fact):
            call(fit)


def test_budgets_of_seconds_and_gradients():
    """Twice the time for the same draws: half of them at the cost of the cheaper fit."""
    fits = {"fast": made_up_fits.fit(1, seconds=2.0), "slow": made_up_fits.fit(1, seconds=4.0)}
    table = sa.compare(fits, budget="seconds")
    ess = table["ess_bulk_min"]
    assert table.loc["fast", "ess_at_budget"] == pytest.approx(ess["fast"])
    assert table.loc["slow", "ess_at_budget"] == pytest.approx(ess["slow"] / 2)
    (remark,) = table.attrs["budget"]
    assert remark.code == "how_to_read"
    assert " 2 s " in remark
    assert "fast" in remark
    few, many = (made_up_fits.fit(1, gradients=n) for n in (10_000, 30_000))
    table = sa.compare({"few": few, "many": many, "theirs": foreign(3)}, budget="gradients")
    ess = table.loc["many", "ess_bulk_min"]
    assert table.loc["many", "ess_at_budget"] == pytest.approx(ess / 3)
    assert np.isnan(table.loc["theirs", "ess_at_budget"])
    assert "10,000 gradients" in table.attrs["budget"][0]
