"""Summaries of fits: numbers against ArviZ's and exact ones, order, and the printed table."""

import copy

import arviz as az
import numpy as np
import pandas as pd
import pytest

import stanadapt as sa
from stanadapt import results
from stanadapt.cli.signature import read_names
from stanadapt.diagnostics import summary as summaries
from stanadapt.diagnostics.summary import LEVELS, MIXING, first_rows, kinds
from tests.helpers.codes import raises

CHAINS, DRAWS = 4, 500


@pytest.fixture(scope="module")
def fit():
    """A fit whose variables have scales from 1e-9 to 1e6; generated quantities come first."""
    rng = np.random.default_rng(1)
    shape = (CHAINS, DRAWS)
    posterior = {
        "y": rng.gamma(2.0, 1e6, shape),
        "constant": np.full(shape, 7.0),
        "failed": np.where(np.arange(DRAWS) == 3, np.nan, rng.normal(size=shape)),
        "beta": rng.normal([1e3, -2.0], [10.0, 0.1], (*shape, 2)),
        "z": rng.normal(np.arange(12), 1e-9, (*shape, 12)),
        "s": rng.exponential(1e-9, shape),
    }
    return results.build({"posterior": posterior}, {"parameters": ["s", "beta", "z"]})


def test_order_of_rows_and_what_cannot_be_computed(fit):
    names = list(sa.summary(fit).index)
    arrays = ["beta[1]", "beta[2]", *(f"z[{i}]" for i in range(1, 13))]
    assert names == ["s", *arrays, "y", "constant", "failed"]
    table = sa.summary(fit)
    assert list(table.loc["constant", ["mean", "sd", "q5", "q95"]]) == [7.0, 0.0, 7.0, 7.0]
    assert table.loc["constant", [*MIXING]].isna().all()
    assert table.loc["failed"].isna().all()
    assert np.isfinite(table.drop(["constant", "failed"])).all(axis=None)
    alone = results.build({"posterior": {"x": np.random.default_rng(2).normal(size=(1, 99))}}, {})
    assert list(sa.summary(alone).columns[sa.summary(alone).isna().all()]) == ["r_hat"]


@pytest.mark.parametrize("name", ["s", "beta", "y"])
def test_numbers_are_those_of_arviz_and_numpy(fit, name):
    table, draws = sa.summary(fit, name), fit.posterior[name].values.reshape(CHAINS, DRAWS, -1)
    for i, (_, row) in enumerate(table.iterrows()):
        x = draws[..., i]
        expected = {
            "mean": x.mean(), "sd": x.std(ddof=1), "median": np.median(x),
            "q5": np.quantile(x, 0.05), "q95": np.quantile(x, 0.95),
            "mcse_mean": az.mcse(x, method="mean"), "ess_bulk": az.ess(x, method="bulk"),
            "ess_tail": az.ess(x, method="tail", prob=(0.05, 0.95)), "r_hat": az.rhat(x),
        }  # fmt: skip
        for column, value in expected.items():
            assert row[column] == pytest.approx(float(value), rel=1e-9), column
    # of independent draws: sd / sqrt(2 n) for a normal variable, to the error of its ESS
    if name == "beta":
        exact = table["sd"] / np.sqrt(2 * CHAINS * DRAWS)
        assert table["mcse_sd"].to_numpy() == pytest.approx(exact.to_numpy(), rel=0.3)


def test_long_arrays_are_a_line_with_the_worst_diagnostics(fit):
    printed = repr(sa.summary(fit)).splitlines()
    assert [line.split()[0] for line in printed[1:]] == [
        "s", "beta[1]", "beta[2]", "z[1..12]", "y", "constant", "failed",
    ]  # fmt: skip
    assert len(repr(sa.summary(fit, ["z"])).splitlines()) == 13
    html = sa.summary(fit)._repr_html_()
    assert html.count("<tr>") == 8
    assert "z[1..12]" in html
    table = sa.summary(fit, "z")
    table.attrs.clear()
    (name,), shown = summaries.cells(table)
    low, high = shown["mean"][0].split(" .. ")
    assert name == "z[1..12]"
    assert (float(low), float(high)) == pytest.approx((0.0, 11.0), abs=1e-9)
    assert shown["bulk ESS"] == [f"{table['ess_bulk'].min():,.0f}"]
    assert shown["R-hat"] == [f"{table['r_hat'].max():.3f}"]


def test_digits_are_those_that_the_draws_determine(fit):
    names, shown = summaries.cells(sa.summary(fit))
    means = dict(zip(names, shown["mean"], strict=True))
    # standard errors: 10 / sqrt(2000) = 0.22, 0.1 / sqrt(2000) = 0.0022, 1.4e6 / sqrt(2000) = 3e4
    assert len(means["beta[1]"].partition(".")[2]) == 1
    assert len(means["beta[2]"].partition(".")[2]) == 3
    assert means["y"].count("e+06") == 1
    assert len(means["y"]) == len("2.00e+06")
    assert means["constant"] == "7"
    assert means["failed"] == ""


