"""compare(): its numbers and remarks on constructed fits, and its errors."""

import numpy as np
import pytest

import stanadapt as sa
from stanadapt import results
from stanadapt.diagnostics import comparison_table
from stanadapt.errors import codes_of
from tests.helpers import made_up_fits
from tests.helpers.codes import raises


def fit(posterior, **attributes):
    """Build a result with the attributes that every fit has."""
    usual = {
        "sampler": "gad_mala", "program_hash": "p", "data_hash": "d", "warmup_seconds": [1.0, 3.0],
        "sampling_seconds": [2.0, 4.0], "compile_seconds": 7.0, "n_gradients": 5000, "n_density": 0,
        "n_failed": 0, "n_failed_quantities": 0, "n_stopped": 0, "interrupted": False,
    }  # fmt: skip
    return results.build({"posterior": posterior}, usual | attributes)


def normal(seed, shape=(2, 1000), **attributes):
    return fit({"x": np.random.default_rng(seed).normal(size=shape)}, **attributes)


def nuts(seed, independent=True, shape=(2, 1000)):
    engine = "cmdstan 2.27.0" if independent else "stanli 0.24.0"
    return normal(seed, shape, sampler="nuts", engine=engine, engine_independent=independent)


def test_cost_columns():
    row = sa.compare({"a": normal(1, n_failed=3, n_failed_quantities=4, n_stopped=1)}).loc["a"]
    assert row["sampler"] == "gad_mala"
    assert (row["chains"], row["draws"]) == (2, 1000)
    assert (row["seconds_warmup"], row["seconds_sampling"]) == (4.0, 6.0)
    assert row["seconds_compile"] == 7.0
    assert (row["gradients"], row["failed"], row["stopped_chains"]) == (5000, 7, 1)
    assert row["ess_bulk_min"] == pytest.approx(2000, rel=0.3)
    assert row["ess_per_second"] == pytest.approx(row["ess_bulk_min"] / 10)
    assert row["ess_per_gradient"] == pytest.approx(row["ess_bulk_min"] / 5000)
    assert row[["z_mean", "z_sd"]].isna().all()
    without = sa.compare({"a": normal(1, n_gradients=0, n_density=99)}).loc["a"]
    assert np.isnan(without["ess_per_gradient"])
    assert without["densities"] == 99


def test_smallest_and_median_ess():
    rng = np.random.default_rng(3)
    good, poor = rng.normal(size=(2, 1000, 4)), np.cumsum(rng.normal(size=(2, 1000)), axis=1)
    row = sa.compare({"a": fit({"good": good, "poor": poor})}).loc["a"]
    assert row["ess_bulk_min"] < 50
    assert row["ess_bulk_median"] > 1000
    assert row["r_hat_max"] > 1.01
    table = sa.compare({"a": fit({"x": np.ones((2, 50))})})
    assert np.isnan(table.loc["a", "ess_bulk_min"])


@pytest.mark.parametrize("shift", [0.0, 0.2, -1.0])
def test_a_shifted_mean_gives_the_expected_z(shift):
    """Independent draws: the joint error of two means is sqrt(1/n + 1/m); z has spread 1."""
    rng = np.random.default_rng(8)
    a, b = rng.normal(size=(2, 2000)), rng.normal(shift, 1, size=(2, 500))
    table = sa.compare(
        {"a": fit({"x": a}), "n": fit({"x": b}, sampler="nuts", engine="cmdstan 2.27.0")}
    )
    error = np.sqrt(1 / 4000 + 1 / 1000)
    expected = abs(a.mean() - b.mean()) / error
    # the errors are estimated from 1000 and 4000 draws: a few per cent off
    assert table.loc["a", "z_mean"] == pytest.approx(expected, rel=0.15)
    assert table.loc["a", "z_mean"] == pytest.approx(abs(shift) / error, abs=5)
    assert table.loc["a", "z_sd"] < 5
    assert np.isnan(table.loc["n", "z_mean"])


def test_z_is_that_of_wider_sds_and_the_largest_over_columns():
    rng = np.random.default_rng(9)
    a, b = rng.normal(size=(2, 2000)), rng.normal(0, 1.3, size=(2, 2000))
    table = sa.compare({"a": fit({"x": a}), "b": fit({"x": b})}, baseline="b")
    # independent normal draws: the error of the sd is sd / sqrt(2 n)
    error = np.hypot(1.0, 1.3) / np.sqrt(2 * 4000)
    expected = abs(a.std() - b.std()) / error
    assert expected > 15
    assert table.loc["a", "z_sd"] == pytest.approx(expected, rel=0.1)
    assert table.loc["a", "z_mean"] < 5
    rng = np.random.default_rng(4)
    x, y = rng.normal(size=(2, 500)), rng.normal(size=(2, 500, 3))
    shifted = rng.normal(size=(2, 500, 3))
    shifted[..., 1] += 0.5
    a, b = fit({"x": x, "y": y, "only_a": x + 9}), fit({"y": shifted, "x": x, "only_b": x})
    z = sa.compare({"a": a, "b": b}, baseline="b").loc["a", "z_mean"]
    assert z == pytest.approx(0.5 / np.sqrt(2 / 1000), abs=5)
    assert z > 6


