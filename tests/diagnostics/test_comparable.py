"""What compare takes: which variables count, fits of other libraries, equal budgets."""

import numpy as np
import pytest
import xarray as xr

import stanadapt as sa
from stanadapt import results
from stanadapt.diagnostics.verdict import verdict
from stanadapt.errors import StanadaptError
from tests.helpers import made_up_fits


def foreign(seed, posterior=None, stats=None):
    """A fit of another library: draws, perhaps statistics, and no attributes of ours."""
    groups = {"posterior": posterior or made_up_fits.draws(seed)}
    if stats:
        groups["sample_stats"] = stats
    made = results.build(groups, {})
    for name in list(made.attrs):
        del made.attrs[name]
    return made


def refused(fits, **options):
    with pytest.raises(StanadaptError) as caught:
        sa.compare(fits, show=False, **options)
    assert caught.value.stage == "settings"
    return caught.value.message


def with_a_slow_quantity(seed):
    """A generated quantity that mixes badly is not a parameter."""
    walk = np.random.default_rng(seed).standard_normal(made_up_fits.SHAPE).cumsum(axis=1)
    return {**made_up_fits.draws(seed), "y_rep": walk}


def test_parameters_alone_count_unless_variables_are_named():
    fit = made_up_fits.fit(1, posterior=with_a_slow_quantity(1))
    assert sa.compare({"a": fit}, show=False).loc["a", "ess_bulk_min"] > 500
    named = sa.compare({"a": fit}, show=False, var_names=["y_rep"])
    assert named.loc["a", "ess_bulk_min"] < 50
    one = sa.compare({"a": fit}, show=False, var_names="y_rep")
    assert one.loc["a", "ess_bulk_min"] == named.loc["a", "ess_bulk_min"]


def test_a_variable_that_no_fit_has():
    assert "'q'; there are a, b, c" in refused({"a": made_up_fits.fit(1)}, var_names=["a", "q"])
    assert "at least one variable; there are a" in refused({"a": made_up_fits.fit(1)}, var_names=[])


def test_what_a_foreign_fit_does_not_record_is_not_invented():
    table = sa.compare({"ours": made_up_fits.fit(1), "theirs": foreign(2)}, baseline="ours",
                       show=False)  # fmt: skip
    row = table.loc["theirs"]
    for column in ("seconds_sampling", "ess_per_second", "gradients", "ess_per_gradient", "failed"):
        assert np.isnan(row[column])
    assert row["ess_bulk_min"] > 500
    assert row["z_mean"] < 5
    assert np.isfinite(table.loc["ours", "ess_per_second"])


def test_the_parameters_of_our_fit_count_for_a_foreign_one():
    fits = {"ours": made_up_fits.fit(1), "theirs": foreign(2, with_a_slow_quantity(2))}
    assert sa.compare(fits, show=False).loc["theirs", "ess_bulk_min"] > 500
    alone = sa.compare({"theirs": fits["theirs"]}, show=False)
    assert alone.loc["theirs", "ess_bulk_min"] < 50


def test_a_foreign_baseline_does_not_share_our_density():
    fits = {"ours": made_up_fits.fit(1), "theirs": foreign(2)}
    shared = {name: sa.compare(fits, name, show=False).attrs["baseline_is_ours"] for name in fits}
    assert shared == {"ours": True, "theirs": False}


def test_divergences_of_a_foreign_fit_are_told():
    stats = made_up_fits.statistics()
    stats["diverging"][0, 3] = True
    table = sa.compare({"theirs": foreign(2, stats=stats)}, show=False)
    assert "diverged" in table.attrs["reasons"]["theirs"][0]


def test_other_shapes_and_other_variables_are_another_target():
    wide = {**made_up_fits.draws(2), "b": np.random.default_rng(1).normal(size=(4, 250, 3))}
    message = refused({"ours": made_up_fits.fit(1), "theirs": foreign(2, wide)})
    assert "b has shape (2,) in ours and (3,) in theirs" in message
    other = {"q": wide["a"]}
    message = refused({"ours": made_up_fits.fit(1), "theirs": foreign(2, other)})
    assert "no variable in common" in message


def as_dataset(variables):
    """A fit whose posterior is laid out as another library does it."""
    made = foreign(1)
    posterior = xr.Dataset(variables)
    if isinstance(made, getattr(xr, "DataTree", ())):
        made["posterior"] = xr.DataTree(posterior)
    else:
        made.posterior = posterior
    return made


def test_other_orders_of_dimensions_are_read_alike():
    x = made_up_fits.draws(1)["b"]
    usual = as_dataset({"b": (("chain", "draw", "k"), x)})
    other = as_dataset({"b": (("k", "draw", "chain"), x.T)})
    table = sa.compare({"usual": usual, "other": other}, show=False)
    numbers = ["chains", "draws", "ess_bulk_min", "ess_tail_min", "r_hat_max", "verdict"]
    assert list(table.loc["usual", numbers]) == list(table.loc["other", numbers])


def test_labels_and_constants_are_left_out():
    x, leading = made_up_fits.draws(1)["a"], ("chain", "draw")
    labels = np.full(x.shape, "x")
    fit = as_dataset({"a": (leading, x), "n": 3.0, "who": (leading, labels)})
    assert sa.compare({"a": fit}, show=False).loc["a", "ess_bulk_min"] > 500


@pytest.mark.parametrize(
    ("variables", "words"),
    [
        ({"a": (("sample",), np.arange(9.0))}, "those of its posterior are sample"),
        ({"a": ((), 3.0)}, "those of its posterior are none"),
        ({"a": (("chain", "draw"), np.ones((4, 0)))}, "4 chains of 0 draws with a"),
        ({"a": (("chain", "draw"), np.full((4, 9), "x"))}, "no draws of numbers"),
    ],
)
def test_a_posterior_without_draws(variables, words):
    fit = as_dataset(variables)
    assert words in refused({"a": fit})
    for judge in (verdict, sa.diagnose):
        with pytest.raises(StanadaptError, match=words):
            judge(fit)


def test_an_equal_budget_of_seconds():
    """Twice the time for the same draws: half of them at the cost of the cheaper fit."""
    fits = {"fast": made_up_fits.fit(1, seconds=2.0), "slow": made_up_fits.fit(1, seconds=4.0)}
    table = sa.compare(fits, show=False, budget="seconds")
    ess = table["ess_bulk_min"]
    assert table.loc["fast", "ess_at_budget"] == pytest.approx(ess["fast"])
    assert table.loc["slow", "ess_at_budget"] == pytest.approx(ess["slow"] / 2)
    (remark,) = table.attrs["budget"]
    assert "bulk ESS in 2 s of one core" in remark
    assert remark.endswith("the cost of fast, the cheapest.")


def test_an_equal_budget_of_gradients_leaves_out_fits_that_record_none():
    fits = {
        "few": made_up_fits.fit(1, gradients=10_000), "many": made_up_fits.fit(2, gradients=30_000),
        "theirs": foreign(3),
    }  # fmt: skip
    table = sa.compare(fits, show=False, budget="gradients")
    assert table.loc["many", "ess_at_budget"] == pytest.approx(
        table.loc["many", "ess_bulk_min"] / 3
    )
    assert np.isnan(table.loc["theirs", "ess_at_budget"])
    assert "bulk ESS in 10,000 gradients" in table.attrs["budget"][0]


def test_budgets_that_cannot_be_had():
    assert "seconds or gradients" in refused({"a": made_up_fits.fit(1)}, budget="draws")
    assert "no fit records its seconds" in refused({"a": foreign(1)}, budget="seconds")