def test_parts_of_a_table_have_whole_rows(fit):
    part, others = first_rows(fit, 4)
    assert list(part.index) == ["s", "beta[1]", "beta[2]", "z[1]"]
    assert others == len(sa.summary(fit)) - 4
    assert part.equals(sa.summary(fit).iloc[:4])
    part, _ = first_rows(fit, 13)
    assert "z[10]" in repr(part)  # a part of z is not called z[1..10]
    table, others = summaries.whole_variables(fit, 10)
    assert list(table.index) == ["s", "beta[1]", "beta[2]", "y", "constant", "failed"]
    assert others == 12
    assert "z[1..12]" in repr(summaries.whole_variables(fit, 18)[0])


def test_elements_are_asked_for_by_name(fit):
    assert list(sa.summary(fit, ["beta[2]", "s"]).index) == ["s", "beta[2]"]
    assert read_names("b[1,2],s beta[2]") == ["b[1,2]", "s", "beta[2]"]
    with raises("unknown_variable", "bet", "beta"):
        sa.summary(fit, "bet")
    with raises("unknown_variable", 'fit["sample_stats"]["lp"]'):
        sa.summary(fit, ["lp__"])
    with raises("not_a_name"):
        sa.summary(fit, [1])
    with raises("not_a_fit"):
        sa.summary({"x": 1})


def test_other_quantiles_can_be_asked_for(fit):
    table = sa.summary(fit, "beta", probabilities=[0.025, 0.5, 0.975])
    assert list(table)[:6] == ["mean", "sd", "q2.5", "median", "q97.5", "mcse_mean"]
    low, high = np.quantile(fit.posterior["beta"].values[..., 1], [0.025, 0.975])
    assert table.loc["beta[2]", ["q2.5", "q97.5"]].tolist() == pytest.approx([low, high])
    assert repr(table).split()[:6] == ["mean", "sd", "2.5%", "median", "97.5%", "MCSE"]
    both = sa.summary({"one": fit, "two": fit}, "s", probabilities=0.9)
    assert [*both][2] == "q90"
    assert both.loc[("s", "two"), "r_hat"] == sa.summary(fit).loc["s", "r_hat"]
    for wrong in ([0.0, 0.5], ["x"], [0.1, 0.1], "0.05,0.95"):
        with raises("out_of_range", "probabilities", wrong if isinstance(wrong, str) else ""):
            sa.summary(fit, probabilities=wrong)


def test_fits_of_any_library_are_summarized_side_by_side(fit):
    """Rows of a quantity are together, also if a fit lacks it; folded arrays too."""
    other = results.build({"posterior": {"s": fit.posterior["s"].values}}, {})
    table = sa.summary({"one": fit, "two": other})
    assert list(table.index[:3]) == [("s", "one"), ("s", "two"), ("beta[1]", "one")]
    assert table.xs("one", level="fit").equals(sa.summary(fit).rename_axis("element"))
    printed = repr(table).splitlines()
    assert [line.split()[0] for line in printed[1:]] == [
        "s", "two", "beta[1]", "beta[2]", "z[1..12]", "y", "constant", "failed",
    ]  # fmt: skip
    assert len(repr(sa.summary({"one": fit, "two": fit}, "z")).splitlines()) == 25
    with raises("no_fits"):
        sa.summary({})
    # their dimensions are in another order, and nothing but draws is recorded
    rng = np.random.default_rng(3)
    draws = {"mu": rng.normal(size=(CHAINS, DRAWS)), "t": rng.normal(size=(CHAINS, DRAWS, 3))}
    foreign = az.from_dict(posterior=draws) if az.__version__ < "1" else az.from_dict(
        {"posterior": draws}
    )  # fmt: skip
    table = sa.summary(foreign)
    assert list(table.index) == ["mu", "t[1]", "t[2]", "t[3]"]
    assert table.loc["t[2]", "mean"] == pytest.approx(draws["t"][..., 1].mean())


def test_digits_copies_and_selections_of_a_table(fit):
    table = sa.summary(fit)
    assert type(table[["mean"]]).__name__ == "DataFrame"
    assert table.to_csv().splitlines()[0] == "," + ",".join([*kinds(LEVELS), *MIXING])
    table = sa.summary(fit, "s")
    table["mcse_mean"], table["mean"] = np.nan, 1.23456789
    assert " 1.23 " in repr(table)
    table["sd"] = 0.0  # a constant
    assert " 1.234568 " in repr(table)
    # it has what the table knows; what pandas makes of it is an ordinary frame
    table = sa.summary(fit, "beta")
    for copied in (table.copy(), copy.deepcopy(table)):
        assert (type(copied), copied.attrs) == (type(table), table.attrs)
        assert str(copied) == str(table) != str(pd.DataFrame(table))
    copied.loc["beta[1]", "mean"] = 7.0
    assert table.loc["beta[1]", "mean"] != 7.0
    assert type(table.round(2)) is type(table.copy(deep=False)) is pd.DataFrame


def test_what_cannot_be_summarized_is_named_briefly(fit, caplog):
    with raises("not_a_name", "var_names"):
        sa.summary(fit, var_names=[])
    for wrong in ([fit, fit], {"x": np.zeros((2, 3))}):
        with raises("not_a_fit") as caught:
            sa.summary(wrong)
        assert len(str(caught.value)) < 400
    draws = {"x": np.random.default_rng(1).normal(size=(4, 3))}
    table = sa.summary(results.build({"posterior": draws}, {}))
    assert table.loc["x", "mean"] == pytest.approx(draws["x"].mean())
    assert table.loc["x", "mcse_mean":].isna().all()
    assert not caplog.records
