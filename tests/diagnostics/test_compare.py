"""compare(): its numbers on constructed fits, and the arguments it refuses."""

import io

import numpy as np
import pandas as pd
import pytest
from rich.console import Console

import stanadapt as sa
from stanadapt import results
from stanadapt.diagnostics import comparison_table
from stanadapt.errors import StanadaptError

SHOWN = [
    "fit", "min ESS", "median", "tail ESS", "R-hat", "warm-up s", "sampling s", "compile s",
    "ESS/s", "gradients", "ESS/grad", "failed", "z mean", "z sd", "missed",
]  # fmt: skip


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


# --- numbers -------------------------------------------------------------------------------------


def test_cost_columns():
    row = sa.compare({"a": normal(1)}, show=False).loc["a"]
    assert row["sampler"] == "gad_mala"
    assert (row["chains"], row["draws"]) == (2, 1000)
    assert (row["seconds_warmup"], row["seconds_sampling"]) == (4.0, 6.0)
    assert row["seconds_compile"] == 7.0
    assert row["gradients"] == 5000
    assert row["ess_bulk_min"] == pytest.approx(2000, rel=0.3)
    assert row["ess_per_second"] == pytest.approx(row["ess_bulk_min"] / 10)
    assert row["ess_per_gradient"] == pytest.approx(row["ess_bulk_min"] / 5000)
    assert np.isnan(row["z_mean"])
    assert np.isnan(row["z_sd"])


def test_smallest_and_median_ess():
    rng = np.random.default_rng(3)
    good, poor = rng.normal(size=(2, 1000, 4)), np.cumsum(rng.normal(size=(2, 1000)), axis=1)
    row = sa.compare({"a": fit({"good": good, "poor": poor})}, show=False).loc["a"]
    assert row["ess_bulk_min"] < 50
    assert row["ess_bulk_median"] > 1000
    assert row["r_hat_max"] > 1.01


def test_samplers_without_gradients_have_no_ess_per_gradient():
    row = sa.compare({"a": normal(1, n_gradients=0, n_density=99)}, show=False).loc["a"]
    assert np.isnan(row["ess_per_gradient"])
    assert row["densities"] == 99


@pytest.mark.parametrize("shift", [0.0, 0.2, -1.0])
def test_a_shifted_mean_gives_the_expected_z(shift):
    """Independent draws: the joint error of two means is sqrt(1/n + 1/m); z has spread 1."""
    rng = np.random.default_rng(8)
    a, b = rng.normal(size=(2, 2000)), rng.normal(shift, 1, size=(2, 500))
    table = sa.compare(
        {"a": fit({"x": a}), "n": fit({"x": b}, sampler="nuts", engine="cmdstan 2.27.0")},
        show=False,
    )
    error = np.sqrt(1 / 4000 + 1 / 1000)
    expected = abs(a.mean() - b.mean()) / error
    # the errors are estimated from 1000 and 4000 draws: a few per cent off
    assert table.loc["a", "z_mean"] == pytest.approx(expected, rel=0.15)
    assert table.loc["a", "z_mean"] == pytest.approx(abs(shift) / error, abs=5)
    assert table.loc["a", "z_sd"] < 5
    assert np.isnan(table.loc["n", "z_mean"])


def test_a_wider_sd_gives_the_expected_z():
    rng = np.random.default_rng(9)
    a, b = rng.normal(size=(2, 2000)), rng.normal(0, 1.3, size=(2, 2000))
    table = sa.compare({"a": fit({"x": a}), "b": fit({"x": b})}, baseline="b", show=False)
    # independent normal draws: the error of the sd is sd / sqrt(2 n)
    error = np.hypot(1.0, 1.3) / np.sqrt(2 * 4000)
    expected = abs(a.std() - b.std()) / error
    assert expected > 15
    assert table.loc["a", "z_sd"] == pytest.approx(expected, rel=0.1)
    assert table.loc["a", "z_mean"] < 5


def test_z_is_the_largest_over_columns_in_common():
    rng = np.random.default_rng(4)
    x, y = rng.normal(size=(2, 500)), rng.normal(size=(2, 500, 3))
    shifted = rng.normal(size=(2, 500, 3))
    shifted[..., 1] += 0.5
    a, b = fit({"x": x, "y": y, "only_a": x + 9}), fit({"y": shifted, "x": x, "only_b": x})
    z = sa.compare({"a": a, "b": b}, baseline="b", show=False).loc["a", "z_mean"]
    assert z == pytest.approx(0.5 / np.sqrt(2 / 1000), abs=5)
    assert z > 6


def test_fits_without_common_columns_have_no_z():
    rng = np.random.default_rng(4)
    a, b = (fit({name: rng.normal(size=(2, 100))}) for name in ("a", "b"))
    table = sa.compare({"a": a, "b": b}, baseline="b", show=False)
    assert np.isnan(table.loc["a", "z_mean"])