def test_fits_without_common_columns_have_no_z():
    rng = np.random.default_rng(4)
    a, b = (fit({name: rng.normal(size=(2, 100))}) for name in ("a", "b"))
    vector = fit({"v": rng.normal(size=(2, 100, 5))})
    frozen = fit({"b": np.ones((2, 100))})
    both = fit({"a": rng.normal(size=(2, 100)), "b": rng.normal(size=(2, 100))})
    fits = {"a": a, "v": vector, "b": b, "frozen": frozen, "both": both}
    table = sa.compare(fits, baseline="b")
    assert table["z_mean"].notna().tolist() == [False, False, False, False, True]
    found = [r for r in comparison_table.remarks(table) if r.code == "unlike_baseline"]
    assert [remark.split(":")[0] for remark in found] == ["a", "v", "frozen"]
    assert "a here, and b there" in found[0]
    assert "v[1], v[2], v[3] and 2 more here" in found[1]
    assert "none here" in found[2]
    assert found[0] in repr(table)
    assert found[0] in table._repr_html_()
    alone = sa.compare({"both": both, "b": b}, baseline="b")
    assert not [r for r in comparison_table.remarks(alone) if r.code == "unlike_baseline"]


@pytest.mark.parametrize(
    ("fits", "chosen", "baseline"),
    [
        ({"a": normal(1), "b": normal(2)}, None, None),  # without stan_nuts
        ({"nuts": normal(1, sampler="nuts"), "a": normal(2)}, None, None),  # our sampler nuts
        ({"nuts": normal(1, sampler="nuts"), "stan_nuts": nuts(2)}, None, "stan_nuts"),
        # CmdStan comes before stanli, and the first of several
        ({"s": nuts(1, independent=False), "a": normal(2), "c": nuts(3)}, None, "c"),
        ({"x": nuts(1), "y": nuts(2)}, None, "x"),
        ({"c": nuts(1), "a": normal(2)}, "a", "a"),
    ],
)
def test_the_baseline(fits, chosen, baseline):
    table = sa.compare(fits, chosen)
    assert table.attrs["baseline"] == baseline
    assert list(table.index) == list(fits)
    compared = baseline is not None
    assert table["z_mean"].notna().tolist() == [compared and name != baseline for name in fits]


@pytest.mark.parametrize("name", [0, "", 0.0])
def test_a_baseline_with_a_name_that_counts_as_false(name):
    table = sa.compare({name: normal(1), "nuts": nuts(2)}, name)
    assert table.attrs["baseline"] == name
    assert table["z_mean"].notna().tolist() == [False, True]


ERRORS = {
    "nothing": ({}, {}, "no_fits", []),
    "a fit": (normal(1), {}, "not_fits_by_name", []),
    "None": ({"a": None}, {}, "not_a_fit", ["'a'"]),
    "a path": ({"a": "fit.nc"}, {}, "not_a_fit", ["'a'"]),
    "no such fit": ({"a": normal(1)}, {"baseline": "b"}, "unknown_baseline", ["'b'", "(a)"]),
    "no such variable": (
        {"a": made_up_fits.fit(1)}, {"var_names": ["a", "q"]}, "unknown_variable",
        ["'q'", "a, b, c"],
    ),
    "log density": (
        {"a": normal(1)}, {"var_names": ["lp__"]}, "unknown_variable", ['["sample_stats"]["lp"]'],
    ),
    "no variable": (
        {"a": made_up_fits.fit(1)}, {"var_names": []}, "unknown_variable", ["var_names", "a, b, c"],
    ),
    "no such budget": (
        {"a": normal(1)}, {"budget": "draws"}, "unknown_budget", ["seconds", "'draws'"],
    ),
    "no cost": (
        {"a": fit({"x": np.ones((2, 9))}, sampling_seconds=np.nan)}, {"budget": "seconds"},
        "cost_not_recorded", ["seconds"],
    ),
    "another program": (
        {"a": normal(1), "b": normal(2, program_hash="other")}, {}, "different_targets",
        ["program", "b (other)", "stanadapt loo"],
    ),
    "other data": (
        {"a": normal(1), "b": normal(2, data_hash="other")}, {}, "different_targets",
        ["data", "b (other)", "`summary`"],
    ),
}  # fmt: skip


@pytest.mark.parametrize(("fits", "options", "code", "facts"), ERRORS.values(), ids=list(ERRORS))
def test_what_cannot_be_compared(fits, options, code, facts):
    with raises(code, *facts):
        sa.compare(fits, **options)


def remarks(**fits):
    return comparison_table.remarks(sa.compare(fits))


def test_remarks_on_the_baseline_r_hat_and_interruptions():
    (remark,) = remarks(a=normal(1), n=nuts(2))
    assert remark.code == "how_to_read"
    assert "n (cmdstan 2.27.0" in remark
    assert codes_of(remarks(a=normal(1), n=nuts(2, independent=False))) == ["shared_density"]
    assert remarks(a=normal(1)) == []
    apart = np.random.default_rng(1).normal(size=(2, 200)) + np.array([[0], [4.0]])
    (reason, regions) = remarks(bad=fit({"x": apart}), good=normal(1))
    assert reason.code == "high_r_hat"
    assert "bad: do not use" in reason
    assert regions.code == "separate_regions"
    assert "bad: " in regions
    assert " 2 " in regions
    cut, stopped = remarks(
        cut=normal(1, interrupted=True, shape=(2, 123)), a=normal(1, n_stopped=2)
    )
    assert (cut.code, stopped.code) == ("interrupted_fit", "stopped_chains")
    assert "123" in cut
    assert "2" in stopped


def modes_of(seed, *centers, chains=4, **attributes):
    """A fit that visits modes of unequal scale; center None: each chain stays in one mode."""
    rng = np.random.default_rng(seed)
    x, y = rng.normal(size=(2, chains, 1000))
    if centers == (None,):
        mode = np.arange(chains)[:, None] % 3
    else:
        mode = rng.choice(centers, size=(chains, 1000))
    return fit({"x": x + 9 * mode, "y": 1000 * y * (1 + mode)}, **attributes)


@pytest.mark.thorough
def test_remark_on_missed_modes():
    fits = {"whole": modes_of(1, 0, 1, 2), "same": modes_of(2, 0, 1, 2), "part": modes_of(3, 0, 1)}
    table = sa.compare(fits)
    (remark,) = comparison_table.remarks(table)
    assert remark.code == "missed_modes"
    assert remark.startswith("part: 3")  # about a third
    assert "whole" in remark or "same" in remark
    assert list(table.attrs["missed"]) == ["part"]
    assert table.loc["part", "missed"] == pytest.approx(1 / 3, abs=0.05)
    assert table.loc["whole", "missed"] < 0.02


def test_baselines_of_one_chain_or_without_a_mode():
    stan = {"sampler": "nuts", "engine": "cmdstan 2.27.0", "engine_independent": True}
    fits = {"ours": modes_of(1, 0, 0, 1), "nuts": modes_of(2, 0, **stan)}
    (about_z, remark) = remarks(**fits)
    assert about_z.code == "how_to_read"
    assert remark.code == "missed_modes"
    assert remark.startswith("nuts: 3")
    assert "ours" in remark
    assert "baseline" in remark
    (missed, judged) = remarks(one=modes_of(1, 0, 1, chains=1), other=modes_of(2, 0))
    assert codes_of([missed, judged]) == ["missed_modes", "one_chain"]
    assert missed.startswith("other: ")
    assert judged.startswith("one: fine")


@pytest.mark.thorough
def test_chains_in_separate_regions_are_not_a_reference_but_may_have_missed_modes():
    stuck, part = modes_of(1, None), modes_of(2, 0, 1)
    table = sa.compare({"stuck": stuck, "part": part})
    assert np.isnan(table.loc["part", "missed"])
    assert table.attrs["separate_regions"] == {"stuck": 3}
    both = comparison_table.remarks(table)
    assert codes_of(both) == ["high_r_hat", "separate_regions"]
    assert all(remark.startswith("stuck: ") for remark in both)
    whole = modes_of(3, 0, 1, 2, 3)
    several = remarks(stuck=stuck, part=part, whole=whole)
    assert [remark.split(":")[0] for remark in several] == ["stuck", "part", "stuck", "stuck"]
    assert codes_of(several)[:2] == ["missed_modes", "missed_modes"]
    assert "whole" in several[0]


def test_fits_with_other_random_data_are_not_compared():
    """Their posteriors differ: a z of 60, or modes that were missed, would be no fault."""
    far = np.random.default_rng(3).normal(60, 1, size=(2, 1000))
    fits = {
        "nuts": fit({"x": far}, engine="cmdstan 2.27.0", random_data="cmdstan 2.27.0, seed 3"),
        "ours": normal(1, random_data="stanli 0.24.0"),
        "more": normal(2, random_data="stanli 0.24.0"),
    }
    table = sa.compare(fits)
    assert table.attrs["baseline"] == "nuts"
    assert table.loc[["ours", "more"], ["z_mean", "z_sd"]].isna().all(axis=None)
    assert table["missed"].max() == 0.0
    assert np.isnan(table.loc["nuts", "missed"])
    (remark,) = [r for r in comparison_table.remarks(table) if r.code == "other_random_data"]
    assert "(nuts; ours, more)" in remark
    alike = sa.compare({"ours": fits["ours"], "more": fits["more"]}, baseline="ours")
    assert alike.loc["more", "z_mean"] < 4.5
    assert comparison_table.remarks(alike)[0].code != "other_random_data"