def test_constant_columns_only():
    table = sa.compare({"a": fit({"x": np.ones((2, 50))})})
    assert np.isnan(table.loc["a", "ess_bulk_min"])


def test_failures_are_counted():
    row = sa.compare(
        {"a": normal(1, n_failed=3, n_failed_quantities=4, n_stopped=1)}, show=False
    ).loc["a"]
    assert row["failed"] == 7
    assert row["stopped_chains"] == 1


# --- the baseline --------------------------------------------------------------------------------


def test_without_stan_nuts_there_is_no_baseline():
    table = sa.compare({"a": normal(1), "b": normal(2)}, show=False)
    assert table.attrs["baseline"] is None
    assert table["z_mean"].isna().all()


def test_our_own_sampler_nuts_is_not_the_default_baseline():
    own = normal(1, sampler="nuts")
    assert sa.compare({"nuts": own, "a": normal(2)}, show=False).attrs["baseline"] is None
    table = sa.compare({"nuts": own, "stan_nuts": nuts(2)}, show=False)
    assert table.attrs["baseline"] == "stan_nuts"


def test_cmdstan_comes_before_stanli():
    fits = {"s": nuts(1, independent=False), "a": normal(2), "c": nuts(3)}
    table = sa.compare(fits, show=False)
    assert table.attrs["baseline"] == "c"
    assert list(table.index) == ["s", "a", "c"]
    assert np.isfinite(table.loc["s", "z_mean"])


def test_the_first_of_several_stan_nuts_is_the_default_baseline():
    assert sa.compare({"x": nuts(1), "y": nuts(2)}, show=False).attrs["baseline"] == "x"


def test_a_chosen_baseline():
    table = sa.compare({"c": nuts(1), "a": normal(2)}, baseline="a", show=False)
    assert table.attrs["baseline"] == "a"
    assert np.isnan(table.loc["a", "z_mean"])
    assert np.isfinite(table.loc["c", "z_mean"])


# --- errors --------------------------------------------------------------------------------------


def refused(*arguments, **keywords):
    with pytest.raises(StanadaptError) as caught:
        sa.compare(*arguments, **keywords)
    assert caught.value.stage == "settings"
    return caught.value.message


def test_nothing_to_compare():
    assert "at least one" in refused({})


def test_unknown_baseline():
    message = refused({"a": normal(1)}, baseline="b")
    assert "'b'" in message
    assert "(a)" in message


@pytest.mark.parametrize("what", ["program_hash", "data_hash"])
def test_fits_of_different_targets(what):
    message = refused({"a": normal(1), "b": normal(2, **{what: "other"})})
    assert what in message
    assert "b: other" in message


@pytest.mark.parametrize("thing", [1, None, "fit.nc", {"x": 1}])
def test_objects_that_are_not_fits(thing):
    assert "a" in refused({"a": thing})


def test_one_fit_instead_of_a_mapping():
    assert "mapping" in refused(normal(1))


# --- the table -----------------------------------------------------------------------------------


def test_printed_table_has_all_columns(capsys):
    sa.compare({"gad_mala": normal(1), "nuts": nuts(2)})
    printed = capsys.readouterr().out
    head, first, second = printed.splitlines()[:3]
    for title in SHOWN:
        assert title in head
    assert first.split()[0] == "gad_mala"
    assert second.split()[0] == "nuts"
    assert "5,000" in first
    assert "…" not in printed


def test_show_false_prints_nothing(capsys):
    sa.compare({"a": normal(1)}, show=False)
    assert capsys.readouterr().out == ""


def test_a_narrow_pipe_does_not_break_words():
    stream = io.StringIO()
    table = sa.compare({"a_name_of_some_length": normal(1), "nuts": nuts(2)}, show=False)
    comparison_table.show_table(table, Console(file=stream))
    assert "a_name_of_some_length" in stream.getvalue()
    assert "nan" not in stream.getvalue().lower()


def test_names_keep_their_brackets():
    stream = io.StringIO()
    table = sa.compare({"hmc [10 steps]": normal(1)}, show=False)
    comparison_table.show_table(table, Console(file=stream))
    assert "hmc [10 steps]" in stream.getvalue()


def remarks(**fits):
    return comparison_table.remarks(sa.compare(fits, show=False))


def test_remark_on_the_baseline():
    (remark,) = remarks(a=normal(1), n=nuts(2))
    assert "n (cmdstan 2.27.0)" in remark
    assert "joint Monte Carlo standard error" in remark
    assert "shares our density" in remarks(a=normal(1), n=nuts(2, independent=False))[0]
    assert remarks(a=normal(1)) == []


def test_remark_on_r_hat():
    apart = np.random.default_rng(1).normal(size=(2, 200)) + np.array([[0], [4.0]])
    (remark, where) = remarks(bad=fit({"x": apart}), good=normal(1))
    assert remark.startswith("bad: do not use. R-hat of x is ")
    assert where == "bad: its chains lie in 2 separate regions."


def modes_of(seed, *centers, chains=4, **attributes):
    """A fit that visits modes of unequal scale; center None: each chain stays in its own."""
    rng = np.random.default_rng(seed)
    x, y = rng.normal(size=(2, chains, 1000))
    if centers == (None,):
        mode = np.arange(chains)[:, None] % 3
    else:
        mode = rng.choice(centers, size=(chains, 1000))
    return fit({"x": x + 9 * mode, "y": 1000 * y * (1 + mode)}, **attributes)


def test_remark_on_missed_modes():
    fits = {"whole": modes_of(1, 0, 1, 2), "same": modes_of(2, 0, 1, 2), "part": modes_of(3, 0, 1)}
    table = sa.compare(fits, show=False)
    (remark,) = comparison_table.remarks(table)
    assert remark.startswith("part: 3")  # about a third
    assert remark.endswith("lie where it has almost none: it missed modes, or did not reach them.")
    assert "whole" in remark or "same" in remark
    assert table.loc["part", "missed"] == pytest.approx(1 / 3, abs=0.05)
    assert table.loc["whole", "missed"] < 0.02


def test_remark_on_a_baseline_that_missed_modes():
    stan = {"sampler": "nuts", "engine": "cmdstan 2.27.0", "engine_independent": True}
    fits = {"ours": modes_of(1, 0, 0, 1), "nuts": modes_of(2, 0, **stan)}
    (about_z, remark) = remarks(**fits)
    assert about_z.startswith("z: ")
    assert remark.startswith("nuts: 3")
    assert "draws of ours lie where it has almost none" in remark
    assert remark.endswith("It is the baseline of z.")


def test_chains_in_separate_regions_are_no_yardstick_but_may_have_missed_modes():
    stuck, part = modes_of(1, None), modes_of(2, 0, 1)
    table = sa.compare({"stuck": stuck, "part": part}, show=False)
    assert np.isnan(table.loc["part", "missed"])
    assert table.attrs["separate_regions"] == {"stuck": 3}
    (remark, where) = comparison_table.remarks(table)
    assert remark.startswith("stuck: do not use. R-hat of x is ")
    assert where == "stuck: its chains lie in 3 separate regions."
    whole = modes_of(3, 0, 1, 2, 3)
    several = remarks(stuck=stuck, part=part, whole=whole)
    assert [remark.split(":")[0] for remark in several] == ["stuck", "part", "stuck", "stuck"]
    assert "draws of whole lie where it has almost none" in several[0]


def test_slow_chains_are_not_called_separate():
    steps = np.random.default_rng(5).normal(size=(4, 1000)).cumsum(axis=1)
    (remark,) = remarks(slow=fit({"x": steps - steps.mean(axis=1, keepdims=True) * 0.8}))
    assert "the chains disagree" in remark


def test_a_single_chain_may_be_the_yardstick():
    (missed, judged) = remarks(one=modes_of(1, 0, 1, chains=1), other=modes_of(2, 0))
    assert missed.startswith("other: ")
    assert judged.startswith("one: fine. There is one chain")


def test_remark_on_an_interruption():
    (remark,) = remarks(cut=normal(1, interrupted=True, shape=(2, 123)))
    assert remark == "cut: interrupted; 123 draws per chain."


def test_remark_on_stopped_chains():
    assert remarks(a=normal(1, n_stopped=2)) == ["a: failed chains, left out: 2."]


def test_the_table_can_be_written_and_read(tmp_path):
    table = sa.compare({"a": normal(1), "n": nuts(2)}, show=False)
    table.to_csv(tmp_path / "table.csv", index_label="fit")
    again = pd.read_csv(tmp_path / "table.csv", index_col="fit")
    assert list(again.index) == ["a", "n"]
    assert again.loc["a", "z_mean"] == pytest.approx(table.loc["a", "z_mean"])


def test_with_real_fits():
    target = sa.Target("parameters { real x; } model { x ~ normal(0, 1); }")
    run = {"chains": 2, "iter_warmup": 100, "iter_sampling": 500, "show_progress": False}
    fast = sa.sample(target, "gad_mala", seed=1, initial_scale=1.5, **run)
    with pytest.warns(UserWarning, match="shares its density"):
        embedded = sa.stan_nuts(target, backend="stanli", seed=1, **run)
    table = sa.compare({"fast": fast, "nuts": embedded}, show=False)
    assert table.attrs["baseline"] == "nuts"
    assert table.loc["fast", "z_mean"] < 5
    assert table.loc["fast", "gradients"] == fast.attrs["n_gradients"]
